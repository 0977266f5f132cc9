//! What the operator asks of one member: hashes, a smaller database, going back a version.

use etcd::etcdserverpb::{
    CompactionRequest, DefragmentRequest, DowngradeRequest, HashKvRequest, HashRequest, MoveLeaderRequest,
    downgrade_request::DowngradeAction,
};

use crate::support::{Cluster, Member, eventually, get, put};

#[tokio::test(flavor = "multi_thread")]
async fn every_member_has_the_same_hash_at_the_same_revision() {
    let cluster = Cluster::start(3).await;
    for i in 0..20 {
        put(&mut cluster.members[i % 3].kv(), &format!("key-{}", i % 7), "value").await.unwrap();
    }
    cluster.members[0].kv().compact(CompactionRequest { revision: 10, physical: false }).await.unwrap();
    put(&mut cluster.members[0].kv(), "last", "1").await.unwrap();
    for revision in [12, 21, 0] {
        let mut hashes = Vec::new();
        for member in &cluster.members {
            assert!(get(&mut member.kv(), "last").await.unwrap().is_some());
            let response = member.maintenance().hash_kv(HashKvRequest { revision }).await.unwrap().into_inner();
            hashes.push((response.hash, response.compact_revision, response.hash_revision));
        }
        assert!(hashes.iter().all(|hash| *hash == hashes[0]), "at {revision}: {hashes:?}");
        assert_eq!((hashes[0].1, hashes[0].2), (10, if revision == 0 { 22 } else { revision }));
    }
    let ask = async |revision| cluster.members[1].maintenance().hash_kv(HashKvRequest { revision }).await.unwrap_err();
    assert_eq!(ask(5).await.message(), "etcdserver: mvcc: required revision has been compacted");
    assert_eq!(ask(99).await.message(), "etcdserver: mvcc: required revision is a future revision");
    let all = async |member: &Member| member.maintenance().hash(HashRequest {}).await.unwrap().into_inner().hash;
    assert_eq!(all(&cluster.members[0]).await, all(&cluster.members[1]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn defragmenting_makes_the_database_smaller_and_keeps_serving() {
    let cluster = Cluster::start(1).await;
    let member = &cluster.members[0];
    let noise = |i: usize| (0..20_000).map(|j| char::from(b'!' + ((i * 7919 + j * j * 31 + j / 3) % 90) as u8)).collect::<String>();
    for i in 0..400 {
        put(&mut member.kv(), "key", &noise(i)).await.unwrap();
    }
    let full = member.status().await.unwrap();
    assert!(full.db_size >= full.db_size_in_use && full.db_size_in_use > 0);
    member.kv().compact(CompactionRequest { revision: 401, physical: true }).await.unwrap();
    let defragment = async { member.maintenance().defragment(DefragmentRequest {}).await };
    let serve = async { put(&mut member.kv(), "other", "1").await };
    let (defragmented, served) = tokio::join!(defragment, serve);
    defragmented.unwrap();
    served.unwrap();
    let after = member.status().await.unwrap();
    assert!(after.db_size < full.db_size / 4, "{} bytes became {}", full.db_size, after.db_size);
    assert_eq!(get(&mut member.kv(), "key").await.unwrap().unwrap(), noise(399));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downgrade_is_checked_announced_and_taken_back() {
    let cluster = Cluster::start(1).await;
    let member = &cluster.members[0];
    let ask = async |action: DowngradeAction, version: &str| {
        let request = DowngradeRequest { action: action as i32, version: version.to_owned() };
        member
            .maintenance()
            .downgrade(request)
            .await
            .map(|response| response.into_inner().version)
            .map_err(|status| status.message().to_owned())
    };
    let announced = async || {
        let info = member.status().await.unwrap().downgrade_info.unwrap();
        (info.enabled, info.target_version)
    };
    use DowngradeAction::{Cancel, Enable, Validate};
    assert_eq!(ask(Validate, "3.5").await.unwrap(), "3.6");
    assert_eq!(ask(Validate, "3.4.0").await.unwrap_err(), "etcdserver: invalid downgrade target version");
    assert_eq!(ask(Validate, "soon").await.unwrap_err(), "etcdserver: wrong downgrade target version format");
    assert_eq!(announced().await, (false, String::new()));
    ask(Enable, "3.5.0").await.unwrap();
    assert_eq!(announced().await, (true, "3.5.0".to_owned()));
    assert_eq!(ask(Enable, "3.5.0").await.unwrap_err(), "etcdserver: cluster has a downgrade job in progress");
    ask(Cancel, "").await.unwrap();
    assert_eq!(announced().await, (false, String::new()));
    ask(Cancel, "").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leadership_moves_where_it_is_told() {
    let cluster = Cluster::start(3).await;
    let leader = cluster.leader().await;
    let id = async |position: usize| cluster.members[position].status().await.unwrap().header.unwrap().member_id;
    let (next, third) = ((leader + 1) % 3, (leader + 2) % 3);
    let ask = async |at: usize, target| cluster.members[at].maintenance().move_leader(MoveLeaderRequest { target_id: target }).await;
    let refused = ask(third, id(next).await).await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: not leader");
    assert_eq!(ask(leader, 12345).await.unwrap_err().message(), "etcdserver: bad leader transferee");
    ask(leader, id(next).await).await.unwrap();
    let heir = id(next).await;
    for member in &cluster.members {
        eventually("all follow the new leader", async || member.status().await.ok().filter(|status| status.leader == heir)).await;
    }
}
