//! What watches told, did not tell, or told too early.

use std::time::Duration;

use etcd::etcdserverpb::{WatchProgressRequest, WatchRequest, watch_request::RequestUnion};

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

/// A watch from a future revision told events from before it, once the server had been restarted.
#[tokio::test]
async fn etcd_19220_a_watch_of_the_future_hears_nothing_older_whatever_happens_meanwhile() {
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
