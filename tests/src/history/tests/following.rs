use super::*;

/// Six revisions of two keys, the last a deletion.
fn log() -> Log {
    let mut store = Store::new();
    for (number, request) in [put("a", "1"), put("b", "2"), put("a", "3"), put("b", "4"), put("a", "5"), delete("a")].iter().enumerate() {
        store.does(number as u64 * 10, number as u64 * 10 + 5, request.clone());
    }
    store.log()
}

/// Listed at a revision, then shown these, one stream for each slice.
fn life(log: &Log, listed: i64, streams: &[&[i64]]) -> Life {
    let range = Range { start: "a".to_owned(), end: "z".to_owned() };
    let response = |revision: &i64| Response { revision: *revision, events: log.at(*revision).to_vec(), fragment: false };
    let mut start = listed + 1;
    let mut stream = |revisions: &&[i64]| {
        let stream = Stream { start, responses: revisions.iter().map(response).collect() };
        start = stream.next();
        stream
    };
    let streams = streams.iter().map(&mut stream).collect();
    let items = log.state(&range, listed).into_values().cloned().collect();
    Life { listed, items, watch: Watch { name: "w".to_owned(), range, with_before: true, streams } }
}

fn verdict(lives: Vec<Life>) -> Result<(), Violation> {
    followers::check(&log(), &Follower { name: "w".to_owned(), lives })
}

#[test]
fn a_list_and_what_came_after_it_are_everything() {
    let log = log();
    assert_eq!(verdict(vec![life(&log, 1, &[&[2, 3, 4, 5, 6, 7]])]), Ok(()));
    assert_eq!(verdict(vec![life(&log, 4, &[&[5], &[6, 7]])]), Ok(()));
    assert_eq!(verdict(vec![life(&log, 7, &[&[]])]), Ok(()));
}

#[test]
fn whoever_lists_again_may_miss_what_was_in_between_only() {
    let log = log();
    assert_eq!(verdict(vec![life(&log, 2, &[&[3]]), life(&log, 6, &[&[7]])]), Ok(()));
    let gap = vec![life(&log, 2, &[&[3, 5]]), life(&log, 6, &[&[7]])];
    assert!(matches!(verdict(gap), Err(Violation::Missed { expected: 4, found: 5, .. })));
    let back = vec![life(&log, 2, &[&[3, 4, 5]]), life(&log, 4, &[&[5, 6, 7]])];
    assert!(matches!(verdict(back), Err(Violation::SteppedBack { shown: 5, found: 4, .. })));
}

#[test]
fn a_list_must_be_the_state_of_its_revision() {
    let log = log();
    let mut stale = life(&log, 5, &[&[6, 7]]);
    stale.items = life(&log, 4, &[]).items;
    assert!(matches!(verdict(vec![stale]), Err(Violation::OtherList { revision: 5, .. })));
    let mut kept = life(&log, 7, &[&[]]);
    kept.items = life(&log, 6, &[]).items;
    assert!(matches!(verdict(vec![kept]), Err(Violation::OtherList { revision: 7, .. })));
}

#[test]
fn a_watch_must_begin_where_its_list_ended_and_come_to_the_end() {
    let log = log();
    let mut late = life(&log, 2, &[&[3, 4, 5, 6, 7]]);
    late.listed = 1;
    late.items = life(&log, 1, &[]).items;
    assert!(matches!(verdict(vec![late]), Err(Violation::ResumedElsewhere { expected: 2, found: 3, .. })));
    assert!(matches!(verdict(vec![life(&log, 2, &[&[3, 4]])]), Err(Violation::NeverShown { missing: 5, .. })));
    assert!(matches!(verdict(vec![life(&log, 2, &[])]), Err(Violation::NeverShown { missing: 7, .. })));
    assert!(matches!(verdict(vec![]), Err(Violation::NeverShown { missing: 7, .. })));
}
