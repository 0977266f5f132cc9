//! What is the cache's own, beyond the suite.

use futures::FutureExt as _;
use serde_json::json;

use super::*;
use crate::storage::memory::Memory;
use crate::storage::suite::pods;

fn pod(name: &str) -> Object {
    Object::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "n"}})).unwrap()
}

fn cached(memory: &Memory, config: CacheConfig) -> Cached {
    Cached::new(memory.open(pods()), config)
}

async fn create(cached: &Cached, name: &str) -> Revision {
    cached.create(&Key::new("n", name), pod(name), None).await.unwrap().revision()
}

async fn delete(cached: &Cached, name: &str) -> Revision {
    let deleted = cached.delete(&Key::new("n", name), &Preconditions::default(), &mut |_| async { Ok(()) }.boxed()).await;
    deleted.unwrap().revision()
}

async fn names(cached: &Cached, freshness: Freshness) -> Vec<String> {
    let list = cached.list(&Scope::all(), ListOptions { freshness, ..ListOptions::default() }).await.unwrap();
    list.items.iter().map(|entry| entry.key().name.clone()).collect()
}

#[tokio::test]
async fn a_list_right_after_a_write_shows_it() {
    let (memory, config) = (Memory::new(), CacheConfig::default());
    let cached = cached(&memory, config);
    for name in ["a", "b", "c"] {
        create(&cached, name).await;
        assert!(names(&cached, Freshness::Latest).await.contains(&name.to_owned()));
    }
    assert!(cached.cache.revision() >= 4);
}

#[tokio::test]
async fn the_recent_past_is_read_from_the_cache_and_the_far_one_from_the_store() {
    let memory = Memory::new();
    let cached = cached(&memory, CacheConfig { history: 2, ..CacheConfig::default() });
    names(&cached, Freshness::Latest).await;
    let with_a = create(&cached, "a").await;
    let with_b = create(&cached, "b").await;
    delete(&cached, "a").await;
    create(&cached, "c").await;
    assert_eq!(names(&cached, Freshness::Latest).await, ["b", "c"]);
    assert!(cached.cache.at(Freshness::Exact(with_b)).is_some());
    assert!(cached.cache.at(Freshness::Exact(with_a)).is_none());
    assert_eq!(names(&cached, Freshness::Exact(with_b)).await, ["a", "b"]);
    assert_eq!(names(&cached, Freshness::Exact(with_a)).await, ["a"]);
}

#[tokio::test]
async fn a_slow_watcher_is_cut_off_and_costs_nobody_else() {
    let memory = Memory::new();
    let cached = cached(&memory, CacheConfig { queue: 2, ..CacheConfig::default() });
    let options = WatchOptions { initial_events: Some(false), ..WatchOptions::default() };
    let mut slow = cached.watch(&Scope::all(), options.clone()).await.unwrap();
    let mut quick = cached.watch(&Scope::all(), options).await.unwrap();
    for name in ["a", "b", "c", "d"] {
        create(&cached, name).await;
        assert!(matches!(quick.next().await, Some(Ok(WatchItem::Event(event))) if event.entry().key().name == name));
    }
    let mut seen = 0;
    while slow.next().await.is_some() {
        seen += 1;
    }
    assert_eq!(seen, 2);
}

#[tokio::test]
async fn a_watch_by_name_hears_of_that_object_only() {
    let memory = Memory::new();
    let cached = cached(&memory, CacheConfig::default());
    let fields = apimachinery::selector::field::Selector::equal("metadata.name", "b");
    let predicate = Predicate { fields, ..Predicate::default() };
    let mut watch = cached.watch(&Scope::all(), WatchOptions { predicate, ..WatchOptions::default() }).await.unwrap();
    for name in ["a", "b"] {
        create(&cached, name).await;
    }
    let Some(Ok(WatchItem::Event(event))) = watch.next().await else { panic!("no event") };
    assert_eq!(event.entry().key().name, "b");
}

#[tokio::test]
async fn a_watch_from_before_the_history_is_refused_once_the_store_forgot_it() {
    let memory = Memory::new();
    let cached = cached(&memory, CacheConfig { history: 1, ..CacheConfig::default() });
    names(&cached, Freshness::Latest).await;
    let old = create(&cached, "a").await;
    create(&cached, "b").await;
    let now = create(&cached, "c").await;
    names(&cached, Freshness::Latest).await;
    memory.compact(now);
    let options = WatchOptions { start: WatchStart::After(old), ..WatchOptions::default() };
    let refused = match cached.watch(&Scope::all(), options).await {
        Err(error) => error,
        Ok(mut stream) => stream.next().await.unwrap().unwrap_err(),
    };
    assert!(matches!(refused, Error::Compacted { .. }));
}

fn gone(name: &str, revision: Revision) -> FeedChange {
    FeedChange { key: Key::new("n", name), revision, current: None }
}

#[tokio::test]
async fn deletes_of_one_revision_are_shown_together_and_all_told() {
    let memory = Memory::new();
    let cached = cached(&memory, CacheConfig::default());
    for name in ["a", "b"] {
        create(&cached, name).await;
    }
    names(&cached, Freshness::Latest).await;
    let (shown, at) = (cached.cache.revision(), cached.cache.revision() + 1);
    let mut early = cached.watch(&Scope::all(), WatchOptions { start: WatchStart::After(shown), ..WatchOptions::default() }).await.unwrap();
    cached.cache.apply(vec![gone("a", at), gone("b", at)]);
    let (objects, revision) = cached.cache.at(Freshness::Any).unwrap();
    assert_eq!((objects.size(), revision), (0, at));
    for name in ["a", "b"] {
        assert!(matches!(early.next().await, Some(Ok(WatchItem::Event(event))) if event.entry().key().name == name));
    }
    cached.cache.apply(vec![gone("a", at)]);
    assert!(early.next().now_or_never().is_none());
}

#[tokio::test]
async fn no_bookmark_lies_below_the_revision_a_watch_begins_at() {
    let memory = Memory::new();
    let cached = cached(&memory, CacheConfig::default());
    names(&cached, Freshness::Latest).await;
    let ahead = cached.cache.revision() + 5;
    let options = WatchOptions { start: WatchStart::After(ahead), bookmarks: true, ..WatchOptions::default() };
    let begun = cached.cache.begin(Scope::all(), &options).unwrap();
    let mut watch = std::pin::pin!(watcher::follow(&cached.cache, begun, Some(Duration::from_millis(1))));
    assert!(tokio::time::timeout(Duration::from_millis(20), watch.next()).await.is_err());
    cached.cache.progress(ahead + 1);
    let Some(Ok(WatchItem::Bookmark { revision, .. })) = watch.next().await else { panic!("no bookmark") };
    assert_eq!(revision, ahead + 1);
}

#[tokio::test]
async fn a_store_that_never_catches_up_ends_the_watch() {
    let memory = Memory::new();
    let config = CacheConfig { progress: Duration::from_millis(1), catch_up: Duration::from_millis(5), ..CacheConfig::default() };
    let silent = futures::stream::pending().boxed();
    let mut past = std::pin::pin!(watcher::until(memory.open(pods()), silent, 9, &config));
    assert!(matches!(past.next().await, Some(Err(Error::Timeout(_)))));
}
