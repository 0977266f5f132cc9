//! A store in memory: for tests, and for an API server nobody needs to remember.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::kv::{KeyValue, Kv, KvEvent, KvItem, KvStream, Outcome, Range, RangeResult};
use super::typed::TypedStorage;
use super::{Backend, Collection, Error, Result, Revision, Storage};

/// All resources of one store in memory; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    kv: Arc<MemoryKv>,
}

impl Memory {
    /// An empty store.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Forgets the history before `revision`.
    pub(crate) fn compact(&self, revision: Revision) {
        let mut state = self.kv.state.lock();
        state.compacted = state.compacted.max(revision.min(state.revision()));
    }
}

#[async_trait]
impl Backend for Memory {
    fn open(&self, collection: Collection) -> Arc<dyn Storage> {
        Arc::new(TypedStorage::new(self.kv.clone(), collection))
    }

    async fn ping(&self) -> Result<()> {
        Ok(())
    }
}

struct MemoryKv {
    state: Arc<Mutex<State>>,
    written: watch::Sender<Revision>,
    progress: watch::Sender<u64>,
}

impl Default for MemoryKv {
    fn default() -> Self {
        Self { state: Arc::default(), written: watch::Sender::new(0), progress: watch::Sender::new(0) }
    }
}

/// Every write ever made; the revision of `log[i]` is `i + FIRST`.
#[derive(Default)]
struct State {
    log: Vec<KvEvent>,
    current: BTreeMap<String, KeyValue>,
    deadlines: BTreeMap<String, Instant>,
    compacted: Revision,
}

/// An empty etcd is at revision 1, so the first write makes 2.
const FIRST: Revision = 2;

impl State {
    fn revision(&self) -> Revision {
        FIRST - 1 + self.log.len() as Revision
    }

    fn write(&mut self, key: &str, value: Option<Bytes>, ttl: Option<Duration>) -> Revision {
        let revision = self.revision() + 1;
        let previous = match &value {
            Some(value) => {
                let kv = KeyValue { key: key.to_owned(), value: value.clone(), revision, leased: ttl.is_some() };
                self.current.insert(key.to_owned(), kv)
            }
            None => self.current.remove(key),
        };
        self.deadlines.remove(key);
        if let Some(ttl) = ttl {
            self.deadlines.insert(key.to_owned(), Instant::now() + ttl);
        }
        self.log.push(KvEvent { key: key.to_owned(), revision, value, previous });
        revision
    }

    fn expire(&mut self, now: Instant) {
        let due: Vec<String> = self.deadlines.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
        for key in due {
            self.write(&key, None, None);
        }
    }

    /// The keys as they were at `revision`.
    fn at(&self, revision: Revision) -> Result<BTreeMap<String, KeyValue>> {
        if revision < self.compacted {
            return Err(Error::Compacted { requested: revision, oldest: Some(self.compacted), continue_token: String::new() });
        }
        if revision > self.revision() {
            return Err(Error::FutureRevision { requested: revision, current: self.revision() });
        }
        let mut keys = self.current.clone();
        for event in self.log.iter().rev().take_while(|event| event.revision > revision) {
            match &event.previous {
                Some(previous) => keys.insert(event.key.clone(), previous.clone()),
                None => keys.remove(&event.key),
            };
        }
        Ok(keys)
    }

    fn events_after(&self, prefix: &str, after: Revision) -> Result<Vec<KvEvent>> {
        if after + 1 < self.compacted {
            return Err(Error::Compacted { requested: after, oldest: Some(self.compacted), continue_token: String::new() });
        }
        let skip = (after + 1).saturating_sub(FIRST) as usize;
        Ok(self.log.iter().skip(skip).filter(|event| event.key.starts_with(prefix)).cloned().collect())
    }
}

impl MemoryKv {
    /// Writes if the key is as expected.
    fn write(&self, key: &str, expected: Revision, value: Option<Bytes>, ttl: Option<Duration>) -> Outcome {
        let mut state = self.state.lock();
        state.expire(Instant::now());
        let found = state.current.get(key);
        if found.map_or(0, |kv| kv.revision) != expected {
            return Outcome::Lost(found.cloned());
        }
        let revision = state.write(key, value, ttl);
        self.written.send_replace(revision);
        Outcome::Done(revision)
    }
}

#[async_trait]
impl Kv for MemoryKv {
    async fn range(&self, range: Range) -> Result<RangeResult> {
        let mut state = self.state.lock();
        state.expire(Instant::now());
        let revision = state.revision();
        let read = |keys: &BTreeMap<String, KeyValue>| {
            let limit = if range.limit == 0 { usize::MAX } else { range.limit as usize };
            let within = || keys.range(range.start.clone()..range.end.clone());
            let count = within().count();
            let items = if range.count_only { Vec::new() } else { within().take(limit).map(|(_, kv)| kv.clone()).collect() };
            RangeResult { more: !range.count_only && count > items.len(), count: count as u64, items, revision }
        };
        Ok(if range.revision == 0 { read(&state.current) } else { read(&state.at(range.revision)?) })
    }

    async fn put(&self, key: &str, expected: Revision, value: Bytes, ttl: Option<Duration>) -> Result<Outcome> {
        Ok(self.write(key, expected, Some(value), ttl))
    }

    async fn delete(&self, key: &str, expected: Revision) -> Result<Outcome> {
        Ok(self.write(key, expected, None, None))
    }

    async fn watch(&self, prefix: &str, after: Revision, _previous: bool) -> Result<KvStream> {
        self.state.lock().events_after(prefix, after)?;
        let (mut written, mut progress) = (self.written.subscribe(), self.progress.subscribe());
        written.mark_changed();
        progress.mark_unchanged();
        let cursor = Cursor { state: self.state.clone(), prefix: prefix.to_owned(), after, written, progress };
        Ok(stream::unfold(cursor, Cursor::next).boxed())
    }

    async fn request_progress(&self) -> Result<()> {
        self.progress.send_modify(|asked| *asked += 1);
        Ok(())
    }
}

/// One watch: where it is in the log, and what wakes it.
struct Cursor {
    state: Arc<Mutex<State>>,
    prefix: String,
    after: Revision,
    written: watch::Receiver<Revision>,
    progress: watch::Receiver<u64>,
}

impl Cursor {
    async fn next(mut self) -> Option<(Result<KvItem>, Self)> {
        loop {
            let asked = self.wait().await?;
            let (events, revision) = match self.read() {
                Ok(read) => read,
                Err(error) => return Some((Err(error), self)),
            };
            if !events.is_empty() {
                if asked {
                    self.progress.mark_changed();
                }
                self.after = revision;
                return Some((Ok(KvItem::Events(events)), self));
            }
            // A watch from the future is behind nobody.
            if asked && revision >= self.after {
                self.after = revision;
                return Some((Ok(KvItem::Progress(revision)), self));
            }
        }
    }

    /// Waits for a write, an expiry or a progress request (true); `None` once the store is gone.
    async fn wait(&mut self) -> Option<bool> {
        let deadline = self.state.lock().deadlines.values().min().copied();
        let expiry = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            changed = self.written.changed() => changed.ok().map(|()| false),
            changed = self.progress.changed() => changed.ok().map(|()| true),
            () = expiry => Some(false),
        }
    }

    fn read(&self) -> Result<(Vec<KvEvent>, Revision)> {
        let mut state = self.state.lock();
        state.expire(Instant::now());
        Ok((state.events_after(&self.prefix, self.after)?, state.revision()))
    }
}
