use proptest::prelude::*;

use super::*;

/// Six revisions; the fourth is a transaction over two keys, the sixth a deletion.
fn store() -> Store {
    let mut store = Store::new();
    let both = Request {
        then: vec![Op::Put { key: "a".to_owned(), value: "4".to_owned() }, Op::Put { key: "b".to_owned(), value: "5".to_owned() }],
        ..Request::default()
    };
    for (number, request) in [put("a", "1"), put("c", "2"), put("a", "3"), both, put("c", "6"), delete("a")].into_iter().enumerate() {
        store.does(number as u64 * 10, number as u64 * 10 + 5, request);
    }
    store
}

fn response(log: &Log, revisions: &[i64]) -> Response {
    let events: Vec<_> = revisions.iter().flat_map(|revision| log.at(*revision).to_vec()).collect();
    Response { revision: *revisions.last().unwrap(), events, fragment: false }
}

fn bookmark(revision: i64) -> Response {
    Response { revision, events: Vec::new(), fragment: false }
}

/// A watcher of everything that was told this, with one stream for each list.
fn watcher(streams: Vec<(i64, Vec<Response>)>) -> Watch {
    let streams = streams.into_iter().map(|(start, responses)| Stream { start, responses }).collect();
    Watch { name: "w".to_owned(), range: Range { start: "a".to_owned(), end: "z".to_owned() }, with_before: true, streams }
}

fn told(responses: Vec<Response>) -> Result<(), Violation> {
    watches::check(&store().log(), &watcher(vec![(2, responses)]))
}

fn all(log: &Log) -> Vec<Response> {
    (2..=7).map(|revision| response(log, &[revision])).collect()
}

#[test]
fn a_watcher_that_was_shown_everything_is_content() {
    let log = store().log();
    assert_eq!(told(all(&log)), Ok(()));
    let mut with_bookmarks = all(&log);
    with_bookmarks.insert(3, bookmark(4));
    with_bookmarks.push(bookmark(9));
    assert_eq!(told(with_bookmarks), Ok(()));
    assert_eq!(told(vec![response(&log, &[2, 3]), response(&log, &[4, 5, 6, 7])]), Ok(()));
}

#[test]
fn a_watcher_that_missed_one_knows_which() {
    let log = store().log();
    for missing in 0..5 {
        let mut shown = all(&log);
        shown.remove(missing);
        let expected = missing as i64 + 2;
        assert!(matches!(told(shown), Err(Violation::Missed { expected: e, .. }) if e == expected), "{expected}");
    }
    let shown = all(&log)[..5].to_vec();
    assert!(matches!(told(shown), Err(Violation::NeverShown { missing: 7, .. })));
    assert!(matches!(told(Vec::new()), Err(Violation::NeverShown { missing: 2, .. })));
}

#[test]
fn a_repeated_and_a_reordered_revision_are_noticed() {
    let log = store().log();
    let mut twice = all(&log);
    twice.insert(2, response(&log, &[3]));
    assert!(matches!(told(twice), Err(Violation::Repeated { found: 3, next: 4, .. })));
    let mut swapped = all(&log);
    swapped.swap(1, 2);
    assert!(matches!(told(swapped), Err(Violation::Missed { expected: 3, found: 4, .. })));
    let mut within = all(&log);
    within.splice(1..3, [Response { revision: 4, ..response(&log, &[4, 3]) }]);
    assert!(matches!(told(within), Err(Violation::Missed { expected: 3, found: 4, .. })));
}

#[test]
fn a_revision_in_two_answers_is_torn_unless_marked_as_a_fragment() {
    let log = store().log();
    let halves = |fragment: bool| {
        let whole = response(&log, &[5]);
        let half = |events: &[Event], fragment| Response { revision: 5, events: events.to_vec(), fragment };
        let mut shown = all(&log);
        shown.splice(3..4, [half(&whole.events[..1], fragment), half(&whole.events[1..], false)]);
        told(shown)
    };
    assert_eq!(halves(true), Ok(()));
    assert!(matches!(halves(false), Err(Violation::Differs { revision: 5, .. })));
}

#[test]
fn a_wrong_pair_before_is_noticed_and_so_is_one_nobody_asked_for() {
    let log = store().log();
    let mut wrong = all(&log);
    wrong[2].events[0].before.as_mut().unwrap().value = "?".to_owned();
    assert!(matches!(told(wrong), Err(Violation::Differs { revision: 4, .. })));
    let mut none = all(&log);
    none[5].events[0].before = None;
    assert!(matches!(told(none), Err(Violation::Differs { revision: 7, .. })));
    let unasked = Watch { with_before: false, ..watcher(vec![(2, all(&log))]) };
    assert!(matches!(watches::check(&log, &unasked), Err(Violation::Differs { revision: 4, .. })));
}

