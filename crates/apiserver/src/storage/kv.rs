//! What the typed storage needs of a store: etcd's key-value model, without its wire.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use super::{Result, Revision};

/// A value and the revision that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyValue {
    pub(crate) key: String,
    pub(crate) value: Bytes,
    pub(crate) revision: Revision,
    /// Whether it is bound to a lease, so that an equal value must still be written to be kept for good.
    pub(crate) leased: bool,
}

/// What to read: `start..end`, where `end` is exclusive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Range {
    pub(crate) start: String,
    pub(crate) end: String,
    /// 0 = all.
    pub(crate) limit: u64,
    /// 0 = as of now, linearizably.
    pub(crate) revision: Revision,
    pub(crate) count_only: bool,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeResult {
    pub(crate) items: Vec<KeyValue>,
    /// Keys in the range, whatever the limit.
    pub(crate) count: u64,
    /// Whether the limit cut the answer short.
    pub(crate) more: bool,
    /// The store's revision.
    pub(crate) revision: Revision,
}

/// How a conditional write went.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Written at this revision.
    Done(Revision),
    /// The key was not as expected, but so.
    Lost(Option<KeyValue>),
}

/// One write seen by a watch.
#[derive(Clone, Debug)]
pub(crate) struct KvEvent {
    pub(crate) key: String,
    pub(crate) revision: Revision,
    /// `None` = deleted.
    pub(crate) value: Option<Bytes>,
    pub(crate) previous: Option<KeyValue>,
}

/// What a watch yields.
#[derive(Clone, Debug)]
pub(crate) enum KvItem {
    /// All events of one or more revisions, in order, never a part of one.
    Events(Vec<KvEvent>),
    /// Everything up to here has been sent.
    Progress(Revision),
}

pub(crate) type KvStream = BoxStream<'static, Result<KvItem>>;

/// A revisioned key-value store. Errors are those of [`super::Error`] that need no object.
#[async_trait]
pub(crate) trait Kv: Send + Sync + 'static {
    /// Reads a range; errors: `Compacted`, `FutureRevision`, `Timeout`, `Unavailable`.
    async fn range(&self, range: Range) -> Result<RangeResult>;

    /// Writes if the key was last written at `expected` (0 = is absent), to be removed after `ttl`.
    async fn put(&self, key: &str, expected: Revision, value: Bytes, ttl: Option<Duration>) -> Result<Outcome>;

    /// Deletes if the key was last written at `expected`.
    async fn delete(&self, key: &str, expected: Revision) -> Result<Outcome>;

    /// Events under a prefix after `after`, with previous values if wanted.
    async fn watch(&self, prefix: &str, after: Revision, previous: bool) -> Result<KvStream>;

    /// Makes open watches yield [`KvItem::Progress`].
    async fn request_progress(&self) -> Result<()>;

    /// See [`super::Storage::reports_progress`].
    async fn reports_progress(&self) -> bool {
        true
    }
}

/// The first key behind all keys that begin with `prefix`.
pub(crate) fn prefix_end(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    match end.pop() {
        // Prefixes end in a slash.
        Some(last) => end.push(char::from_u32(last as u32 + 1).unwrap_or(char::MAX)),
        None => end.push(char::MAX),
    }
    end
}
