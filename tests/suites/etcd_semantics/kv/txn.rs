//! What transactions do.

use etcd::etcdserverpb::{
    DeleteRangeRequest, LeaseTimeToLiveRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
    compare::{
        CompareResult::Equal,
        TargetUnion::{Value, Version},
    },
    request_op::Request,
};

use super::compare::{asks, compare};
use crate::talk::{Talk, delete, get, put, range};

crate::cases![
    one_branch_runs_and_answers_in_order,
    a_transaction_is_one_revision,
    a_transaction_that_changes_nothing_has_no_revision,
    answers_tell_the_revision_of_their_moment,
    nested_transactions_compare_what_was_before,
    nested_transactions_read_what_was_written,
    a_key_is_written_once,
    everything_from_a_key_may_be_deleted_beside_what_is_put,
    what_can_never_both_happen_may_be_written_twice,
    every_part_is_checked_whichever_branch_it_is_in,
    what_depends_on_the_state_is_checked_in_the_branch_that_runs,
    nothing_is_written_when_something_is_refused,
    a_transaction_has_a_longest_length,
    writes_take_all_their_options,
];

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

fn reads(request: RangeRequest) -> RequestOp {
    op(Request::RequestRange(request))
}

fn puts(key: &str, value: &str) -> RequestOp {
    op(Request::RequestPut(put(key, value)))
}

fn deletes(key: &str) -> RequestOp {
    op(Request::RequestDeleteRange(delete(key)))
}

fn deletes_range(key: &str, end: &str) -> RequestOp {
    op(Request::RequestDeleteRange(DeleteRangeRequest { range_end: end.to_owned().into(), ..delete(key) }))
}

fn nested(txn: TxnRequest) -> RequestOp {
    op(Request::RequestTxn(txn))
}

fn then(success: Vec<RequestOp>) -> TxnRequest {
    TxnRequest { success, ..Default::default() }
}

async fn one_branch_runs_and_answers_in_order(talk: &mut Talk) {
    talk.put("a", "1").await;
    let either = |value: &'static str| TxnRequest {
        compare: vec![compare("a", Equal, Value(value.into()))],
        success: vec![puts("b", "2"), reads(range("a", "z")), deletes("a")],
        failure: vec![reads(get("b")), puts("c", "3")],
    };
    let won = "@2 then {put ~2; range ~2 [a=1 c1 m1 v1, b=2 c2 m2 v1] of 2; delete ~2 deleted 1}";
    talk.ask(either("1"), won).await;
    talk.ask(either("1"), "@3 else {range ~2 [b=2 c2 m2 v1] of 1; put ~3}").await;
    talk.ask(range("a", "z"), "@3 [b=2 c2 m2 v1, c=3 c3 m3 v1] of 2").await;
}

async fn a_transaction_is_one_revision(talk: &mut Talk) {
    talk.put("d", "1").await;
    let many = then(vec![puts("a", "1"), puts("b", "2"), deletes("d"), nested(then(vec![puts("c", "3")]))]);
    talk.ask(many, "@2 then {put ~2; put ~2; delete ~2 deleted 1; txn ~none then {put ~2}}").await;
    talk.ask(range("a", "z"), "@2 [a=1 c2 m2 v1, b=2 c2 m2 v1, c=3 c2 m2 v1] of 3").await;
}

async fn a_transaction_that_changes_nothing_has_no_revision(talk: &mut Talk) {
    talk.put("a", "1").await;
    talk.ask(then(vec![]), "@1 then {}").await;
    talk.ask(then(vec![deletes("b")]), "@1 then {delete ~1 deleted 0}").await;
    talk.ask(then(vec![reads(get("a"))]), "@1 then {range ~1 [a=1 c1 m1 v1] of 1}").await;
    let local = RangeRequest { serializable: true, ..get("a") };
    talk.ask(then(vec![reads(local)]), "@1 then {range ~1 [a=1 c1 m1 v1] of 1}").await;
    let unless = TxnRequest { compare: vec![compare("a", Equal, Version(9))], success: vec![puts("a", "2")], ..Default::default() };
    talk.ask(unless, "@1 else {}").await;
}

async fn answers_tell_the_revision_of_their_moment(talk: &mut Talk) {
    talk.put("a", "1").await;
    let request = then(vec![reads(get("a")), deletes("x"), puts("b", "2"), reads(get("b")), deletes("y")]);
    let answer = "@2 then {range ~1 [a=1 c1 m1 v1] of 1; delete ~1 deleted 0; put ~2; range ~2 [b=2 c2 m2 v1] of 1; \
                  delete ~2 deleted 0}";
    talk.ask(request, answer).await;
    let nothing_first = then(vec![deletes("x"), nested(then(vec![reads(get("a")), puts("y", "1")])), reads(get("a"))]);
    let answer = "@3 then {delete ~2 deleted 0; txn ~none then {range ~2 [a=1 c1 m1 v1] of 1; put ~3}; range ~3 [a=1 c1 m1 v1] of 1}";
    talk.ask(nothing_first, answer).await;
}