#[test]
fn a_creation_that_looks_like_an_update_is_noticed() {
    let log = store().log();
    let mut shown = all(&log);
    shown[0].events[0].pair.created = 1;
    assert!(matches!(told(shown), Err(Violation::Differs { revision: 2, .. })));
}

#[test]
fn a_bookmark_must_not_be_ahead_of_the_events() {
    let log = store().log();
    let mut ahead = all(&log);
    ahead.insert(2, bookmark(4));
    assert!(matches!(told(ahead), Err(Violation::BookmarkAhead { bookmark: 4, missing: 4, .. })));
    let mut behind = all(&log);
    behind[3].revision = 4;
    assert!(matches!(told(behind), Err(Violation::HeaderBehind { header: 4, event: 5, .. })));
}

#[test]
fn a_broken_stream_is_resumed_after_the_last_whole_answer() {
    let log = store().log();
    let resumed = |cut: usize, start: i64| {
        let (first, second) = (all(&log)[..cut].to_vec(), all(&log)[cut..].to_vec());
        watches::check(&log, &watcher(vec![(2, first), (start, second)]))
    };
    assert_eq!(resumed(3, 5), Ok(()));
    assert!(matches!(resumed(3, 6), Err(Violation::ResumedElsewhere { expected: 5, found: 6, .. })));
    let half = Response { fragment: true, events: response(&log, &[5]).events[..1].to_vec(), revision: 5 };
    let mut first = all(&log)[..3].to_vec();
    first.push(half);
    let broken = Stream { start: 2, responses: first };
    assert_eq!(broken.next(), 5);
    let second = Stream { start: 5, responses: all(&log)[3..].to_vec() };
    assert_eq!(watches::check(&log, &Watch { streams: vec![broken, second], ..watcher(Vec::new()) }), Ok(()));
}

#[test]
fn only_the_keys_asked_for_are_shown_and_all_of_them() {
    let log = store().log();
    let only_c = |responses| Watch { range: Range::key("c"), ..watcher(vec![(2, responses)]) };
    assert_eq!(watches::check(&log, &only_c(vec![response(&log, &[3]), response(&log, &[6])])), Ok(()));
    let other = only_c(vec![response(&log, &[3]), response(&log, &[4])]);
    assert!(matches!(watches::check(&log, &other), Err(Violation::Differs { revision: 4, .. })));
    let missed = only_c(vec![response(&log, &[6])]);
    assert!(matches!(watches::check(&log, &missed), Err(Violation::Missed { expected: 3, found: 6, .. })));
}

proptest! {
    #[test]
    fn however_a_log_is_cut_into_answers_and_streams_it_is_accepted_and_without_one_event_it_is_not(
        writes in prop::collection::vec((0u8..4, any::<bool>()), 1..40),
        cuts in prop::collection::vec(0u8..4, 40),
        victim in any::<prop::sample::Index>(),
    ) {
        let mut store = Store::new();
        for (number, (key, puts)) in writes.iter().enumerate() {
            let key = format!("k{key}");
            store.effect(&if *puts { put(&key, &number.to_string()) } else { delete(&key) });
        }
        let log = store.log();
        let mut streams = vec![Stream { start: 2, responses: Vec::new() }];
        for ((revision, _), cut) in log.revisions().zip(&cuts) {
            let current = streams.last_mut().unwrap();
            match (cut, current.responses.last_mut()) {
                (0, Some(last)) => { last.events.extend(log.at(revision).to_vec()); last.revision = revision; }
                (1, _) => current.responses.extend([response(&log, &[revision]), bookmark(revision)]),
                (2, _) => { let start = current.next(); streams.push(Stream { start, responses: vec![response(&log, &[revision])] }) }
                _ => current.responses.push(response(&log, &[revision])),
            }
        }
        let watch = Watch { range: Range::prefix("k"), streams, ..watcher(Vec::new()) };
        prop_assert_eq!(watches::check(&log, &watch), Ok(()));
        let mut without = watch;
        let mut events: Vec<_> = without.streams.iter_mut().flat_map(|stream| &mut stream.responses).map(|response| &mut response.events).collect();
        events.retain(|events| !events.is_empty());
        prop_assume!(!events.is_empty());
        let chosen = victim.index(events.len());
        events[chosen].remove(0);
        prop_assert!(watches::check(&log, &without).is_err());
    }
}
