//! [`Storage`] over any [`Kv`]: objects in and out of values, preconditions, retries, pages, predicates.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::Object;
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream};

use super::entry::encode;
use super::kv::{KeyValue, Kv, KvEvent, KvItem, Outcome, Range, RangeResult, prefix_end};
use super::paging::Continue;
use super::written::Written;
use super::*;

/// An update that loses this many times against other writers gives up.
const ATTEMPTS: usize = 64;
/// The store is asked for at most this many keys at once.
const MAX_FETCH: u64 = 10_000;

/// The objects of one resource in a key-value store.
pub(crate) struct TypedStorage<K> {
    kv: Arc<K>,
    collection: Arc<Collection>,
    written: Arc<Written>,
}

impl<K: Kv> TypedStorage<K> {
    pub(crate) fn new(kv: Arc<K>, collection: Collection) -> Self {
        Self { kv, collection: Arc::new(collection), written: Arc::default() }
    }

    fn path(&self, key: &Key) -> String {
        format!("{}/{key}", self.collection.prefix)
    }

    fn entry(&self, kv: &KeyValue) -> Result<Entry> {
        decode(&self.collection, &kv.key, &kv.value, kv.revision)
    }

    async fn read(&self, path: &str) -> Result<(Option<KeyValue>, Revision)> {
        let range = Range { start: path.to_owned(), end: format!("{path}\0"), ..Range::default() };
        let mut result = self.kv.range(range).await?;
        Ok((result.items.pop(), result.revision))
    }

    fn not_found(&self, key: &Key) -> Error {
        Error::NotFound { key: self.path(key) }
    }

    /// The revision to read at (0 = now), once the store is known to have reached `freshness`.
    async fn read_at(&self, freshness: Freshness) -> Result<Revision> {
        let (needed, read_at) = match freshness {
            Freshness::Latest | Freshness::Any => return Ok(0),
            Freshness::NotOlderThan(revision) => (revision, 0),
            Freshness::Exact(revision) => (revision, revision),
        };
        let current = self.current_revision().await?;
        if needed > current {
            return Err(Error::FutureRevision { requested: needed, current });
        }
        Ok(read_at)
    }

    /// The state a watch begins with: entries (empty if none are wanted) and the revision they show.
    async fn initial_state(&self, scope: &Scope, options: &WatchOptions) -> Result<(Vec<Entry>, Revision)> {
        let wants_state = options.initial_events.unwrap_or(!matches!(options.start, WatchStart::After(_)));
        match options.start {
            WatchStart::After(revision) if !wants_state => Ok((Vec::new(), revision)),
            _ if !wants_state => Ok((Vec::new(), self.current_revision().await?)),
            start => {
                let freshness = match start {
                    WatchStart::Latest => Freshness::Latest,
                    WatchStart::Any => Freshness::Any,
                    WatchStart::After(revision) => Freshness::NotOlderThan(revision),
                };
                let list =
                    self.list(scope, ListOptions { freshness, predicate: options.predicate.clone(), ..ListOptions::default() }).await?;
                Ok((list.items, list.revision))
            }
        }
    }

    /// The entry of what was written just now.
    fn wrote(&self, key: &Key, object: &Object, value: &[u8], revision: Revision) -> Entry {
        let entry = Entry::from_written(&self.collection, key.clone(), object, value, revision);
        self.written.put(&entry);
        entry
    }

    async fn known(&self, path: &str) -> Result<Known> {
        self.read(path).await.and_then(|(found, _)| self.found(found))
    }

    fn found(&self, kv: Option<KeyValue>) -> Result<Known> {
        let leased = kv.as_ref().is_some_and(|kv| kv.leased);
        Ok(Known { entry: kv.as_ref().map(|kv| self.entry(kv)).transpose()?, leased, current: true })
    }