async fn nested_transactions_compare_what_was_before(talk: &mut Talk) {
    talk.put("a", "1").await;
    let inner = TxnRequest {
        compare: vec![compare("a", Equal, Value("1".into()))],
        success: vec![puts("b", "old")],
        failure: vec![puts("b", "new")],
    };
    talk.ask(then(vec![puts("a", "2"), nested(inner.clone())]), "@2 then {put ~2; txn ~none then {put ~2}}").await;
    talk.ask(range("a", "z"), "@2 [a=2 c1 m2 v2, b=old c2 m2 v1] of 2").await;
    let deep = then(vec![nested(then(vec![puts("c", "1"), nested(inner.clone())])), nested(asks(vec![compare("b", Equal, Version(1))]))]);
    let answer = "@3 then {txn ~none then {put ~3; txn ~none else {put ~3}}; txn ~none then {}}";
    talk.ask(deep, answer).await;
    talk.ask(get("b"), "@3 [b=new c2 m3 v2] of 1").await;
}

async fn nested_transactions_read_what_was_written(talk: &mut Talk) {
    let inner = then(vec![reads(range("a", "z")), puts("b", "2")]);
    let request = then(vec![puts("a", "1"), nested(inner), reads(get("b"))]);
    let answer = "@1 then {put ~1; txn ~none then {range ~1 [a=1 c1 m1 v1] of 1; put ~1}; range ~1 [b=2 c1 m1 v1] of 1}";
    talk.ask(request, answer).await;
    let past = RangeRequest { revision: talk.at(1), ..get("a") };
    let request = then(vec![puts("a", "2"), reads(past), reads(get("a"))]);
    talk.ask(request, "@2 then {put ~2; range ~2 [a=1 c1 m1 v1] of 1; range ~2 [a=2 c1 m2 v2] of 1}").await;
}

async fn a_key_is_written_once(talk: &mut Talk) {
    let inner = |key| nested(then(vec![puts(key, "")]));
    for success in [
        vec![puts("a", "1"), puts("a", "1")],
        vec![puts("a", "1"), deletes("a")],
        vec![deletes("a"), puts("a", "1")],
        vec![puts("b", "1"), deletes_range("a", "c")],
        vec![puts("a", "1"), inner("a")],
        vec![deletes("a"), inner("a")],
        vec![inner("a"), inner("a")],
        vec![nested(then(vec![deletes("a")])), puts("a", "1")],
        vec![nested(then(vec![inner("a")])), inner("a")],
        vec![nested(TxnRequest { failure: vec![puts("a", "")], ..Default::default() }), puts("a", "")],
    ] {
        let failure = success.clone();
        let refused = "InvalidArgument: etcdserver: duplicate key given in txn request";
        talk.ask(then(success), refused).await;
        talk.ask(TxnRequest { failure, ..Default::default() }, refused).await;
    }
}

async fn what_can_never_both_happen_may_be_written_twice(talk: &mut Talk) {
    let either = TxnRequest { success: vec![puts("a", "1")], failure: vec![puts("a", "2"), deletes("b")], ..Default::default() };
    talk.ask(either.clone(), "@1 then {put ~1}").await;
    talk.ask(then(vec![nested(either)]), "@2 then {txn ~none then {put ~2}}").await;
    talk.ask(then(vec![deletes("a"), deletes_range("a", "c")]), "@3 then {delete ~3 deleted 1; delete ~3 deleted 0}").await;
    let after = then(vec![nested(then(vec![puts("a", "1")])), nested(then(vec![deletes("a")]))]);
    talk.ask(after, "@4 then {txn ~none then {put ~4}; txn ~none then {delete ~4 deleted 1}}").await;
}

async fn everything_from_a_key_may_be_deleted_beside_what_is_put(talk: &mut Talk) {
    talk.put("b", "1").await;
    let request = then(vec![deletes_range("a", "\0"), puts("zz", "1")]);
    talk.ask(request, "@2 then {delete ~2 deleted 1; put ~2}").await;
    talk.ask(range("a", "\0"), "@2 [zz=1 c2 m2 v1] of 1").await;
    let request = then(vec![puts("a", "1"), puts("zz", "2"), deletes_range("a", "\0")]);
    talk.ask(request, "@3 then {put ~3; put ~3; delete ~3 deleted 2}").await;
    talk.ask(range("a", "\0"), "@3 [] of 0").await;
    talk.ask(put("zz", "3"), "@4").await;
    talk.ask(get("zz"), "@4 [zz=3 c4 m4 v1] of 1").await;
    let past = RangeRequest { revision: talk.at(2), ..range("a", "\0") };
    talk.ask(past, "@4 [zz=1 c2 m2 v1] of 1").await;
}

