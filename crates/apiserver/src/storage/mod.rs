//! Where objects live: one trait over the store, and its implementations.
//!
//! Everything above this module sees objects, revisions and predicates; only [`etcd`] knows the wire. A [`Backend`] opens one
//! [`Storage`] per resource. `memory` and `etcd` share their logic in `typed`, and differ in the [`kv::Kv`] below; the watch
//! cache is one more `Storage`, laid over another.

pub(crate) mod cache;
pub(crate) mod divided;
pub(crate) mod entry;
pub(crate) mod error;
pub(crate) mod etcd;
pub(crate) mod event;
pub(crate) mod key;
pub(crate) mod kv;
#[cfg(test)]
pub(crate) mod memory;
pub(crate) mod paging;
mod partly;
pub(crate) mod predicate;
#[cfg(test)]
mod suite;
pub(crate) mod typed;
mod written;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::Object;
use apimachinery::gvk::GroupResource;
use apimachinery::status::Status;
use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

pub(crate) use entry::Entry;
pub(crate) use error::{Error, Verb};
pub(crate) use event::{Change, Event};
pub(crate) use key::{Key, Scope};
pub(crate) use predicate::{Attributes, Predicate};

/// A point in the store's history; `metadata.resourceVersion` is its decimal form. 0 is never a real one.
pub(crate) type Revision = u64;

/// What a storage returns.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// The fields of an object that field selectors of its kind may name, beyond `metadata.name` and `metadata.namespace`.
pub(crate) type SelectableFields = Arc<dyn Fn(&Object) -> Vec<(Cow<'static, str>, String)> + Send + Sync>;

/// The stored objects of one resource: its name, where they lie, and what can be selected on.
#[derive(Clone)]
pub(crate) struct Collection {
    /// Names the resource in errors.
    pub(crate) resource: GroupResource,
    /// Key prefix with a leading and without a trailing slash, as `/registry/services/specs`.
    pub(crate) prefix: String,
    /// Selectable fields of one object.
    pub(crate) fields: SelectableFields,
}

impl Collection {
    /// A collection under `prefix`, with only `metadata.name` and `metadata.namespace` selectable.
    pub(crate) fn new(resource: GroupResource, prefix: impl Into<String>) -> Self {
        Self { resource, prefix: prefix.into(), fields: Arc::new(|_| Vec::new()) }
    }

    /// The same collection with further selectable fields.
    pub(crate) fn with_fields(mut self, fields: SelectableFields) -> Self {
        self.fields = fields;
        self
    }
}

/// Opens storages that share one revision counter.
#[async_trait]
pub(crate) trait Backend: Send + Sync + 'static {
    /// The storage of one resource. Call it once per collection; clones of the `Arc` share caches.
    fn open(&self, collection: Collection) -> Arc<dyn Storage>;

    /// Whether the store answers a linearizable read: what `/readyz/etcd` reports.
    async fn ping(&self) -> Result<()>;
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// As of now or later (`resourceVersion` unset).
    #[default]
    Latest,
    /// Whatever is at hand (`resourceVersion=0`).
    Any,
    /// Not older than this.
    NotOlderThan(Revision),
    /// Exactly this (`resourceVersionMatch=Exact`); lists only.
    Exact(Revision),
}

/// What [`Storage::list`] shall return.
#[derive(Clone, Default)]
pub(crate) struct ListOptions {
    /// How fresh; ignored with `continue_token`, which carries its own revision.
    pub(crate) freshness: Freshness,
    /// At most this many items; 0 = all.
    pub(crate) limit: u64,
    /// `metadata.continue` of the page before; empty = from the start.
    pub(crate) continue_token: String,
    /// Which objects.
    pub(crate) predicate: Predicate,
}

/// One page of objects, ordered by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    /// The objects.
    pub(crate) items: Vec<Entry>,
    /// The state this page shows.
    pub(crate) revision: Revision,
    /// Token for the next page; empty on the last.
    pub(crate) continue_token: String,
    /// How many follow this page; unknown with selectors and on the last page.
    pub(crate) remaining: Option<u64>,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WatchStart {
    /// `resourceVersion` unset: the present state, no older than now, as ADDED events, then changes.
    #[default]
    Latest,
    /// `resourceVersion=0`: as `Latest`, but any state will do.
    Any,
    /// Changes after this revision.
    After(Revision),
}

/// What [`Storage::watch`] shall send.
#[derive(Clone, Default)]
pub(crate) struct WatchOptions {
    /// Where to begin.
    pub(crate) start: WatchStart,
    /// `sendInitialEvents`: `Some(true)` = the state as ADDED events, closed by a bookmark; `Some(false)` = changes only;
    /// `None` = as `start` says.
    pub(crate) initial_events: Option<bool>,
    /// `allowWatchBookmarks`.
    pub(crate) bookmarks: bool,
    /// Which objects.
    pub(crate) predicate: Predicate,
}

/// One item of a watch.
#[derive(Clone, Debug)]
pub(crate) enum WatchItem {
    /// An object came, changed or went.
    Event(Event),
    /// Nothing up to `revision` is outstanding.
    Bookmark {
        /// All events up to here were sent.
        revision: Revision,
        /// Closes the initial events (annotation `k8s.io/initial-events-end`).
        initial_events_end: bool,
    },
}

