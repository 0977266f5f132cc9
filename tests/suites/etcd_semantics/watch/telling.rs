//! What watches tell.

use etcd::etcdserverpb::{DeleteRangeRequest, PutRequest, TxnRequest, WatchCreateRequest, watch_create_request::FilterType};

use super::{on, over, revision, together, told};
use crate::talk::{Talk, delete, put};
use crate::text::Text;

crate::cases![
    events_carry_the_pair_before,
    filters_leave_kinds_out,
    a_revision_arrives_as_one,
    a_large_revision_arrives_in_parts_where_that_is_allowed,
    progress_is_told_on_demand,
    progress_is_told_to_the_idle_who_ask_for_it,
    a_lease_that_ends_is_seen_as_deletions,
    nothing_changes_and_nothing_is_told,
];

async fn events_carry_the_pair_before(talk: &mut Talk) {
    let mut stream = talk.watch(WatchCreateRequest { prev_kv: true, ..on("a") }).await;
    stream.hears("@0 #0 created").await;
    talk.put("a", "1").await;
    stream.hears("@1 #0 [PUT a=1 c1 m1 v1]").await;
    talk.put("a", "2").await;
    stream.hears("@2 #0 [PUT a=2 c1 m2 v2 was a=1 c1 m1 v1]").await;
    talk.delete("a").await;
    stream.hears("@3 #0 [DELETE a= cnone m3 v0 was a=2 c1 m2 v2]").await;
    talk.put("a", "3").await;
    stream.hears("@4 #0 [PUT a=3 c4 m4 v1]").await;
    stream.create(WatchCreateRequest { start_revision: talk.at(2), prev_kv: true, ..on("a") }).await;
    stream.hears("@4 #1 created").await;
    let past = "PUT a=2 c1 m2 v2 was a=1 c1 m1 v1, DELETE a= cnone m3 v0 was a=2 c1 m2 v2, PUT a=3 c4 m4 v1";
    stream.hears(format!("@4 #1 [{past}]")).await;
}

async fn filters_leave_kinds_out(talk: &mut Talk) {
    let without = |filters: &[FilterType]| WatchCreateRequest {
        filters: filters.iter().map(|filter| i32::from(*filter)).collect(),
        start_revision: talk.at(1),
        ..over("a", "c")
    };
    let mut puts = talk.watch(without(&[FilterType::Nodelete])).await;
    let mut deletions = talk.watch(WatchCreateRequest { prev_kv: true, ..without(&[FilterType::Noput]) }).await;
    let mut nothing = talk.watch(without(&[FilterType::Noput, FilterType::Nodelete])).await;
    for stream in [&mut puts, &mut deletions, &mut nothing] {
        stream.hears("@0 #0 created").await;
    }
    talk.put("a", "1").await;
    talk.put("b", "1").await;
    talk.get(DeleteRangeRequest { range_end: "c".into(), ..delete("a") }).await;
    talk.put("a", "2").await;
    puts.hears_events(0, &["PUT a=1 c1 m1 v1", "PUT b=1 c2 m2 v1", "PUT a=2 c4 m4 v1"]).await;
    deletions.hears("@3 #0 [DELETE a= cnone m3 v0 was a=1 c1 m1 v1, DELETE b= cnone m3 v0 was b=1 c2 m2 v1]").await;
    // The next thing it hears is something else.
    nothing.create(on("a")).await;
    nothing.hears("@4 #1 created").await;
    let mut late = talk.watch(without(&[FilterType::Noput])).await;
    late.hears("@4 #0 created").await;
    late.hears("@4 #0 [DELETE a= cnone m3 v0, DELETE b= cnone m3 v0]").await;
}

async fn a_revision_arrives_as_one(talk: &mut Talk) {
    let mut stream = talk.watch(over("k", "l")).await;
    stream.hears("@0 #0 created").await;
    let keys: Vec<_> = (0..100).map(|number| format!("k{number:02}")).collect();
    talk.get(together(&keys, b"v")).await;
    let all = stream.next().await;
    assert_eq!((all.events.len(), all.fragment), (100, false));
    let order: Vec<_> = all.events.iter().map(|event| talk.frame.event(event)).collect();
    let expected: Vec<_> = keys.iter().map(|key| format!("PUT {key}=v c1 m1 v1")).collect();
    assert_eq!(order, expected);
    talk.get(DeleteRangeRequest { range_end: "l".into(), ..delete("k") }).await;
    assert_eq!(stream.next().await.events.len(), 100);
    // What was written while nobody watched is not split either, however much it is.
    for _ in 0..3 {
        talk.get(together(&keys, &[b'x'; 14_000])).await;
    }
    let mut late = talk.watch(WatchCreateRequest { start_revision: talk.at(1), ..over("k", "l") }).await;
    late.hears("@5 #0 created").await;
    let events = late.events(0, 500).await;
    assert_eq!(events.len(), 500);
    let revisions: Vec<_> = events.chunks(100).map(|chunk| revision(chunk.first()) - talk.at(0)).collect();
    assert_eq!(revisions, [1, 2, 3, 4, 5]);
}

