//! How watches begin and end.

use etcd::etcdserverpb::{CompactionRequest, WatchCreateRequest};

use super::{on, over};
use crate::talk::Talk;
use crate::text::Text;

crate::cases![
    a_watch_is_created_tells_and_is_cancelled,
    one_stream_carries_many_watches,
    a_client_chooses_ids_and_each_serves_once,
    a_range_that_holds_nothing_is_refused,
    a_prefix_and_everything_from_a_key_are_watched,
    a_watch_begins_in_the_past,
    a_watch_begins_in_the_future,
    a_watch_of_compacted_history_is_cancelled,
    a_watch_may_begin_where_history_was_compacted,
    a_negative_start_is_refused,
];

async fn a_watch_is_created_tells_and_is_cancelled(talk: &mut Talk) {
    talk.put("a", "0").await;
    let mut stream = talk.watch(on("a")).await;
    stream.hears("@1 #0 created").await;
    talk.put("b", "1").await;
    talk.put("a", "1").await;
    stream.hears("@3 #0 [PUT a=1 c1 m3 v2]").await;
    talk.delete("a").await;
    stream.hears("@4 #0 [DELETE a= cnone m4 v0]").await;
    stream.cancel(0).await;
    stream.hears("@4 #0 canceled").await;
    talk.put("a", "2").await;
    stream.cancel(0).await;
    stream.cancel(5).await;
    stream.create(on("b")).await;
    stream.hears("@5 #1 created").await;
}

async fn one_stream_carries_many_watches(talk: &mut Talk) {
    let mut stream = talk.watch(on("k0")).await;
    stream.hears("@0 #0 created").await;
    for id in 1..50 {
        stream.create(on(&format!("k{id}"))).await;
        stream.hears(format!("@0 #{id} created")).await;
    }
    for (revision, id) in [(1, 49), (2, 0), (3, 17)] {
        talk.put(&format!("k{id}"), "v").await;
        stream.hears(format!("@{revision} #{id} [PUT k{id}=v c{revision} m{revision} v1]")).await;
    }
    stream.create(on("k17")).await;
    stream.hears("@3 #50 created").await;
    talk.put("k17", "w").await;
    let mut both = [stream.next().await, stream.next().await];
    both.sort_by_key(|response| response.watch_id);
    let both = both.map(|response| response.text(&talk.frame));
    assert_eq!(both, ["@4 #17 [PUT k17=w c3 m4 v2]", "@4 #50 [PUT k17=w c3 m4 v2]"]);
}

async fn a_client_chooses_ids_and_each_serves_once(talk: &mut Talk) {
    let numbered = |watch_id| WatchCreateRequest { watch_id, ..on("a") };
    let mut stream = talk.watch(numbered(1)).await;
    stream.hears("@0 #1 created").await;
    for (asked, answer) in [
        (0, "@0 #0 created"),
        // The next free one: 1 is taken.
        (0, "@0 #2 created"),
        (1, "@0 #-1 created canceled (mvcc: duplicate watch ID provided on the WatchStream)"),
        (77, "@0 #77 created"),
        (0, "@0 #3 created"),
    ] {
        stream.create(numbered(asked)).await;
        stream.hears(answer).await;
    }
    stream.cancel(1).await;
    stream.hears("@0 #1 canceled").await;
    stream.create(numbered(1)).await;
    stream.hears("@0 #1 created").await;
}

async fn a_range_that_holds_nothing_is_refused(talk: &mut Talk) {
    let mut stream = talk.watch(over("b", "a")).await;
    let refused = "@0 #-1 created canceled (mvcc: watcher range is empty)";
    stream.hears(refused).await;
    stream.create(over("b", "b")).await;
    stream.hears(refused).await;
    stream.create(on("b")).await;
    stream.hears("@0 #0 created").await;
}