    /// One attempt of an update from what is known.
    async fn attempt(&self, key: &Key, options: &UpdateOptions, known: Known, updater: &mut Updater<'_>) -> Result<Attempt> {
        let path = self.path(key);
        if known.entry.is_none() && !options.ignore_not_found {
            return Err(self.not_found(key));
        }
        if let Some(entry) = &known.entry {
            check(&options.preconditions, &path, entry)?;
        }
        let expected = known.entry.as_ref().map_or(0, Entry::revision);
        match (updater(known.entry.clone()).await?, known.entry) {
            (Update::Remove, None) => Err(self.not_found(key)),
            (Update::Remove, Some(entry)) => Ok(match self.kv.delete(&path, expected).await? {
                Outcome::Done(revision) => Attempt::Done(Updated::Removed(entry.at_revision(revision))),
                Outcome::Lost(found) => Attempt::Again(self.found(found)?),
            }),
            (Update::Put { object, ttl }, before) => {
                let value = Bytes::from(encode(&object));
                if let Some(entry) = before.as_ref().filter(|entry| ttl.is_none() && !known.leased && entry.is_stored_as(&value)) {
                    // Nothing to write, if this is how it really is.
                    return Ok(if known.current {
                        Attempt::Done(Updated::Stored(entry.clone()))
                    } else {
                        Attempt::Again(self.known(&path).await?)
                    });
                }
                let revision = match self.kv.put(&path, expected, value.clone(), ttl).await? {
                    Outcome::Done(revision) => revision,
                    Outcome::Lost(found) => return Ok(Attempt::Again(self.found(found)?)),
                };
                let entry = self.wrote(key, &object, &value, revision);
                Ok(Attempt::Done(if before.is_some() { Updated::Stored(entry) } else { Updated::Created(entry) }))
            }
        }
    }
}

/// An object as far as it is known.
struct Known {
    entry: Option<Entry>,
    leased: bool,
    /// Whether it was read from the store just now; if not, no failure that follows from it is final.
    current: bool,
}

/// How an attempt to update went.
enum Attempt {
    Done(Updated),
    Again(Known),
}

#[async_trait]
impl<K: Kv> Storage for TypedStorage<K> {
    fn collection(&self) -> &Collection {
        &self.collection
    }

    async fn get(&self, key: &Key, freshness: Freshness) -> Result<Entry> {
        let (found, current) = self.read(&self.path(key)).await?;
        if let Freshness::NotOlderThan(requested) | Freshness::Exact(requested) = freshness
            && requested > current
        {
            return Err(Error::FutureRevision { requested, current });
        }
        found.as_ref().map(|kv| self.entry(kv)).unwrap_or_else(|| Err(self.not_found(key)))
    }

    async fn list(&self, scope: &Scope, options: ListOptions) -> Result<List> {
        let prefix = scope.prefix(&self.collection.prefix);
        let token = if options.continue_token.is_empty() { None } else { Some(Continue::decode(&options.continue_token)?) };
        let (start, revision) = match &token {
            Some(token) => (token.start_key(&prefix), u64::try_from(token.revision).unwrap_or(0)),
            None => (prefix.clone(), self.read_at(options.freshness).await?),
        };
        let mut pages = Pages { storage: self, prefix: &prefix, start, revision, options: &options };
        pages.collect().await.map_err(|error| with_token(error, token.as_ref()))
    }

    async fn watch(&self, scope: &Scope, options: WatchOptions) -> Result<WatchStream> {
        let (state, revision) = self.initial_state(scope, &options).await?;
        let changes = self.kv.watch(&scope.prefix(&self.collection.prefix), revision, true).await?;
        let marks = options.bookmarks && options.initial_events == Some(true);
        let end = marks.then_some(Ok(WatchItem::Bookmark { revision, initial_events_end: true }));
        let initial = state.into_iter().map(|entry| Ok(WatchItem::Event(Event::initial(entry)))).chain(end);
        let collection = self.collection.clone();
        let changes = changes.flat_map(move |item| stream::iter(seen(&collection, &options, item)));
        Ok(until_error(stream::iter(initial).chain(changes)).boxed())
    }

    async fn changes(&self, after: Revision) -> Result<FeedStream> {
        let changes = self.kv.watch(&Scope::all().prefix(&self.collection.prefix), after, false).await?;
        let (collection, written) = (self.collection.clone(), self.written.clone());
        written.follow();
        let items = changes.map(move |item| fed(&collection, &written, item));
        Ok(until_error(items).boxed())
    }

