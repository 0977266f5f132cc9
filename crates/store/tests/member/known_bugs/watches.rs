//! What watches told, did not tell, or told too early.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use etcd::etcdserverpb::{
    PutRequest, RangeRequest, RequestOp, TxnRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, request_op::Request,
    watch_request::RequestUnion,
};

use super::{Watching, all, revisions};
use crate::support::{Cluster, put};

const WRITERS: usize = 4;
const EACH: usize = 300;

/// A report of progress told a revision whose events were still to come: clients that resumed after it missed them.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_15220_progress_never_runs_ahead_of_events() {
    let cluster = Cluster::start(1).await;
    let mut stream = Watching::open(&cluster.members[0], [all(2)]).await;
    let requests = stream.requests.clone();
    let asking = tokio::spawn(async move {
        let mut often = tokio::time::interval(Duration::from_millis(1));
        let progress = || WatchRequest { request_union: Some(RequestUnion::ProgressRequest(WatchProgressRequest {})) };
        while requests.send(progress()).await.is_ok() {
            often.tick().await;
        }
    });
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let mut kv = cluster.members[0].kv();
            tokio::spawn(async move {
                for number in 0..EACH {
                    put(&mut kv, &format!("k{writer}"), &number.to_string()).await.unwrap();
                }
            })
        })
        .collect();
    let (mut told, mut events, mut reports) = (1, 0, 0);
    while events < WRITERS * EACH {
        let response = stream.next().await;
        let header = response.header.as_ref().unwrap().revision;
        for revision in revisions(&response) {
            assert!(revision > told, "an event at {revision} after everything up to {told} had been told");
            told = revision;
            events += 1;
        }
        if response.events.is_empty() && !response.created {
            reports += 1;
            told = told.max(header);
        }
    }
    assert!(reports > 0, "no progress was told");
    asking.abort();
    for writer in writers {
        writer.await.unwrap();
    }
}

/// Watchers whose client read slowly lost events for good.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_17529_starved_watchers_miss_nothing() {
    const WATCHERS: i64 = 8;
    const WRITES: i64 = 200;
    let cluster = Cluster::start(1).await;
    let mut starved = Watching::open(&cluster.members[0], (0..WATCHERS).map(|_| all(2))).await;
    let value = "v".repeat(32 << 10);
    for number in 0..WRITES {
        put(&mut cluster.members[0].kv(), &format!("k{}", number % 10), &value).await.unwrap();
    }
    let mut seen = vec![Vec::new(); WATCHERS as usize];
    while seen.iter().map(Vec::len).sum::<usize>() < (WATCHERS * WRITES) as usize {
        let response = starved.next().await;
        seen[response.watch_id as usize].extend(revisions(&response));
    }
    for watcher in seen {
        assert_eq!(watcher, (2..2 + WRITES).collect::<Vec<_>>());
    }
}

/// What one transaction changed was told as if it had been changed once more.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_17247_what_a_transaction_changed_is_told_once() {
    const ROUNDS: usize = 60;
    let cluster = Cluster::start(1).await;
    let mut stream = Watching::open(&cluster.members[0], [all(2), all(2), all(2)]).await;
    let op = |request| RequestOp { request: Some(request) };
    let put = |key: String| op(Request::RequestPut(PutRequest { key: key.into(), value: "v".into(), ..Default::default() }));
    let read = || op(Request::RequestRange(RangeRequest { key: "k".into(), range_end: "l".into(), ..Default::default() }));
    let nest = |success| op(Request::RequestTxn(TxnRequest { success, ..Default::default() }));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let mut kv = cluster.members[0].kv();
            // Reads before, between and behind the writes, and some within.
            let success = vec![read(), put(format!("k{writer}-a")), nest(vec![put(format!("k{writer}-b")), read()]), read()];
            let txn = TxnRequest { success, ..Default::default() };
            let reads = TxnRequest { success: vec![read()], ..Default::default() };
            tokio::spawn(async move {
                let mut written = Vec::new();
                for _ in 0..ROUNDS {
                    let revision = kv.txn(txn.clone()).await.unwrap().into_inner().header.unwrap().revision;
                    kv.txn(reads.clone()).await.unwrap();
                    written.extend([(revision, format!("k{writer}-a")), (revision, format!("k{writer}-b"))]);
                }
                written
            })
        })
        .collect();
    let mut written = Vec::new();
    for writer in writers {
        written.extend(writer.await.unwrap());
    }
    written.sort();
    let mut seen = vec![Vec::new(); 3];
    while seen.iter().any(|seen| seen.len() < written.len()) {
        let response = stream.next().await;
        let told = response.events.iter().map(|event| event.kv.as_ref().unwrap());
        seen[response.watch_id as usize].extend(told.map(|kv| (kv.mod_revision, String::from_utf8(kv.key.to_vec()).unwrap())));
    }
    for mut seen in seen {
        assert!(seen.is_sorted_by_key(|(revision, _)| *revision));
        seen.sort();
        assert_eq!(seen, written);
    }
}