async fn every_part_is_checked_whichever_branch_it_is_in(talk: &mut Talk) {
    let no_key = "InvalidArgument: etcdserver: key is not provided";
    talk.ask(asks(vec![compare("", Equal, Version(0))]), no_key).await;
    let valued = PutRequest { ignore_value: true, ..put("a", "1") };
    let leased = PutRequest { ignore_lease: true, lease: 1, ..put("a", "1") };
    for (part, refused) in [
        (puts("", "1"), no_key),
        (deletes(""), no_key),
        (reads(get("")), no_key),
        (op(Request::RequestPut(valued)), "InvalidArgument: etcdserver: value is provided"),
        (op(Request::RequestPut(leased)), "InvalidArgument: etcdserver: lease is provided"),
        (RequestOp::default(), "InvalidArgument: etcdserver: key not found"),
        (nested(asks(vec![compare("", Equal, Version(0))])), no_key),
    ] {
        talk.ask(then(vec![part.clone()]), refused).await;
        talk.ask(TxnRequest { failure: vec![part], ..Default::default() }, refused).await;
    }
}

async fn what_depends_on_the_state_is_checked_in_the_branch_that_runs(talk: &mut Talk) {
    let future = RangeRequest { revision: talk.at(9), ..get("a") };
    let leased = PutRequest { lease: 99, ..put("a", "1") };
    let kept = PutRequest { ignore_value: true, ..put("a", "") };
    for (part, refused) in [
        (reads(future), "OutOfRange: etcdserver: mvcc: required revision is a future revision"),
        (op(Request::RequestPut(leased)), "NotFound: etcdserver: requested lease not found"),
        (op(Request::RequestPut(kept)), "InvalidArgument: etcdserver: key not found"),
    ] {
        talk.ask(then(vec![part.clone()]), refused).await;
        talk.ask(then(vec![nested(then(vec![part.clone()]))]), refused).await;
        talk.ask(TxnRequest { failure: vec![part], ..Default::default() }, "@0 then {}").await;
    }
}

async fn nothing_is_written_when_something_is_refused(talk: &mut Talk) {
    // The revision that is being written is still to come.
    let next = RangeRequest { revision: talk.at(1), ..get("a") };
    let refused = "OutOfRange: etcdserver: mvcc: required revision is a future revision";
    talk.ask(then(vec![puts("a", "1"), reads(next)]), refused).await;
    let leased = op(Request::RequestPut(PutRequest { lease: 99, ..put("b", "1") }));
    talk.ask(then(vec![puts("a", "1"), leased]), "NotFound: etcdserver: requested lease not found").await;
    talk.ask(range("a", "z"), "@0 [] of 0").await;
}

async fn a_transaction_has_a_longest_length(talk: &mut Talk) {
    let refused = "InvalidArgument: etcdserver: too many operations in txn request";
    let many = |count: usize| (0..count).map(|number| puts(&format!("k{number}"), "")).collect::<Vec<_>>();
    let compares = |count| vec![compare("a", Equal, Version(0)); count];
    talk.ask(then(many(129)), refused).await;
    talk.ask(TxnRequest { failure: many(129), ..Default::default() }, refused).await;
    talk.ask(asks(compares(129)), refused).await;
    talk.ask(asks(compares(128)), "@0 then {}").await;
    talk.ask(then(vec![nested(then(many(128)))]), refused).await;
    talk.get(then(many(128))).await;
    talk.ask(RangeRequest { count_only: true, ..range("k", "l") }, "@1 [] of 128").await;
    talk.get(then(vec![nested(then(many(127)))])).await;
    talk.ask(get("k126"), "@2 [k126= c1 m2 v2] of 1").await;
}

async fn writes_take_all_their_options(talk: &mut Talk) {
    talk.grant(7, 600).await;
    talk.put("a", "1").await;
    let leased = PutRequest { lease: 7, prev_kv: true, ignore_value: true, ..put("a", "") };
    let fresh = PutRequest { lease: 7, prev_kv: true, ..put("b", "2") };
    let request = then(vec![op(Request::RequestPut(leased)), op(Request::RequestPut(fresh))]);
    talk.ask(request, "@2 then {put ~2 was a=1 c1 m1 v1; put ~2}").await;
    talk.ask(LeaseTimeToLiveRequest { id: 7, keys: true }, "@2 lease 7 for 600 s, fresh [a, b]").await;
    let all = DeleteRangeRequest { prev_kv: true, range_end: "\0".into(), ..delete("a") };
    let request = then(vec![op(Request::RequestDeleteRange(all))]);
    talk.ask(request, "@3 then {delete ~3 deleted 2 were [a=1 c1 m2 v2 l7, b=2 c2 m2 v1 l7]}").await;
    talk.ask(LeaseTimeToLiveRequest { id: 7, keys: true }, "@3 lease 7 for 600 s, fresh []").await;
}
