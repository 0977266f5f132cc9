//! What every [`Storage`] must do, whatever lies below it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::Object;
use apimachinery::gvk::GroupResource;
use apimachinery::selector::{field, label};
use apimachinery::status::Status;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};

use super::*;

/// One storage under test, empty, and a way to compact its history.
pub(crate) struct Subject {
    pub(crate) storage: Arc<dyn Storage>,
    /// Forgets the history before a revision; `None` = cannot be done here.
    pub(crate) compact: Option<Box<dyn Fn(Revision) -> futures::future::BoxFuture<'static, ()> + Send + Sync>>,
}

/// The collection the suite works on.
pub(crate) fn pods() -> Collection {
    let phase = |object: &Object| vec![("status.phase".into(), object.str_at("/status/phase").to_owned())];
    Collection::new(GroupResource::new("", "pods"), "/registry/pods").with_fields(Arc::new(phase))
}

/// Runs every case on a fresh storage each.
pub(crate) async fn run_all<F: Future<Output = Subject>>(make: impl Fn() -> F) {
    create_then_get(&make().await).await;
    create_twice_is_refused(&make().await).await;
    a_read_of_the_future_is_refused(&make().await).await;
    an_update_sees_the_newest_object(&make().await).await;
    an_update_that_changes_nothing_writes_nothing(&make().await).await;
    an_update_is_refused_by_preconditions(&make().await).await;
    an_update_from_an_old_view_begins_anew(&make().await).await;
    an_update_may_create_or_remove(&make().await).await;
    a_rejection_reaches_the_caller(&make().await).await;
    concurrent_updates_all_count(&make().await).await;
    deletion_returns_the_last_state(&make().await).await;
    lists_are_ordered_and_scoped(&make().await).await;
    pages_show_one_revision(&make().await).await;
    selected_pages_fill_up(&make().await).await;
    lists_show_the_past(&make().await).await;
    a_watch_begins_with_the_state(&make().await).await;
    a_watch_goes_on_from_a_revision(&make().await).await;
    a_watch_sees_objects_enter_and_leave_its_selection(&make().await).await;
    initial_events_end_with_a_bookmark(&make().await).await;
    progress_reaches_a_quiet_watch(&make().await).await;
    an_object_expires(&make().await).await;
    compacted_history_is_refused(&make().await).await;
}

fn pod(name: &str, phase: &str) -> Object {
    let value = json!({
        "apiVersion": "v1", "kind": "Pod", "status": {"phase": phase},
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "labels": {"app": name}},
    });
    Object(value.as_object().cloned().unwrap())
}

/// An update to keep for good.
fn put(object: Object) -> Update {
    Update::Put { object, ttl: None }
}

fn key(name: &str) -> Key {
    Key::new("ns", name)
}

async fn create(subject: &Subject, name: &str) -> Entry {
    subject.storage.create(&key(name), pod(name, "Pending"), None).await.unwrap()
}

async fn set_phase(subject: &Subject, name: &str, phase: &str) -> Entry {
    let phase = phase.to_owned();
    let mut updater = move |entry: Option<Entry>| {
        let mut object = entry.unwrap().object();
        object.0.insert("status".into(), json!({"phase": phase}));
        async move { Ok(put(object)) }.boxed()
    };
    subject.storage.update(&key(name), UpdateOptions::default(), &mut updater).await.unwrap().into_entry()
}

async fn delete(subject: &Subject, name: &str) -> Entry {
    subject.storage.delete(&key(name), &Preconditions::default(), &mut |_| async { Ok(()) }.boxed()).await.unwrap()
}

async fn list(subject: &Subject, options: ListOptions) -> List {
    subject.storage.list(&Scope::all(), options).await.unwrap()
}

fn names(list: &List) -> Vec<String> {
    list.items.iter().map(|entry| entry.key().to_string()).collect()
}

async fn watch(subject: &Subject, options: WatchOptions) -> WatchStream {
    subject.storage.watch(&Scope::namespace("ns"), options).await.unwrap()
}

async fn next(stream: &mut WatchStream) -> Result<WatchItem> {
    tokio::time::timeout(Duration::from_secs(10), stream.next()).await.expect("the watch yields nothing").expect("the watch ended")
}