    async fn create(&self, key: &Key, object: Object, ttl: Option<Duration>) -> Result<Entry> {
        let (path, value) = (self.path(key), Bytes::from(encode(&object)));
        match self.kv.put(&path, 0, value.clone(), ttl).await? {
            Outcome::Done(revision) => Ok(self.wrote(key, &object, &value, revision)),
            Outcome::Lost(_) => Err(Error::Exists { key: path }),
        }
    }

    async fn update(&self, key: &Key, options: UpdateOptions, updater: &mut Updater<'_>) -> Result<Updated> {
        let path = self.path(key);
        let mut known = match &options.hint {
            Some(hint) => Known { entry: Some(hint.clone()), leased: false, current: false },
            None => self.known(&path).await?,
        };
        for _ in 0..ATTEMPTS {
            let current = known.current;
            known = match self.attempt(key, &options, known, updater).await {
                Ok(Attempt::Done(updated)) => return Ok(updated),
                Ok(Attempt::Again(known)) => known,
                Err(Error::NotFound { .. } | Error::Precondition { .. } | Error::Rejected(_)) if !current => self.known(&path).await?,
                Err(error) => return Err(error),
            };
        }
        Err(Error::Contended { key: path })
    }

    async fn delete(&self, key: &Key, preconditions: &Preconditions, validate: &mut Validator<'_>) -> Result<Entry> {
        let path = self.path(key);
        let mut known = self.known(&path).await?;
        for _ in 0..ATTEMPTS {
            let entry = known.entry.ok_or_else(|| self.not_found(key))?;
            check(preconditions, &path, &entry)?;
            validate(entry.clone()).await?;
            known = match self.kv.delete(&path, entry.revision()).await? {
                Outcome::Done(revision) => return Ok(entry.at_revision(revision)),
                Outcome::Lost(found) => self.found(found)?,
            };
        }
        Err(Error::Contended { key: path })
    }

    async fn current_revision(&self) -> Result<Revision> {
        let start = self.collection.prefix.clone();
        let range = Range { end: format!("{start}\0"), start, count_only: true, ..Range::default() };
        Ok(self.kv.range(range).await?.revision)
    }

    async fn request_progress(&self) -> Result<()> {
        self.kv.request_progress().await
    }

    async fn reports_progress(&self) -> bool {
        self.kv.reports_progress().await
    }
}

/// One list in the making: fetches until a page is full of matching objects, or the keys end.
struct Pages<'a, K> {
    storage: &'a TypedStorage<K>,
    prefix: &'a str,
    start: String,
    revision: Revision,
    options: &'a ListOptions,
}