/// Watches that were opened in quick succession, while changes came in, missed some of them.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_20655_watches_opened_in_quick_succession_miss_nothing() {
    const WRITES: i64 = 300;
    let cluster = Cluster::start(1).await;
    let mut kv = cluster.members[0].kv();
    let (told, mut newest) = tokio::sync::watch::channel(1);
    let writing = tokio::spawn(async move {
        for number in 0..WRITES {
            told.send_replace(put(&mut kv, "k", &number.to_string()).await.unwrap());
        }
    });
    let mut stream = Watching::open(&cluster.members[0], []).await;
    let requests = stream.requests.clone();
    let opening = tokio::spawn(async move {
        let mut starts = Vec::new();
        while newest.changed().await.is_ok() {
            // The present, a little of the past, and what is next.
            let revision = *newest.borrow_and_update();
            for start in [(revision - 20).max(2), revision, revision + 1] {
                let create = WatchCreateRequest { watch_id: 1 + starts.len() as i64, ..all(start) };
                starts.push(start);
                let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
                requests.send(request).await.unwrap();
            }
        }
        starts
    });
    let last = 1 + WRITES;
    let mut seen = BTreeMap::<i64, Vec<i64>>::new();
    let (mut opening, mut starts) = (pin!(opening), Vec::new());
    // Told to the end: all that do not begin after it.
    let complete = |seen: &BTreeMap<i64, Vec<i64>>, starts: &[i64]| {
        let told = seen.values().filter(|revisions| revisions.last() == Some(&last)).count();
        !starts.is_empty() && told == starts.iter().filter(|start| **start <= last).count()
    };
    while !complete(&seen, &starts) {
        tokio::select! {
            response = stream.next() => seen.entry(response.watch_id).or_default().extend(revisions(&response)),
            opened = &mut opening, if starts.is_empty() => starts = opened.unwrap(),
        }
    }
    writing.await.unwrap();
    assert!(starts.len() > 100, "{} watches", starts.len());
    for (number, start) in starts.iter().enumerate() {
        let heard = seen.remove(&(1 + number as i64)).unwrap_or_default();
        assert_eq!(heard, (*start..=last).collect::<Vec<_>>(), "watch {number} from {start}");
    }
}

/// See `etcd_20221`: the same once the server has been restarted.
#[tokio::test]
async fn a_watch_of_the_future_hears_nothing_older_after_a_restart_either() {
    let mut cluster = Cluster::start(1).await;
    for restarted in [false, true] {
        let base = put(&mut cluster.members[0].kv(), "base", "").await.unwrap();
        let mut stream = Watching::open(&cluster.members[0], [all(base + 5)]).await;
        assert!(stream.next().await.created);
        put(&mut cluster.members[0].kv(), "k", "1").await.unwrap();
        put(&mut cluster.members[0].kv(), "k", "2").await.unwrap();
        if restarted {
            cluster.members[0].kill();
            cluster.members[0].start();
            cluster.members[0].wait_for_leader().await;
            stream = Watching::open(&cluster.members[0], [all(base + 5)]).await;
            assert!(stream.next().await.created);
        }
        for value in ["3", "4", "5", "6"] {
            put(&mut cluster.members[0].kv(), "k", value).await.unwrap();
        }
        let mut seen = Vec::new();
        while seen.len() < 2 {
            seen.extend(revisions(&stream.next().await));
        }
        assert_eq!(seen, [base + 5, base + 6]);
    }
}
