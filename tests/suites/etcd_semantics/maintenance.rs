//! The Maintenance service, as far as a server alone answers it.

use etcd::etcdserverpb::{
    AlarmRequest, AlarmType, CompactionRequest, HashKvRequest, HashRequest, MoveLeaderRequest, RangeRequest, StatusRequest,
    alarm_request::AlarmAction,
};

use crate::talk::{Talk, delete, get, put, since_3_6};

crate::cases![
    a_server_tells_its_status,
    alarms_are_raised_listed_and_taken_back,
    a_server_out_of_space_refuses_what_needs_more,
    a_corrupt_server_takes_nothing,
    a_state_is_hashed,
    history_is_hashed_up_to_a_revision,
    a_hash_of_what_is_not_there_is_refused,
    the_leadership_goes_to_members_only,
];

async fn a_server_tells_its_status(talk: &mut Talk) {
    talk.put("a", "1").await;
    talk.ask(StatusRequest {}, "@1 leads sized").await;
    let status = talk.get(StatusRequest {}).await;
    assert!(status.raft_index > 0 && status.raft_applied_index > 0, "{status:?}");
    if talk.is_3_6 {
        let (storage, quota) = (status.storage_version.as_str(), status.db_size_quota);
        assert_eq!((storage, quota, status.downgrade_info.unwrap().enabled), ("3.6.0", 2 << 30, false));
    }
}

fn alarm(action: AlarmAction, member_id: u64, kind: AlarmType) -> AlarmRequest {
    AlarmRequest { action: action.into(), member_id, alarm: kind.into() }
}

async fn alarms_are_raised_listed_and_taken_back(talk: &mut Talk) {
    use AlarmAction::{Activate, Deactivate, Get};
    use AlarmType::{Corrupt, None, Nospace};
    let own = talk.frame.member;
    talk.ask(alarm(Get, 0, None), "@0 []").await;
    talk.ask(alarm(Activate, own, None), "@0 []").await;
    talk.ask(alarm(Activate, own, Nospace), "@0 [self NOSPACE]").await;
    talk.ask(alarm(Activate, own, Nospace), "@0 [self NOSPACE]").await;
    talk.ask(alarm(Get, 0, None), "@0 [self NOSPACE]").await;
    talk.ask(alarm(Get, 5, None), "@0 [self NOSPACE]").await;
    talk.ask(alarm(Get, 0, Nospace), "@0 [self NOSPACE]").await;
    talk.ask(alarm(Get, 0, Corrupt), "@0 []").await;
    let status = format!("@0 leads sized [\"memberID:{own} alarm:NOSPACE \"]");
    talk.ask(StatusRequest {}, status).await;
    talk.ask(alarm(Deactivate, 0, None), "@0 []").await;
    talk.ask(alarm(Deactivate, own, None), "@0 []").await;
    talk.ask(alarm(Deactivate, 5, Nospace), "@0 []").await;
    talk.ask(alarm(Deactivate, own, Nospace), "@0 [self NOSPACE]").await;
    talk.ask(alarm(Deactivate, own, Nospace), "@0 []").await;
    talk.ask(alarm(Get, 0, None), "@0 []").await;
}

async fn a_server_out_of_space_refuses_what_needs_more(talk: &mut Talk) {
    use etcd::etcdserverpb::{LeaseGrantRequest, RequestOp, TxnRequest, request_op::Request};
    let full = "ResourceExhausted: etcdserver: mvcc: database space exceeded";
    let then = |request| TxnRequest { success: vec![RequestOp { request: Some(request) }], ..Default::default() };
    talk.put("a", "1").await;
    talk.put("b", "1").await;
    talk.get(alarm(AlarmAction::Activate, talk.frame.member, AlarmType::Nospace)).await;
    talk.ask(put("a", "2"), full).await;
    talk.ask(LeaseGrantRequest { id: 7, ttl: 60 }, full).await;
    talk.ask(then(Request::RequestPut(put("a", "2"))), full).await;
    talk.ask(get("a"), "@2 [a=1 c1 m1 v1] of 1").await;
    talk.ask(then(Request::RequestRange(get("a"))), "@2 then {range ~2 [a=1 c1 m1 v1] of 1}").await;
    talk.ask(then(Request::RequestDeleteRange(delete("b"))), "@3 then {delete ~3 deleted 1}").await;
    talk.ask(delete("a"), "@4 deleted 1").await;
    talk.ask(CompactionRequest { revision: talk.at(3), physical: false }, "@4").await;
    talk.get(alarm(AlarmAction::Deactivate, talk.frame.member, AlarmType::Nospace)).await;
    talk.ask(put("a", "2"), "@5").await;
}