async fn a_prefix_and_everything_from_a_key_are_watched(talk: &mut Talk) {
    let mut prefix = talk.watch(over("k/", "k0")).await;
    let mut from = talk.watch(over("k/b", "\0")).await;
    let mut everything = talk.watch(over("", "\0")).await;
    for stream in [&mut prefix, &mut from, &mut everything] {
        stream.hears("@0 #0 created").await;
    }
    for key in ["k/a", "k/b", "k0", "k", "z"] {
        talk.put(key, "").await;
    }
    let [a, b, end, short, z] = ["PUT k/a= c1 m1 v1", "PUT k/b= c2 m2 v1", "PUT k0= c3 m3 v1", "PUT k= c4 m4 v1", "PUT z= c5 m5 v1"];
    prefix.hears_events(0, &[a, b]).await;
    from.hears_events(0, &[b, end, z]).await;
    everything.hears_events(0, &[a, b, end, short, z]).await;
}

async fn a_watch_begins_in_the_past(talk: &mut Talk) {
    for value in ["1", "2", "3"] {
        talk.put("a", value).await;
        talk.put("b", value).await;
    }
    talk.delete("a").await;
    let mut stream = talk.watch(WatchCreateRequest { start_revision: talk.at(3), ..on("a") }).await;
    stream.hears("@7 #0 created").await;
    stream.hears("@7 #0 [PUT a=2 c1 m3 v2, PUT a=3 c1 m5 v3, DELETE a= cnone m7 v0]").await;
    talk.put("a", "4").await;
    stream.hears("@8 #0 [PUT a=4 c8 m8 v1]").await;
    stream.create(WatchCreateRequest { start_revision: talk.at(8), ..on("a") }).await;
    stream.hears("@8 #1 created").await;
    stream.hears("@8 #1 [PUT a=4 c8 m8 v1]").await;
}

async fn a_watch_begins_in_the_future(talk: &mut Talk) {
    let mut stream = talk.watch(WatchCreateRequest { start_revision: talk.at(3), ..on("a") }).await;
    stream.hears("@0 #0 created").await;
    for value in ["1", "2", "3", "4"] {
        talk.put("a", value).await;
    }
    stream.hears_events(0, &["PUT a=3 c1 m3 v3", "PUT a=4 c1 m4 v4"]).await;
}

async fn a_watch_of_compacted_history_is_cancelled(talk: &mut Talk) {
    for value in ["1", "2", "3", "4"] {
        talk.put("a", value).await;
    }
    talk.get(CompactionRequest { revision: talk.at(3), physical: true }).await;
    let mut stream = talk.watch(WatchCreateRequest { start_revision: talk.at(2), ..on("a") }).await;
    stream.hears("@4 #0 created").await;
    stream.hears("@none #0 canceled compacted 3").await;
    stream.create(WatchCreateRequest { start_revision: 1, ..on("never written") }).await;
    stream.hears("@4 #1 created").await;
    stream.hears("@none #1 canceled compacted 3").await;
    stream.create(on("a")).await;
    stream.hears("@4 #2 created").await;
}

async fn a_watch_may_begin_where_history_was_compacted(talk: &mut Talk) {
    for value in ["1", "2", "3"] {
        talk.put("a", value).await;
    }
    talk.put("b", "1").await;
    talk.delete("b").await;
    talk.get(CompactionRequest { revision: talk.at(3), physical: true }).await;
    let mut stream = talk.watch(WatchCreateRequest { start_revision: talk.at(3), ..over("a", "c") }).await;
    stream.hears("@5 #0 created").await;
    stream.hears("@5 #0 [PUT a=3 c1 m3 v3, PUT b=1 c4 m4 v1, DELETE b= cnone m5 v0]").await;
    // The pair before the oldest event is gone, that before a later one is not.
    stream.create(WatchCreateRequest { start_revision: talk.at(3), prev_kv: true, ..over("a", "c") }).await;
    stream.hears("@5 #1 created").await;
    stream.hears("@5 #1 [PUT a=3 c1 m3 v3, PUT b=1 c4 m4 v1, DELETE b= cnone m5 v0 was b=1 c4 m4 v1]").await;
}

async fn a_negative_start_is_refused(talk: &mut Talk) {
    if !talk.is_3_6 {
        // Later patches of 3.5 refuse it too; this one takes it for compacted history, where there is some.
        return;
    }
    let mut stream = talk.watch(WatchCreateRequest { start_revision: -1, ..on("a") }).await;
    stream.hears("@0 #-1 created canceled (etcdserver: mvcc: required revision has been compacted)").await;
}
