//! Members of the store are cut from each other by the kernel, with clients of the store and of the API server at work all the
//! time and everything they saw checked afterwards.

use std::time::Duration;

use etcd::client::Tls;
use tests::api_traffic::ApiTraffic;
use tests::traffic::{Door, Shape, Traffic};
use tests::{Compose, within};

const MEMBERS: [&str; 3] = ["store-1", "store-2", "store-3"];
const ALL: [usize; 3] = [0, 1, 2];
/// From a cut to a write by those who still have a quorum, and from its end to a write by all; after that, until every watcher of
/// the API server has been shown a new write.
const RECOVER: Duration = Duration::from_secs(15);

pub(crate) fn no_cut_between_members_costs_a_write_or_an_event() {
    let cluster = Compose::up();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // Connections are made inside it.
    let _inside = runtime.enter();
    runtime.block_on(async {
        let shape = Shape { prefix: "/cuts/".to_owned(), alone: false, writers: 1, ..Shape::default() };
        let traffic = Traffic::start(4711, shape, doors(&cluster)).await;
        traffic.writes_through(&ALL).await;
        let objects = ApiTraffic::start(4711, &cluster.kubeconfig(), doors(&cluster)).await;
        objects.reaches_everybody().await;
        is_cut_in_every_way(&cluster, &traffic, &objects).await;
        let of_objects = objects.end().await.unwrap_or_else(|violation| panic!("through the API server: {violation}"));
        eprintln!("{of_objects:?}");
        assert!(of_objects.acknowledged > 50, "{of_objects:?}");
        let summary = traffic.end().await.unwrap_or_else(|violation| panic!("{violation}"));
        eprintln!("{summary:?}");
        assert!(summary.acknowledged > 50, "{summary:?}");
    });
}

fn doors(cluster: &Compose) -> Vec<Door> {
    let read = |name: &str| std::fs::read(cluster.directory().join("pki/etcd").join(name)).unwrap();
    let identity = Some((read("healthcheck-client.crt"), read("healthcheck-client.key")));
    let tls = Tls { ca: read("ca.crt"), identity };
    MEMBERS.iter().map(|member| Door::new(member, &cluster.endpoints(&[member]), Some(&tls))).collect()
}

/// The member that leads, then the others.
fn leader_first(cluster: &Compose) -> [usize; 3] {
    let leader = within(Duration::from_secs(20), "a leader", || {
        let found = ALL.into_iter().find(|member| {
            let output = cluster.etcdctl(&[MEMBERS[*member]], &["--command-timeout=2s", "endpoint", "status", "-w", "json"]);
            let status: serde_json::Value = serde_json::from_str(&output.out).unwrap_or_default();
            let status = &status[0]["Status"];
            !status.is_null() && status["leader"] == status["header"]["member_id"]
        });
        found.ok_or_else(|| "none".to_owned())
    });
    [leader, (leader + 1) % 3, (leader + 2) % 3]
}

/// The name of a cut, how it is made between the leader and the others, and who can write then.
type Cut = (&'static str, fn(&Compose, [&str; 3]), fn([usize; 3]) -> [usize; 2]);

const CUTS: [Cut; 6] = [
    ("an isolated leader", |cluster, [leader, a, b]| [a, b].iter().for_each(|other| cluster.cut(leader, other)), |[_, a, b]| [a, b]),
    ("an isolated follower", |cluster, [leader, a, b]| [leader, b].iter().for_each(|other| cluster.cut(a, other)), |[l, _, b]| [l, b]),
    ("a mute leader", |cluster, [leader, a, b]| [a, b].iter().for_each(|other| cluster.cut_one_way(leader, other)), |[_, a, b]| [a, b]),
    ("a deaf leader", |cluster, [leader, a, b]| [a, b].iter().for_each(|other| cluster.cut_one_way(other, leader)), |[_, a, b]| [a, b]),
    ("a mute follower", |cluster, [leader, a, b]| [leader, b].iter().for_each(|other| cluster.cut_one_way(a, other)), |[l, _, b]| [l, b]),
    ("a deaf follower", |cluster, [leader, a, b]| [leader, b].iter().for_each(|other| cluster.cut_one_way(other, a)), |[l, _, b]| [l, b]),
];

async fn is_cut_in_every_way(cluster: &Compose, traffic: &Traffic, objects: &ApiTraffic) {
    for (name, cut, left) in CUTS {
        let roles = leader_first(cluster);
        cut(cluster, roles.map(|member| MEMBERS[member]));
        let took = [traffic.writes_through(&left(roles)).await, objects.reaches_everybody().await];
        cluster.heal();
        let healed = [traffic.writes_through(&ALL).await, objects.reaches_everybody().await];
        eprintln!("{name}: writing, and shown to everybody, after {took:?}; by all after {healed:?}");
        assert!(took.iter().chain(&healed).all(|time| *time <= RECOVER), "{name}: {took:?}, {healed:?}");
    }
}