async fn a_corrupt_server_takes_nothing(talk: &mut Talk) {
    use etcd::etcdserverpb::{LeaseGrantRequest, LeaseRevokeRequest};
    let corrupt = "DataLoss: etcdserver: corrupt cluster";
    talk.put("a", "1").await;
    talk.grant(7, 600).await;
    talk.get(alarm(AlarmAction::Activate, talk.frame.member, AlarmType::Corrupt)).await;
    talk.ask(put("a", "2"), corrupt).await;
    talk.ask(get("a"), "@1 [a=1 c1 m1 v1] of 1").await;
    talk.ask(RangeRequest { serializable: true, ..get("a") }, "@1 [a=1 c1 m1 v1] of 1").await;
    talk.ask(delete("a"), corrupt).await;
    talk.ask(CompactionRequest { revision: talk.at(1), physical: false }, corrupt).await;
    talk.ask(LeaseGrantRequest { id: 8, ttl: 60 }, corrupt).await;
    talk.ask(LeaseRevokeRequest { id: 7 }, corrupt).await;
    talk.ask(alarm(AlarmAction::Deactivate, talk.frame.member, AlarmType::Corrupt), "@1 [self CORRUPT]").await;
    talk.ask(get("a"), "@1 [a=1 c1 m1 v1] of 1").await;
}

async fn a_state_is_hashed(talk: &mut Talk) {
    talk.put("a", "1").await;
    talk.ask(HashRequest {}, "@1").await;
    let before = talk.get(HashRequest {}).await.hash;
    talk.put("a", "1").await;
    talk.ask(HashRequest {}, "@2").await;
    assert_ne!(talk.get(HashRequest {}).await.hash, before);
}

async fn history_is_hashed_up_to_a_revision(talk: &mut Talk) {
    for value in ["1", "2", "3", "4"] {
        talk.put("a", value).await;
    }
    talk.get(CompactionRequest { revision: talk.at(2), physical: true }).await;
    let up_to = |revision| HashKvRequest { revision };
    talk.ask(up_to(0), since_3_6("@4 compacted 2 hashed none", "@4 compacted 2 hashed 4")).await;
    talk.ask(up_to(talk.at(3)), since_3_6("@4 compacted 2 hashed none", "@4 compacted 2 hashed 3")).await;
    let then = talk.get(up_to(talk.at(3))).await.hash;
    assert_ne!(talk.get(up_to(0)).await.hash, then);
    talk.put("b", "1").await;
    assert_eq!(talk.get(up_to(talk.at(3))).await.hash, then, "what comes later does not count");
}

async fn a_hash_of_what_is_not_there_is_refused(talk: &mut Talk) {
    for value in ["1", "2", "3"] {
        talk.put("a", value).await;
    }
    talk.get(CompactionRequest { revision: talk.at(2), physical: true }).await;
    let future = "OutOfRange: etcdserver: mvcc: required revision is a future revision";
    talk.ask(HashKvRequest { revision: talk.at(4) }, future).await;
    let compacted = "OutOfRange: etcdserver: mvcc: required revision has been compacted";
    talk.ask(HashKvRequest { revision: talk.at(1) }, compacted).await;
}

async fn the_leadership_goes_to_members_only(talk: &mut Talk) {
    talk.ask(MoveLeaderRequest { target_id: 5 }, "FailedPrecondition: etcdserver: bad leader transferee").await;
    talk.ask(MoveLeaderRequest { target_id: 0 }, "FailedPrecondition: etcdserver: bad leader transferee").await;
    talk.ask(MoveLeaderRequest { target_id: talk.frame.member }, "headless").await;
}
