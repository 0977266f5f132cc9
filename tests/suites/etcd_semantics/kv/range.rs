//! Reading.

use etcd::etcdserverpb::{
    CompactionRequest, RangeRequest,
    range_request::{SortOrder, SortTarget},
};

use crate::talk::{Talk, get, range};

crate::cases![
    keys_are_read_one_by_one_and_by_range,
    a_key_must_be_named,
    answers_are_sorted_by_every_field_either_way,
    a_field_without_an_order_sorts_what_the_limit_left,
    a_limit_cuts_and_the_count_stays,
    keys_come_without_their_values,
    keys_are_only_counted,
    keys_are_chosen_by_their_revisions,
    the_past_is_read,
    the_future_is_refused,
    compacted_history_is_refused,
    local_reads_answer_the_same,
    an_order_that_does_not_exist_is_refused,
];

const A: &str = "a=1 c2 m2 v1";
const B: &str = "b=5 c1 m4 v2";
const C: &str = "c=2 c3 m3 v1";

async fn fill(talk: &Talk) {
    for (key, value) in [("b", "3"), ("a", "1"), ("c", "2"), ("b", "5")] {
        talk.put(key, value).await;
    }
}

fn all() -> RangeRequest {
    range("a", "d")
}

fn sorted(target: SortTarget, order: SortOrder) -> RangeRequest {
    RangeRequest { sort_target: target.into(), sort_order: order.into(), ..all() }
}

async fn keys_are_read_one_by_one_and_by_range(talk: &mut Talk) {
    talk.ask(all(), "@0 [] of 0").await;
    fill(talk).await;
    talk.ask(get("b"), format!("@4 [{B}] of 1")).await;
    talk.ask(get("bb"), "@4 [] of 0").await;
    talk.ask(range("a", "c"), format!("@4 [{A}, {B}] of 2")).await;
    talk.ask(range("aa", "bb"), format!("@4 [{B}] of 1")).await;
    talk.ask(range("b", "\0"), format!("@4 [{B}, {C}] of 2")).await;
    talk.ask(range("\0", "\0"), format!("@4 [{A}, {B}, {C}] of 3")).await;
    talk.ask(range("c", "a"), "@4 [] of 0").await;
    talk.ask(range("b", "b"), "@4 [] of 0").await;
    talk.put("ab", "").await;
    talk.ask(range("a", "b"), format!("@5 [{A}, ab= c5 m5 v1] of 2")).await;
}

async fn a_key_must_be_named(talk: &mut Talk) {
    talk.ask(get(""), "InvalidArgument: etcdserver: key is not provided").await;
    talk.ask(range("", "\0"), "InvalidArgument: etcdserver: key is not provided").await;
}

async fn answers_are_sorted_by_every_field_either_way(talk: &mut Talk) {
    fill(talk).await;
    for (target, up, down) in [
        (SortTarget::Key, [A, B, C], [C, B, A]),
        (SortTarget::Version, [A, C, B], [B, A, C]),
        (SortTarget::Create, [B, A, C], [C, A, B]),
        (SortTarget::Mod, [A, C, B], [B, C, A]),
        (SortTarget::Value, [A, C, B], [B, C, A]),
    ] {
        talk.ask(sorted(target, SortOrder::None), format!("@4 [{}] of 3", up.join(", "))).await;
        talk.ask(sorted(target, SortOrder::Ascend), format!("@4 [{}] of 3", up.join(", "))).await;
        talk.ask(sorted(target, SortOrder::Descend), format!("@4 [{}] of 3", down.join(", "))).await;
        let first = RangeRequest { limit: 1, ..sorted(target, SortOrder::Descend) };
        talk.ask(first, format!("@4 [{}] of 3 and more", down[0])).await;
    }
}