/// The next event as `KIND name@revision`, bookmarks left out.
async fn event(stream: &mut WatchStream) -> String {
    loop {
        if let WatchItem::Event(event) = next(stream).await.unwrap() {
            let entry = event.entry();
            assert_eq!(entry.object().resource_version(), entry.revision().to_string());
            return format!("{} {}@{}", event.kind.as_str(), entry.key().name, entry.revision());
        }
    }
}

async fn create_then_get(subject: &Subject) {
    let created = create(subject, "a").await;
    assert_eq!(created.object().resource_version(), created.revision().to_string());
    let got = subject.storage.get(&key("a"), Freshness::Latest).await.unwrap();
    assert_eq!((got.revision(), got.object().0), (created.revision(), created.object().0));
    let missing = subject.storage.get(&key("b"), Freshness::Latest).await;
    assert!(matches!(missing, Err(Error::NotFound { key }) if key == "/registry/pods/ns/b"));
}

async fn create_twice_is_refused(subject: &Subject) {
    create(subject, "a").await;
    let again = subject.storage.create(&key("a"), pod("a", ""), None).await;
    assert!(matches!(again, Err(Error::Exists { .. })));
}

async fn a_read_of_the_future_is_refused(subject: &Subject) {
    let now = create(subject, "a").await.revision();
    let future = Freshness::NotOlderThan(now + 1_000_000);
    let refused = subject.storage.list(&Scope::all(), ListOptions { freshness: future, ..ListOptions::default() }).await;
    assert!(matches!(refused, Err(Error::FutureRevision { requested, .. }) if requested == now + 1_000_000));
    let refused = subject.storage.get(&key("a"), future).await;
    assert!(matches!(refused, Err(Error::FutureRevision { .. })));
}

async fn an_update_sees_the_newest_object(subject: &Subject) {
    let created = create(subject, "a").await;
    let updated = set_phase(subject, "a", "Running").await;
    assert!(updated.revision() > created.revision());
    let got = subject.storage.get(&key("a"), Freshness::Latest).await.unwrap().object();
    assert_eq!(got.pointer("/status/phase"), Some(&json!("Running")));
    let mut never = |_| async { unreachable!() }.boxed();
    let missing = subject.storage.update(&key("b"), UpdateOptions::default(), &mut never).await;
    assert!(matches!(missing, Err(Error::NotFound { .. })));
}

async fn an_update_that_changes_nothing_writes_nothing(subject: &Subject) {
    let created = create(subject, "a").await;
    assert_eq!(set_phase(subject, "a", "Pending").await.revision(), created.revision());
    assert_eq!(subject.storage.current_revision().await.unwrap(), created.revision());
}

async fn an_update_is_refused_by_preconditions(subject: &Subject) {
    let created = create(subject, "a").await;
    let with = |preconditions| UpdateOptions { preconditions, ..UpdateOptions::default() };
    let mut never = |_| async { unreachable!() }.boxed();
    let other_uid = Preconditions { uid: Some("other".into()), resource_version: None };
    let refused = subject.storage.update(&key("a"), with(other_uid.clone()), &mut never).await;
    let text = "Precondition failed: UID in precondition: other, UID in object meta: uid-a";
    assert!(matches!(refused, Err(Error::Precondition { reason, .. }) if reason == text));
    let refused = subject.storage.delete(&key("a"), &other_uid, &mut |_| async { Ok(()) }.boxed()).await;
    assert!(matches!(refused, Err(Error::Precondition { .. })));
    let stale = Preconditions { uid: None, resource_version: Some((created.revision() - 1).to_string()) };
    let refused = subject.storage.update(&key("a"), with(stale), &mut never).await;
    assert!(matches!(refused, Err(Error::Precondition { .. })));
}

async fn an_update_from_an_old_view_begins_anew(subject: &Subject) {
    let old = create(subject, "a").await;
    let now = set_phase(subject, "a", "Running").await;
    let options = UpdateOptions { hint: Some(old), ..UpdateOptions::default() };
    let mut updater = |entry: Option<Entry>| {
        let mut object = entry.unwrap().object();
        object.set_annotation("seen", object.clone().str_at("/status/phase"));
        async move { Ok(put(object)) }.boxed()
    };
    let updated = subject.storage.update(&key("a"), options, &mut updater).await.unwrap().into_entry();
    assert!(updated.revision() > now.revision());
    assert_eq!(updated.object().annotation("seen"), Some("Running"));
    delete(subject, "a").await;
    let options = UpdateOptions { hint: Some(updated), ..UpdateOptions::default() };
    let gone = subject.storage.update(&key("a"), options, &mut updater).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
}