impl<K: Kv> Pages<'_, K> {
    async fn collect(&mut self) -> Result<List> {
        let limit = self.options.limit;
        let (mut list, mut fetch) = (List::default(), if limit == 0 { MAX_FETCH } else { limit });
        loop {
            let page = self.fetch(fetch).await?;
            if list.revision == 0 {
                list.revision = if self.revision == 0 { page.revision } else { self.revision };
                self.revision = list.revision;
            }
            let full = self.take(&mut list, &page)?;
            if full || !page.more {
                return Ok(list);
            }
            fetch = (fetch * 2).min(MAX_FETCH);
        }
    }

    async fn fetch(&self, limit: u64) -> Result<RangeResult> {
        let range = Range { start: self.start.clone(), end: prefix_end(self.prefix), limit, revision: self.revision, count_only: false };
        self.storage.kv.range(range).await
    }

    /// Adds what matches; true once the page is full, with the token for the next one set.
    fn take(&mut self, list: &mut List, page: &RangeResult) -> Result<bool> {
        let (limit, everything) = (self.options.limit as usize, self.options.predicate.is_everything());
        for (at, kv) in page.items.iter().enumerate() {
            let entry = self.storage.entry(kv)?;
            if self.options.predicate.matches(&entry) {
                list.items.push(entry);
            }
            self.start = format!("{}\0", kv.key);
            let left = page.count.saturating_sub(at as u64 + 1);
            if limit > 0 && list.items.len() >= limit {
                if left > 0 {
                    let below = kv.key.strip_prefix(self.prefix).unwrap_or(&kv.key);
                    list.continue_token = Continue::after(below, list.revision as i64).encode();
                    list.remaining = everything.then_some(left);
                }
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Reads a value into an entry of `collection`.
fn decode(collection: &Collection, path: &str, value: &[u8], revision: Revision) -> Result<Entry> {
    Entry::from_stored(collection, key_of(collection, path), value, revision)
}

fn key_of(collection: &Collection, path: &str) -> Key {
    Key::parse(path.strip_prefix(collection.prefix.as_str()).map_or(path, |below| below.trim_start_matches('/')))
}

/// Upstream: `Preconditions.Check`.
fn check(preconditions: &Preconditions, path: &str, entry: &Entry) -> Result<()> {
    let refuse = |reason| Err(Error::Precondition { key: path.to_owned(), reason });
    if let Some(wanted) = &preconditions.resource_version
        && *wanted != entry.revision().to_string()
    {
        let found = entry.revision();
        return refuse(format!("Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {found}"));
    }
    if let Some(wanted) = &preconditions.uid {
        let object = entry.object();
        let found = object.uid();
        if wanted != found {
            return refuse(format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"));
        }
    }
    Ok(())
}

/// What one item of the store's watch is to a cache.
fn fed(collection: &Collection, written: &Written, item: Result<KvItem>) -> Result<FeedItem> {
    match item? {
        KvItem::Progress(revision) => {
            written.pass(revision);
            Ok(FeedItem::Progress(revision))
        }
        KvItem::Events(events) => {
            events.iter().map(|event| feed_change(collection, written, event)).collect::<Result<_>>().map(FeedItem::Changes)
        }
    }
}

fn feed_change(collection: &Collection, written: &Written, event: &KvEvent) -> Result<FeedChange> {
    let (key, revision) = (key_of(collection, &event.key), event.revision);
    let current = match &event.value {
        Some(value) => Some(match written.take(&key, revision) {
            Some(entry) => entry,
            None => Entry::from_stored(collection, key.clone(), value, revision)?,
        }),
        None => {
            written.pass(revision);
            None
        }
    };
    Ok(FeedChange { key, revision, current })
}

/// What one item of the store's watch is to a watcher of objects.
fn seen(collection: &Collection, options: &WatchOptions, item: Result<KvItem>) -> Vec<Result<WatchItem>> {
    match item {
        Err(error) => vec![Err(error)],
        Ok(KvItem::Progress(revision)) if options.bookmarks => vec![Ok(WatchItem::Bookmark { revision, initial_events_end: false })],
        Ok(KvItem::Progress(_)) => Vec::new(),
        Ok(KvItem::Events(events)) => {
            events.into_iter().filter_map(|event| see(collection, &options.predicate, &event).transpose()).collect()
        }
    }
}

fn see(collection: &Collection, predicate: &Predicate, event: &KvEvent) -> Result<Option<WatchItem>> {
    let current = event.value.as_ref().map(|value| decode(collection, &event.key, value, event.revision)).transpose()?;
    let previous = event.previous.as_ref().map(|kv| decode(collection, &kv.key, &kv.value, kv.revision)).transpose()?;
    let change = Change::new(event.revision, current, previous);
    Ok(Event::seen_by(predicate, &change).map(WatchItem::Event))
}

/// A continued list whose revision is gone tells how to go on without consistency.
fn with_token(error: Error, token: Option<&Continue>) -> Error {
    match (error, token) {
        (Error::Compacted { requested, oldest, .. }, Some(token)) => {
            Error::Compacted { requested, oldest, continue_token: token.inconsistent().encode() }
        }
        (error, _) => error,
    }
}

/// Ends the stream behind its first error.
pub(crate) fn until_error<T: Send>(items: impl futures::Stream<Item = Result<T>> + Send) -> impl futures::Stream<Item = Result<T>> + Send {
    items.scan(false, |failed, item| {
        let ended = std::mem::replace(failed, item.is_err());
        std::future::ready((!ended).then_some(item))
    })
}
