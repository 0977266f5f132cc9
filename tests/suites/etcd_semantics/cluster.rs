//! The Cluster service, as far as a server alone answers it.

use etcd::etcdserverpb::{
    LeaseRevokeRequest, MemberAddRequest, MemberListRequest, MemberPromoteRequest, MemberRemoveRequest, MemberUpdateRequest,
};

use crate::talk::{Talk, since_3_6};

crate::cases![
    a_member_lists_itself,
    members_that_are_not_cannot_be_changed,
    addresses_must_be_urls,
    a_learner_is_added_listed_and_removed,
    a_member_changes_its_address,
];

const SELF: &str = r#"self "default" peers 1 clients 1"#;

fn urls(urls: &[&str]) -> Vec<String> {
    urls.iter().map(ToString::to_string).collect()
}

/// An etcd forgets a change of the membership that is asked for before its Raft has taken note of the one before.
async fn settle(talk: &Talk) {
    for id in [1, 2] {
        talk.grant(id, 60).await;
        talk.get(LeaseRevokeRequest { id }).await;
    }
}

async fn a_member_lists_itself(talk: &mut Talk) {
    talk.put("a", "1").await;
    for linearizable in [true, false] {
        let expected = since_3_6(&format!("@none [{SELF}]"), &format!("@1 [{SELF}]"));
        talk.ask(MemberListRequest { linearizable }, expected).await;
    }
}

async fn members_that_are_not_cannot_be_changed(talk: &mut Talk) {
    let unknown = "NotFound: etcdserver: member not found";
    settle(talk).await;
    talk.ask(MemberRemoveRequest { id: 5 }, unknown).await;
    settle(talk).await;
    talk.ask(MemberUpdateRequest { id: 5, peer_ur_ls: urls(&["http://127.0.0.1:9"]) }, unknown).await;
    settle(talk).await;
    talk.ask(MemberPromoteRequest { id: 5 }, unknown).await;
    settle(talk).await;
    let voter = "FailedPrecondition: etcdserver: can only promote a learner member";
    talk.ask(MemberPromoteRequest { id: talk.frame.member }, voter).await;
}

async fn addresses_must_be_urls(talk: &mut Talk) {
    for wrong in [&[][..], &["127.0.0.1:9"], &["http://127.0.0.1"], &["http://127.0.0.1:9/path"], &["ftp://127.0.0.1:9"]] {
        let add = MemberAddRequest { peer_ur_ls: urls(wrong), is_learner: true };
        talk.ask(add, "InvalidArgument: etcdserver: given member URLs are invalid").await;
    }
}

async fn a_learner_is_added_listed_and_removed(talk: &mut Talk) {
    let learner = r#"other "" peers 1 clients 0 learner"#;
    let add = |url| MemberAddRequest { peer_ur_ls: urls(&[url]), is_learner: true };
    settle(talk).await;
    let added = talk.get(add("http://127.0.0.1:9")).await;
    let id = added.member.unwrap().id;
    let listed = talk.get(MemberListRequest { linearizable: true }).await.members;
    let mut listed: Vec<_> = listed.iter().map(|member| talk.frame.member(member)).collect();
    listed.sort();
    assert_eq!(listed, [learner, SELF]);
    settle(talk).await;
    talk.ask(add("http://127.0.0.1:10"), "FailedPrecondition: etcdserver: too many learner members in cluster").await;
    let not_ready = "FailedPrecondition: etcdserver: can only promote a learner member which is in sync with leader";
    talk.ask(MemberPromoteRequest { id }, not_ready).await;
    settle(talk).await;
    talk.ask(MemberRemoveRequest { id }, since_3_6(&format!("@none [{SELF}]"), &format!("@0 [{SELF}]"))).await;
    settle(talk).await;
    let gone = "NotFound: etcdserver: member not found";
    talk.ask(MemberRemoveRequest { id }, gone).await;
}

async fn a_member_changes_its_address(talk: &mut Talk) {
    let before = talk.get(MemberListRequest { linearizable: true }).await.members.remove(0).peer_ur_ls;
    let id = talk.frame.member;
    let update = |peer_ur_ls| MemberUpdateRequest { id, peer_ur_ls };
    let moved = r#"self "default" peers 2 clients 1"#;
    let two = urls(&["http://127.0.0.1:2380", "http://127.0.0.1:2390"]);
    settle(talk).await;
    talk.ask(update(two), since_3_6(&format!("@none [{moved}]"), &format!("@0 [{moved}]"))).await;
    settle(talk).await;
    talk.ask(update(before), since_3_6(&format!("@none [{SELF}]"), &format!("@0 [{SELF}]"))).await;
}