async fn an_update_may_create_or_remove(subject: &Subject) {
    let options = UpdateOptions { ignore_not_found: true, ..UpdateOptions::default() };
    let mut create = |before: Option<Entry>| {
        assert!(before.is_none());
        async { Ok(put(pod("a", "Pending"))) }.boxed()
    };
    let created = subject.storage.update(&key("a"), options.clone(), &mut create).await.unwrap();
    assert!(matches!(created, Updated::Created(_)));
    let removed = subject.storage.update(&key("a"), options, &mut |_| async { Ok(Update::Remove) }.boxed()).await.unwrap();
    assert!(matches!(removed, Updated::Removed(_)));
    assert!(list(subject, ListOptions::default()).await.items.is_empty());
}

async fn a_rejection_reaches_the_caller(subject: &Subject) {
    let created = create(subject, "a").await;
    let mut reject = |_| async { Err(Status::bad_request("no")) }.boxed();
    let rejected = subject.storage.update(&key("a"), UpdateOptions::default(), &mut reject).await;
    assert!(matches!(rejected, Err(Error::Rejected(_))));
    let mut reject = |_| async { Err(Status::bad_request("no")) }.boxed();
    let rejected = subject.storage.delete(&key("a"), &Preconditions::default(), &mut reject).await;
    assert!(matches!(rejected, Err(Error::Rejected(_))));
    assert_eq!(subject.storage.current_revision().await.unwrap(), created.revision());
}

async fn concurrent_updates_all_count(subject: &Subject) {
    create(subject, "a").await;
    let increment = || async {
        let mut updater = |entry: Option<Entry>| {
            let mut object = entry.unwrap().object();
            let count = object.pointer("/status/count").and_then(Value::as_u64).unwrap_or(0);
            object.0.insert("status".into(), json!({"count": count + 1}));
            async move { Ok(put(object)) }.boxed()
        };
        subject.storage.update(&key("a"), UpdateOptions::default(), &mut updater).await.unwrap();
    };
    futures::future::join_all((0..16).map(|_| increment())).await;
    let got = subject.storage.get(&key("a"), Freshness::Latest).await.unwrap().object();
    assert_eq!(got.pointer("/status/count"), Some(&json!(16)));
}

async fn deletion_returns_the_last_state(subject: &Subject) {
    let created = create(subject, "a").await;
    let deleted = delete(subject, "a").await;
    assert!(deleted.revision() > created.revision());
    assert_eq!(deleted.object().name(), "a");
    let gone = subject.storage.delete(&key("a"), &Preconditions::default(), &mut |_| async { Ok(()) }.boxed()).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })));
}

async fn lists_are_ordered_and_scoped(subject: &Subject) {
    for name in ["c", "a", "b"] {
        create(subject, name).await;
    }
    let mut other = pod("z", "Pending");
    other.0["metadata"]["namespace"] = json!("ns2");
    subject.storage.create(&Key::new("ns2", "z"), other, None).await.unwrap();
    assert_eq!(names(&list(subject, ListOptions::default()).await), ["ns/a", "ns/b", "ns/c", "ns2/z"]);
    let one = subject.storage.list(&Scope::namespace("ns"), ListOptions::default()).await.unwrap();
    assert_eq!(names(&one), ["ns/a", "ns/b", "ns/c"]);
    assert_eq!(one.revision, subject.storage.current_revision().await.unwrap());
    let none = subject.storage.list(&Scope::namespace("n"), ListOptions::default()).await.unwrap();
    assert!(none.items.is_empty());
}

async fn pages_show_one_revision(subject: &Subject) {
    for name in ["a", "b", "c", "d", "e"] {
        create(subject, name).await;
    }
    let first = list(subject, ListOptions { limit: 2, ..ListOptions::default() }).await;
    assert_eq!((names(&first), first.remaining), (vec!["ns/a".to_owned(), "ns/b".to_owned()], Some(3)));
    delete(subject, "c").await;
    create(subject, "bb").await;
    let second = list(subject, ListOptions { limit: 2, continue_token: first.continue_token, ..ListOptions::default() }).await;
    assert_eq!((names(&second), second.revision, second.remaining), (vec!["ns/c".to_owned(), "ns/d".to_owned()], first.revision, Some(1)));
    let third = list(subject, ListOptions { limit: 2, continue_token: second.continue_token, ..ListOptions::default() }).await;
    assert_eq!((names(&third), third.continue_token.as_str(), third.remaining), (vec!["ns/e".to_owned()], "", None));
}