async fn a_field_without_an_order_sorts_what_the_limit_left(talk: &mut Talk) {
    for (key, value) in [("a", "3"), ("b", "2"), ("c", "1")] {
        talk.put(key, value).await;
    }
    let one = RangeRequest { limit: 1, ..sorted(SortTarget::Value, SortOrder::None) };
    talk.ask(one.clone(), "@3 [b=2 c2 m2 v1] of 3 and more").await;
    let chosen = RangeRequest { min_mod_revision: talk.at(1), ..one.clone() };
    talk.ask(chosen, "@3 [c=1 c3 m3 v1] of 3 and more").await;
    talk.ask(RangeRequest { sort_order: SortOrder::Ascend.into(), ..one }, "@3 [c=1 c3 m3 v1] of 3 and more").await;
}

async fn a_limit_cuts_and_the_count_stays(talk: &mut Talk) {
    fill(talk).await;
    for (limit, expected) in [
        (1, format!("@4 [{A}] of 3 and more")),
        (2, format!("@4 [{A}, {B}] of 3 and more")),
        (3, format!("@4 [{A}, {B}, {C}] of 3")),
        (4, format!("@4 [{A}, {B}, {C}] of 3")),
        (0, format!("@4 [{A}, {B}, {C}] of 3")),
        (-1, format!("@4 [{A}, {B}, {C}] of 3")),
    ] {
        talk.ask(RangeRequest { limit, ..all() }, expected).await;
    }
    talk.ask(RangeRequest { limit: 1, ..get("b") }, format!("@4 [{B}] of 1")).await;
}

async fn keys_come_without_their_values(talk: &mut Talk) {
    fill(talk).await;
    let keys = RangeRequest { keys_only: true, ..all() };
    talk.ask(keys.clone(), "@4 [a= c2 m2 v1, b= c1 m4 v2, c= c3 m3 v1] of 3").await;
    talk.ask(RangeRequest { limit: 1, ..keys.clone() }, "@4 [a= c2 m2 v1] of 3 and more").await;
    let by_value = RangeRequest { keys_only: true, ..sorted(SortTarget::Value, SortOrder::Descend) };
    talk.ask(by_value, "@4 [b= c1 m4 v2, c= c3 m3 v1, a= c2 m2 v1] of 3").await;
    talk.ask(RangeRequest { revision: talk.at(1), ..keys }, "@4 [b= c1 m1 v1] of 1").await;
}

async fn keys_are_only_counted(talk: &mut Talk) {
    fill(talk).await;
    let count = RangeRequest { count_only: true, ..all() };
    talk.ask(count.clone(), "@4 [] of 3").await;
    talk.ask(RangeRequest { limit: 1, ..count.clone() }, "@4 [] of 3").await;
    talk.ask(RangeRequest { keys_only: true, ..count.clone() }, "@4 [] of 3").await;
    talk.ask(RangeRequest { min_mod_revision: talk.at(4), ..count.clone() }, "@4 [] of 3").await;
    talk.ask(RangeRequest { revision: talk.at(2), ..count.clone() }, "@4 [] of 2").await;
    talk.ask(RangeRequest { sort_order: SortOrder::Descend.into(), ..count }, "@4 [] of 3").await;
    talk.ask(RangeRequest { count_only: true, ..get("b") }, "@4 [] of 1").await;
    talk.ask(RangeRequest { count_only: true, ..get("x") }, "@4 [] of 0").await;
}

async fn keys_are_chosen_by_their_revisions(talk: &mut Talk) {
    fill(talk).await;
    let (two, three) = (talk.at(2), talk.at(3));
    let chosen = |request: RangeRequest, kvs: &[&str]| (request, format!("@4 [{}] of 3", kvs.join(", ")));
    for (request, expected) in [
        chosen(RangeRequest { min_mod_revision: three, ..all() }, &[B, C]),
        chosen(RangeRequest { max_mod_revision: three, ..all() }, &[A, C]),
        chosen(RangeRequest { min_mod_revision: three, max_mod_revision: three, ..all() }, &[C]),
        chosen(RangeRequest { min_create_revision: two, ..all() }, &[A, C]),
        chosen(RangeRequest { max_create_revision: two, ..all() }, &[A, B]),
        chosen(RangeRequest { min_create_revision: two, max_create_revision: two, ..all() }, &[A]),
        chosen(RangeRequest { max_create_revision: two, min_mod_revision: three, ..all() }, &[B]),
        chosen(RangeRequest { min_mod_revision: three, max_mod_revision: two, ..all() }, &[]),
        chosen(RangeRequest { min_mod_revision: three, limit: 2, ..all() }, &[B, C]),
        chosen(RangeRequest { min_mod_revision: three, sort_order: SortOrder::Descend.into(), ..all() }, &[C, B]),
    ] {
        talk.ask(request, expected).await;
    }
    let first = RangeRequest { min_mod_revision: three, limit: 1, ..all() };
    talk.ask(first, format!("@4 [{B}] of 3 and more")).await;
}

