use super::*;

/// `a` was written twice and read, one call after the other.
fn simple() -> Store {
    let mut store = Store::new();
    store.does(0, 10, put("a", "1"));
    store.does(20, 30, put("a", "2"));
    store.does(40, 50, get("a"));
    assert_eq!(store.verdict(), Ok(()));
    store
}

fn pair(value: &str, created: i64, modified: i64, version: i64) -> Pair {
    Pair { key: "a".to_owned(), value: value.to_owned(), created, modified, version }
}

#[test]
fn an_acknowledged_write_that_is_not_in_the_log_is_lost() {
    let store = simple();
    let log = Log::new(1, 2, store.events[..1].to_vec());
    assert!(matches!(calls::check(&log, &store.calls), Err(Violation::Lost { revision: 3, .. })));
    let log = Log::new(1, 3, store.events[1..].to_vec());
    assert!(matches!(log.without_gaps(), Err(Violation::Gap { revision: 2 })));
}

#[test]
fn a_write_overwritten_by_another_at_its_revision_is_lost() {
    let mut store = simple();
    store.events[1].pair.value = "3".to_owned();
    store.saw(20, 30, put("a", "3"), Outcome::Unknown);
    assert!(matches!(store.verdict(), Err(Violation::OtherEffect { revision: 3, .. })));
}

#[test]
fn two_writes_cannot_be_acknowledged_at_one_revision() {
    let mut store = simple();
    store.saw(20, 30, put("a", "3"), store.calls[1].outcome.clone());
    assert!(matches!(store.verdict(), Err(Violation::AcknowledgedTwice { revision: 3, .. })));
}

#[test]
fn an_unknown_write_that_took_effect_twice_is_noticed() {
    let mut store = simple();
    store.effect(&put("a", "retried"));
    store.effect(&put("a", "retried"));
    store.saw(60, 70, put("a", "retried"), Outcome::Unknown);
    assert!(matches!(store.verdict(), Err(Violation::TookEffectTwice { first: 4, second: 5, .. })));
}

#[test]
fn an_acknowledged_write_that_took_effect_twice_is_noticed_whichever_came_first() {
    for acknowledged_first in [true, false] {
        let mut store = Store::new();
        let first = store.effect(&put("a", "1"));
        let second = store.effect(&put("a", "1"));
        store.saw(0, 10, put("a", "1"), Outcome::Done(if acknowledged_first { first } else { second }));
        assert!(matches!(store.verdict(), Err(Violation::TookEffectTwice { .. })), "{:?}", store.verdict());
    }
}

#[test]
fn one_unknown_deletion_explains_one_deletion_only() {
    let mut store = Store::new();
    store.does(0, 10, put("a", "1"));
    store.effect(&delete("a"));
    store.does(60, 70, put("a", "2"));
    store.effect(&delete("a"));
    store.saw(20, 30, delete("a"), Outcome::Unknown);
    assert!(matches!(store.verdict(), Err(Violation::FromNowhere { revision: 5, .. })));
    store.saw(60, 90, delete("a"), Outcome::Unknown);
    assert_eq!(store.verdict(), Ok(()));
}

#[test]
fn a_deletion_cannot_happen_before_it_was_asked_for() {
    let mut store = Store::new();
    store.does(0, 10, put("a", "1"));
    store.effect(&delete("a"));
    store.does(20, 30, put("a", "2"));
    store.saw(40, 50, delete("a"), Outcome::Unknown);
    assert!(matches!(store.verdict(), Err(Violation::FromNowhere { revision: 3, .. })));
}

#[test]
fn a_change_nobody_asked_for_and_one_that_was_refused_are_noticed() {
    let mut store = simple();
    store.effect(&put("a", "who?"));
    assert!(matches!(store.verdict(), Err(Violation::FromNowhere { revision: 4, .. })));
    store.saw(60, 70, put("a", "who?"), Outcome::Refused);
    assert!(matches!(store.verdict(), Err(Violation::RefusedButDone { revision: 4, .. })));
}

#[test]
fn a_stale_read_is_noticed_unless_it_asked_for_one() {
    let mut store = simple();
    let stale = Answer { revision: 2, succeeded: true, results: vec![Found::Pairs(vec![pair("1", 2, 2, 1)])] };
    store.saw(40, 50, Request { serializable: true, ..get("a") }, Outcome::Done(stale.clone()));
    assert_eq!(store.verdict(), Ok(()));
    store.saw(40, 50, get("a"), Outcome::Done(stale));
    assert!(matches!(store.verdict(), Err(Violation::BackInTime { revision: 2, seen: 3, .. })));
}