async fn selected_pages_fill_up(subject: &Subject) {
    for name in ["a", "b", "c", "d", "e"] {
        create(subject, name).await;
    }
    for name in ["b", "e"] {
        set_phase(subject, name, "Running").await;
    }
    let predicate = Predicate { fields: field::Selector::parse("status.phase=Running").unwrap(), ..Predicate::default() };
    let page = list(subject, ListOptions { limit: 2, predicate: predicate.clone(), ..ListOptions::default() }).await;
    assert_eq!((names(&page), page.continue_token.as_str()), (vec!["ns/b".to_owned(), "ns/e".to_owned()], ""));
    let page = list(subject, ListOptions { limit: 1, predicate, ..ListOptions::default() }).await;
    assert_eq!((names(&page), page.remaining), (vec!["ns/b".to_owned()], None));
    assert!(!page.continue_token.is_empty());
    let predicate = Predicate { labels: label::Selector::parse("app in (a,d)").unwrap(), ..Predicate::default() };
    assert_eq!(names(&list(subject, ListOptions { predicate, ..ListOptions::default() }).await), ["ns/a", "ns/d"]);
}

async fn lists_show_the_past(subject: &Subject) {
    create(subject, "a").await;
    let then = create(subject, "b").await.revision();
    delete(subject, "a").await;
    create(subject, "c").await;
    let past = list(subject, ListOptions { freshness: Freshness::Exact(then), ..ListOptions::default() }).await;
    assert_eq!((names(&past), past.revision), (vec!["ns/a".to_owned(), "ns/b".to_owned()], then));
    let now = list(subject, ListOptions { freshness: Freshness::NotOlderThan(then), ..ListOptions::default() }).await;
    assert_eq!(names(&now), ["ns/b", "ns/c"]);
}

async fn a_watch_begins_with_the_state(subject: &Subject) {
    let a = create(subject, "a").await.revision();
    let b = create(subject, "b").await.revision();
    let mut stream = watch(subject, WatchOptions::default()).await;
    assert_eq!(event(&mut stream).await, format!("ADDED a@{a}"));
    assert_eq!(event(&mut stream).await, format!("ADDED b@{b}"));
    let c = create(subject, "c").await.revision();
    assert_eq!(event(&mut stream).await, format!("ADDED c@{c}"));
    let options = WatchOptions { initial_events: Some(false), ..WatchOptions::default() };
    let mut stream = watch(subject, options).await;
    let gone = delete(subject, "a").await.revision();
    assert_eq!(event(&mut stream).await, format!("DELETED a@{gone}"));
}

async fn a_watch_goes_on_from_a_revision(subject: &Subject) {
    let a = create(subject, "a").await.revision();
    let b = create(subject, "b").await.revision();
    let changed = set_phase(subject, "a", "Running").await.revision();
    let gone = delete(subject, "b").await.revision();
    let mut stream = watch(subject, WatchOptions { start: WatchStart::After(a), ..WatchOptions::default() }).await;
    for expected in [format!("ADDED b@{b}"), format!("MODIFIED a@{changed}"), format!("DELETED b@{gone}")] {
        assert_eq!(event(&mut stream).await, expected);
    }
    let other = Key::new("ns2", "x");
    subject.storage.create(&other, pod("x", ""), None).await.unwrap();
    let c = create(subject, "c").await.revision();
    assert_eq!(event(&mut stream).await, format!("ADDED c@{c}"));
}

async fn a_watch_sees_objects_enter_and_leave_its_selection(subject: &Subject) {
    let start = WatchStart::After(create(subject, "a").await.revision());
    let fields = field::Selector::parse("status.phase=Running").unwrap();
    let predicate = Predicate { fields, ..Predicate::default() };
    let mut stream = watch(subject, WatchOptions { start, predicate, ..WatchOptions::default() }).await;
    create(subject, "b").await;
    let entered = set_phase(subject, "a", "Running").await.revision();
    assert_eq!(event(&mut stream).await, format!("ADDED a@{entered}"));
    let left = set_phase(subject, "a", "Failed").await.revision();
    assert_eq!(event(&mut stream).await, format!("DELETED a@{left}"));
    delete(subject, "a").await;
    let entered = set_phase(subject, "b", "Running").await.revision();
    assert_eq!(event(&mut stream).await, format!("ADDED b@{entered}"));
}