/// A watch: ends after its first error, or when dropped.
pub(crate) type WatchStream = BoxStream<'static, Result<WatchItem>>;

/// One object's change.
#[derive(Clone, Debug)]
pub(crate) struct FeedChange {
    /// Which.
    pub(crate) key: Key,
    /// Since when.
    pub(crate) revision: Revision,
    /// The object as it is now; `None` = it is no more.
    pub(crate) current: Option<Entry>,
}

/// One item of [`Storage::changes`].
#[derive(Clone, Debug)]
pub(crate) enum FeedItem {
    /// Everything that changed at one or more revisions, in order, never a part of one.
    Changes(Vec<FeedChange>),
    /// Everything up to here was sent.
    Progress(Revision),
}

/// What a cache is fed with: ends after its first error, or when dropped.
pub(crate) type FeedStream = BoxStream<'static, Result<FeedItem>>;

/// What must hold for a write to happen (`metav1.Preconditions`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preconditions {
    /// The object's UID.
    pub(crate) uid: Option<String>,
    /// The object's resourceVersion.
    pub(crate) resource_version: Option<String>,
}

/// What an update decided about the object it was shown.
#[derive(Debug)]
pub(crate) enum Update {
    /// Store this. Nothing is written, and no event sent, when it equals what is stored.
    Put {
        /// The new object; its resourceVersion is ignored.
        object: Object,
        /// Remove it after this time; `None` = never, whatever held before.
        ttl: Option<Duration>,
    },
    /// Remove the object (its last finalizer went).
    Remove,
}

/// Computes an update from the stored object (`None` = there is none, and `ignore_not_found` was set). Called again, with a
/// fresh object, when another writer came first, so it must not keep state from call to call.
pub(crate) type Updater<'a> = dyn FnMut(Option<Entry>) -> BoxFuture<'a, Result<Update, Status>> + Send + 'a;

/// Checks the object about to be deleted; may be called again like [`Updater`].
pub(crate) type Validator<'a> = dyn FnMut(Entry) -> BoxFuture<'a, Result<(), Status>> + Send + 'a;

/// What [`Storage::update`] did.
#[derive(Clone, Debug)]
pub(crate) enum Updated {
    /// The object was not there and is now.
    Created(Entry),
    /// The object as it is now, also if nothing had to be written.
    Stored(Entry),
    /// The object as it was last, with the revision of its removal.
    Removed(Entry),
}

impl Updated {
    /// The object.
    pub(crate) fn into_entry(self) -> Entry {
        match self {
            Self::Created(entry) | Self::Stored(entry) | Self::Removed(entry) => entry,
        }
    }
}

/// How [`Storage::update`] goes about it.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpdateOptions {
    /// Checked against the stored object before the updater runs.
    pub(crate) preconditions: Preconditions,
    /// Call the updater with `None` and create, where upstream allows an update to create.
    pub(crate) ignore_not_found: bool,
    /// The object as somebody saw it lately: saves reading it when it is still so. A cache fills it in.
    pub(crate) hint: Option<Entry>,
}

/// The objects of one resource. Upstream: `storage.Interface`.
#[async_trait]
pub(crate) trait Storage: Send + Sync + 'static {
    /// What this storage holds.
    fn collection(&self) -> &Collection;

    /// Reads one object. Errors: `NotFound`, `FutureRevision`.
    async fn get(&self, key: &Key, freshness: Freshness) -> Result<Entry>;

    /// Reads objects in key order. Errors: `Compacted`, `FutureRevision`, `BadContinue`.
    async fn list(&self, scope: &Scope, options: ListOptions) -> Result<List>;

    /// Follows objects. Errors, also later in the stream: `Compacted`.
    async fn watch(&self, scope: &Scope, options: WatchOptions) -> Result<WatchStream>;

    /// All changes after a revision, without what was before them: who keeps all objects knows that. Errors as for `watch`.
    async fn changes(&self, after: Revision) -> Result<FeedStream>;

    /// Stores a new object; `ttl` removes it later. Errors: `Exists`.
    async fn create(&self, key: &Key, object: Object, ttl: Option<Duration>) -> Result<Entry>;

    /// Read, change, write, repeated until no other writer came between (upstream: GuaranteedUpdate). Errors: `NotFound`,
    /// `Precondition`, `Rejected` with the updater's Status.
    async fn update(&self, key: &Key, options: UpdateOptions, updater: &mut Updater<'_>) -> Result<Updated>;

    /// Removes an object that passes `validate`; returns its last state with the revision of the removal. Errors: `NotFound`,
    /// `Precondition`, `Rejected`.
    async fn delete(&self, key: &Key, preconditions: &Preconditions, validate: &mut Validator<'_>) -> Result<Entry>;

    /// The store's revision, read linearizably.
    async fn current_revision(&self) -> Result<Revision>;

    /// Asks that open watches report how far they are (a bookmark), so that a cache can prove it is fresh.
    async fn request_progress(&self) -> Result<()>;

    /// Whether a progress report means what it says: older etcds send it ahead of events.
    async fn reports_progress(&self) -> bool;
}