#[test]
fn a_read_that_overlaps_a_write_may_go_either_way_but_two_must_agree_with_their_order() {
    let mut store = Store::new();
    store.does(0, 10, put("a", "1"));
    let old = store.effect(&get("a"));
    store.does(20, 90, put("a", "2"));
    let new = store.effect(&get("a"));
    store.saw(50, 60, get("a"), Outcome::Done(new));
    store.saw(30, 45, get("a"), Outcome::Done(old.clone()));
    assert_eq!(store.verdict(), Ok(()));
    store.saw(70, 80, get("a"), Outcome::Done(old));
    assert!(matches!(store.verdict(), Err(Violation::BackInTime { revision: 2, seen: 3, .. })));
}

#[test]
fn a_read_before_anything_was_written_cannot_show_it() {
    let mut store = simple();
    let answer = store.effect(&get("a"));
    store.saw(12, 15, get("a"), Outcome::Done(answer));
    assert!(matches!(store.verdict(), Err(Violation::FromTheFuture { revision: 3, .. } | Violation::BackInTime { .. })));
}

#[test]
fn writes_one_after_the_other_must_have_revisions_in_that_order() {
    let mut store = Store::new();
    store.does(100, 110, put("a", "1"));
    store.does(20, 30, put("a", "2"));
    assert!(matches!(store.verdict(), Err(Violation::BackInTime { .. })), "{:?}", store.verdict());
}

#[test]
fn an_unknown_write_cannot_take_effect_before_it_was_sent() {
    let mut store = Store::new();
    store.does(0, 10, put("a", "1"));
    store.effect(&put("a", "2"));
    store.does(20, 30, put("a", "3"));
    store.saw(40, 50, put("a", "2"), Outcome::Unknown);
    assert!(matches!(store.verdict(), Err(Violation::BackInTime { revision: 3, .. })));
}

#[test]
fn every_part_of_an_answer_counts() {
    type Lie = (&'static str, fn(&mut Answer));
    let wrong: [Lie; 5] = [
        ("another value", |answer| answer.results = vec![Found::Pairs(vec![pair("1", 2, 3, 2)])]),
        ("another version", |answer| answer.results = vec![Found::Pairs(vec![pair("2", 2, 3, 1)])]),
        ("another creation", |answer| answer.results = vec![Found::Pairs(vec![pair("2", 3, 3, 2)])]),
        ("nothing", |answer| answer.results = vec![Found::Pairs(Vec::new())]),
        ("the other branch", |answer| answer.succeeded = false),
    ];
    for (what, lie) in wrong {
        let mut store = simple();
        store.lie(lie);
        assert!(matches!(store.verdict(), Err(Violation::WrongAnswer { revision: 3, .. })), "{what}");
    }
}

#[test]
fn a_condition_must_have_held_when_the_write_happened() {
    let swap = |modified: i64, value: &str| Request {
        compare: vec![Compare { key: "a".to_owned(), modified }],
        otherwise: vec![Op::Get(Range::key("a"))],
        ..put("a", value)
    };
    let mut store = simple();
    assert!(store.does(60, 70, swap(3, "swapped")).succeeded);
    assert!(!store.does(80, 90, swap(3, "too late")).succeeded);
    assert_eq!(store.verdict(), Ok(()));
    // Both say that they won.
    let second = store.effect(&put("a", "too late"));
    store.calls.pop();
    store.saw(80, 90, swap(3, "too late"), Outcome::Done(second));
    assert!(matches!(store.verdict(), Err(Violation::WrongAnswer { revision: 5, .. })));
}

#[test]
fn half_a_transaction_is_noticed() {
    let both = Request {
        then: vec![Op::Put { key: "a".to_owned(), value: "x".to_owned() }, Op::Put { key: "b".to_owned(), value: "y".to_owned() }],
        ..Request::default()
    };
    let mut store = Store::new();
    store.does(0, 10, both);
    store.events.pop();
    assert!(matches!(store.verdict(), Err(Violation::OtherEffect { revision: 2, .. })));
}