async fn the_past_is_read(talk: &mut Talk) {
    fill(talk).await;
    talk.delete("a").await;
    talk.put("a", "6").await;
    let old = "b=3 c1 m1 v1";
    for (revision, kvs) in [
        (0, vec![]),
        (1, vec![old]),
        (2, vec![A, old]),
        (3, vec![A, old, C]),
        (4, vec![A, B, C]),
        (5, vec![B, C]),
        (6, vec!["a=6 c6 m6 v1", B, C]),
    ] {
        let past = RangeRequest { revision: talk.at(revision), ..all() };
        talk.ask(past, format!("@6 [{}] of {}", kvs.join(", "), kvs.len())).await;
    }
    let past = RangeRequest { revision: talk.at(3), ..all() };
    talk.ask(RangeRequest { limit: 2, ..past.clone() }, format!("@6 [{A}, {old}] of 3 and more")).await;
    let by_value = RangeRequest { sort_target: SortTarget::Value.into(), sort_order: SortOrder::Descend.into(), ..past };
    talk.ask(by_value, format!("@6 [{old}, {C}, {A}] of 3")).await;
    talk.ask(RangeRequest { revision: talk.at(5), ..get("a") }, "@6 [] of 0").await;
    talk.ask(RangeRequest { revision: talk.at(4), ..get("a") }, format!("@6 [{A}] of 1")).await;
    talk.ask(RangeRequest { revision: -7, ..get("a") }, "@6 [a=6 c6 m6 v1] of 1").await;
}

async fn the_future_is_refused(talk: &mut Talk) {
    fill(talk).await;
    let refused = "OutOfRange: etcdserver: mvcc: required revision is a future revision";
    talk.ask(RangeRequest { revision: talk.at(5), ..all() }, refused).await;
    talk.ask(RangeRequest { revision: talk.at(5), ..get("x") }, refused).await;
    talk.ask(RangeRequest { revision: talk.at(5), serializable: true, ..get("x") }, refused).await;
}

async fn compacted_history_is_refused(talk: &mut Talk) {
    fill(talk).await;
    talk.get(CompactionRequest { revision: talk.at(3), physical: true }).await;
    let refused = "OutOfRange: etcdserver: mvcc: required revision has been compacted";
    talk.ask(RangeRequest { revision: talk.at(2), ..all() }, refused).await;
    talk.ask(RangeRequest { revision: talk.at(2), ..get("x") }, refused).await;
    talk.ask(RangeRequest { revision: talk.at(2), count_only: true, ..all() }, refused).await;
    talk.ask(RangeRequest { revision: talk.at(3), ..all() }, format!("@4 [{A}, b=3 c1 m1 v1, {C}] of 3")).await;
}

async fn local_reads_answer_the_same(talk: &mut Talk) {
    fill(talk).await;
    let local = RangeRequest { serializable: true, ..all() };
    talk.ask(local.clone(), format!("@4 [{A}, {B}, {C}] of 3")).await;
    talk.ask(RangeRequest { revision: talk.at(1), ..local }, "@4 [b=3 c1 m1 v1] of 1").await;
}

async fn an_order_that_does_not_exist_is_refused(talk: &mut Talk) {
    if !talk.is_3_6 {
        // One of these ends an etcd 3.5.
        return;
    }
    let refused = "InvalidArgument: etcdserver: invalid sort option";
    talk.ask(RangeRequest { sort_order: 3, ..all() }, refused).await;
    talk.ask(RangeRequest { sort_target: 5, ..all() }, refused).await;
    talk.ask(RangeRequest { sort_target: -1, ..get("a") }, refused).await;
}