async fn initial_events_end_with_a_bookmark(subject: &Subject) {
    let a = create(subject, "a").await.revision();
    let options = WatchOptions { initial_events: Some(true), bookmarks: true, ..WatchOptions::default() };
    let mut stream = watch(subject, options).await;
    assert_eq!(event(&mut stream).await, format!("ADDED a@{a}"));
    let WatchItem::Bookmark { revision, initial_events_end: true } = next(&mut stream).await.unwrap() else {
        panic!("not the bookmark that ends the initial events");
    };
    assert!(revision >= a);
}

async fn progress_reaches_a_quiet_watch(subject: &Subject) {
    let a = create(subject, "a").await.revision();
    let mut stream = watch(subject, WatchOptions { start: WatchStart::After(a), bookmarks: true, ..WatchOptions::default() }).await;
    let other = subject.storage.create(&Key::new("ns2", "x"), pod("x", ""), None).await.unwrap().revision();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        subject.storage.request_progress().await.unwrap();
        match tokio::time::timeout(Duration::from_millis(200), next(&mut stream)).await {
            Ok(Ok(WatchItem::Bookmark { revision, .. })) if revision >= other => return,
            Ok(Err(error)) => panic!("{error}"),
            _ => assert!(tokio::time::Instant::now() < deadline, "no progress"),
        }
    }
}

async fn an_object_expires(subject: &Subject) {
    let ttl = Some(Duration::from_secs(1));
    let created = subject.storage.create(&key("a"), pod("a", ""), ttl).await.unwrap();
    let start = WatchStart::After(created.revision());
    let mut stream = watch(subject, WatchOptions { start, ..WatchOptions::default() }).await;
    assert!(event(&mut stream).await.starts_with("DELETED a@"));
    assert!(matches!(subject.storage.get(&key("a"), Freshness::Latest).await, Err(Error::NotFound { .. })));
}

async fn compacted_history_is_refused(subject: &Subject) {
    let Some(compact) = &subject.compact else { return };
    let a = create(subject, "a").await.revision();
    create(subject, "b").await;
    let page = list(subject, ListOptions { limit: 1, ..ListOptions::default() }).await;
    create(subject, "c").await;
    let now = create(subject, "d").await.revision();
    compact(now).await;
    let options = WatchOptions { start: WatchStart::After(a), ..WatchOptions::default() };
    let refused = match subject.storage.watch(&Scope::all(), options).await {
        Ok(mut stream) => next(&mut stream).await.map(|_| ()),
        Err(error) => Err(error),
    };
    assert!(matches!(refused, Err(Error::Compacted { .. })), "{refused:?}");
    let options = ListOptions { limit: 1, continue_token: page.continue_token, ..ListOptions::default() };
    let refused = subject.storage.list(&Scope::all(), options).await;
    let Err(Error::Compacted { continue_token, .. }) = refused else { panic!("{refused:?}") };
    let on = list(subject, ListOptions { continue_token, ..ListOptions::default() }).await;
    assert_eq!(names(&on), ["ns/b", "ns/c", "ns/d"]);
}

mod cache {
    use super::*;
    use crate::storage::cache::{CacheConfig, CachedBackend};
    use crate::storage::memory::Memory;

    #[tokio::test]
    async fn a_cache_over_memory_passes_the_suite() {
        run_all(|| async {
            let memory = Memory::new();
            let config = CacheConfig { bookmarks: Duration::from_millis(20), ..CacheConfig::default() };
            let storage = CachedBackend::new(Arc::new(memory), config).open(pods());
            Subject { storage, compact: None }
        })
        .await;
    }
}

mod memory {
    use super::*;
    use crate::storage::memory::Memory;

    #[tokio::test]
    async fn a_store_in_memory_passes_the_suite() {
        run_all(|| async {
            let memory = Memory::new();
            let storage = memory.open(pods());
            let compact = move |revision| {
                memory.compact(revision);
                async {}.boxed()
            };
            Subject { storage, compact: Some(Box::new(compact)) }
        })
        .await;
    }
}
