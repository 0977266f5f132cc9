use proptest::prelude::*;

use super::*;

/// What a client wants; the number makes its value its own.
fn wish(kind: u8, key: u8, number: usize, seen: i64) -> Request {
    let (key, value) = (format!("k{}", key % 3), format!("v{number}"));
    match kind % 7 {
        0 | 1 => put(&key, &value),
        2 => delete(&key),
        3 => get(&key),
        4 => Request { serializable: true, ..get(&key) },
        5 => Request { then: vec![Op::Get(Range::prefix("k"))], ..Request::default() },
        _ => Request {
            compare: vec![Compare { key: key.clone(), modified: seen }],
            then: vec![Op::Put { key: key.clone(), value }, Op::Put { key: "both".to_owned(), value: format!("b{number}") }],
            otherwise: vec![Op::Get(Range::key(&key))],
            serializable: false,
        },
    }
}

#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    key: u8,
    early: u64,
    late: u64,
    /// 0..=6 heard, 7 unknown and done, 8 unknown and not done, 9 refused.
    luck: u8,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (any::<u8>(), any::<u8>(), 0u64..60, 0u64..60, 0u8..10);
    let step = step.prop_map(|(kind, key, early, late, luck)| Step { kind, key, early, late, luck });
    prop::collection::vec(step, 1..80)
}

/// Steps take effect ten milliseconds apart; each is under way for longer.
fn history(steps: &[Step]) -> Store {
    let (mut store, mut seen) = (Store::new(), 0);
    for (number, step) in steps.iter().enumerate() {
        let effect = 100 + 10 * number as u64;
        let (start, end) = (effect - step.early, effect + step.late);
        let request = wish(step.kind, step.key, number, seen);
        match step.luck {
            0..7 => seen = store.does(start, end, request).revision,
            7 => {
                store.effect(&request);
                store.saw(start, end, request, Outcome::Unknown);
            }
            8 => store.saw(start, end, request, Outcome::Unknown),
            _ => store.saw(start, end, request, Outcome::Refused),
        }
    }
    store
}

proptest! {
    #[test]
    fn whatever_a_right_store_does_is_accepted(steps in steps()) {
        prop_assert_eq!(history(&steps).verdict(), Ok(()));
    }

    #[test]
    fn no_revision_can_be_taken_from_a_log_or_given_to_it_twice(steps in steps(), which in any::<prop::sample::Index>()) {
        let store = history(&steps);
        prop_assume!(!store.events.is_empty());
        let victim = store.events[which.index(store.events.len())].pair.modified;
        let without = store.events.iter().filter(|event| event.pair.modified != victim).cloned();
        let without = Log::new(1, store.revision, without);
        prop_assert!(without.without_gaps().is_err());
        if store.calls.iter().any(|call| call.wrote() && matches!(&call.outcome, Outcome::Done(answer) if answer.revision == victim)) {
            let lost = calls::check(&without, &store.calls);
            prop_assert!(matches!(lost, Err(Violation::Lost { revision, .. }) if revision == victim), "{:?}", lost);
        }
        let again = store.events.iter().filter(|event| event.pair.modified == victim).cloned();
        let again = again.map(|event| Event { pair: Pair { modified: store.revision + 1, ..event.pair }, ..event });
        let twice = Log::new(1, store.revision + 1, store.events.iter().cloned().chain(again));
        prop_assert!(calls::check(&twice, &store.calls).is_err());
    }
}

#[test]
fn a_deletion_nobody_heard_of_may_have_happened_or_not() {
    for happened in [true, false] {
        let mut store = Store::new();
        store.does(0, 10, put("k1", "a"));
        if happened {
            store.effect(&delete("k1"));
        }
        store.saw(20, 30, delete("k1"), Outcome::Unknown);
        store.does(200, 210, get("k1"));
        assert_eq!(store.verdict(), Ok(()));
    }
}

#[test]
fn an_unknown_write_may_take_effect_long_after_its_client_gave_up() {
    let mut store = Store::new();
    store.saw(0, 10, put("k1", "late"), Outcome::Unknown);
    store.does(100, 110, put("k1", "a"));
    store.effect(&put("k1", "late"));
    store.does(200, 210, get("k1"));
    assert_eq!(store.verdict(), Ok(()));
}

#[test]
fn a_pause_is_the_longest_time_without_an_acknowledged_write() {
    let mut store = Store::new();
    store.does(0, 100, put("a", "1"));
    store.does(110, 150, get("a"));
    store.does(160, 700, put("a", "2"));
    assert_eq!(calls::longest_pause(&store.calls, at(0), at(1000)), at(600));
    assert_eq!(calls::longest_pause(&store.calls, at(0), at(2000)), at(1300));
    assert_eq!(calls::longest_pause(&[], at(0), at(2000)), at(2000));
}