async fn a_large_revision_arrives_in_parts_where_that_is_allowed(talk: &mut Talk) {
    let keys: Vec<_> = (0..10).map(|number| format!("k{number}")).collect();
    let mut parts = talk.watch(WatchCreateRequest { fragment: true, prev_kv: true, ..over("k", "l") }).await;
    let mut whole = talk.watch(WatchCreateRequest { prev_kv: true, ..over("k", "l") }).await;
    for stream in [&mut parts, &mut whole] {
        stream.hears("@0 #0 created").await;
    }
    for letter in [b'x', b'y'] {
        talk.get(together(&keys, &[letter; 140_000])).await;
    }
    let (mut seen, mut parted) = (Vec::new(), 0);
    while seen.len() < 20 {
        let part = parts.next().await;
        assert_eq!((part.watch_id, part.created, part.canceled), (0, false, false));
        parted += usize::from(part.fragment);
        seen.extend(part.events);
        // The last one says that it is.
        assert!(seen.len() % 10 != 0 || !part.fragment, "{} events", seen.len());
    }
    // With the pairs before, the second revision is 2.8 MB.
    assert!(parted > 0, "nothing came in parts");
    assert_eq!(seen, whole.events(0, 20).await);
}

async fn progress_is_told_on_demand(talk: &mut Talk) {
    let mut stream = talk.watch(on("a")).await;
    stream.hears("@0 #0 created").await;
    stream.create(over("b", "c")).await;
    stream.hears("@0 #1 created").await;
    talk.put("z", "1").await;
    // It begins right after that revision: the server waits for none of its watches.
    talk.put("a", "1").await;
    stream.hears("@2 #0 [PUT a=1 c2 m2 v1]").await;
    stream.ask_for_progress().await;
    stream.hears("@2 #-1").await;
    talk.put("z", "2").await;
    talk.put("b", "1").await;
    stream.hears("@4 #1 [PUT b=1 c4 m4 v1]").await;
    stream.ask_for_progress().await;
    stream.hears("@4 #-1").await;
}

async fn progress_is_told_to_the_idle_who_ask_for_it(talk: &mut Talk) {
    let mut stream = talk.watch(WatchCreateRequest { progress_notify: true, ..on("a") }).await;
    stream.hears("@0 #0 created").await;
    stream.create(on("a")).await;
    talk.put("z", "1").await;
    let mut seen = Vec::new();
    // Reports say how far the store was each time; none is for the watch that did not ask.
    while seen.last().is_none_or(|text| text != "@1 #0") {
        let response = stream.next().await;
        if !response.created {
            seen.push(response.text(&talk.frame));
        }
    }
    assert!(seen.iter().all(|text| ["@0 #0", "@1 #0"].contains(&text.as_str())), "{seen:?}");
    stream.hears("@1 #0").await;
}

async fn a_lease_that_ends_is_seen_as_deletions(talk: &mut Talk) {
    talk.grant(7, 1).await;
    for key in ["a", "b"] {
        talk.get(PutRequest { lease: 7, ..put(key, "1") }).await;
    }
    let mut stream = talk.watch(over("a", "c")).await;
    stream.hears("@2 #0 created").await;
    let ended = stream.next().await;
    let mut told = told(&talk.frame, &ended.events);
    // A lease's keys are a set.
    told.sort();
    assert_eq!(told, ["DELETE a= cnone m3 v0", "DELETE b= cnone m3 v0"]);
    assert_eq!(ended.header.unwrap().revision, talk.at(3));
}

async fn nothing_changes_and_nothing_is_told(talk: &mut Talk) {
    let mut stream = talk.watch(on("a")).await;
    stream.hears("@0 #0 created").await;
    talk.delete("a").await;
    talk.get(TxnRequest::default()).await;
    talk.put("a", "1").await;
    stream.hears("@1 #0 [PUT a=1 c1 m1 v1]").await;
    // Putting the same again is a change.
    talk.put("a", "1").await;
    stream.hears("@2 #0 [PUT a=1 c1 m2 v2]").await;
    stream.create(WatchCreateRequest { start_revision: talk.at(1), ..on("a") }).await;
    stream.hears("@2 #1 created").await;
    stream.hears("@2 #1 [PUT a=1 c1 m1 v1, PUT a=1 c1 m2 v2]").await;
}
