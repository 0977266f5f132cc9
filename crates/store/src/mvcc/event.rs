//! What happened to a key.

use super::KeyValue;
use bytes::Bytes;
use std::sync::OnceLock;

/// What kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Created or updated.
    Put,
    /// Deleted.
    Delete,
}

/// One change of one key. Shared by all watchers, and so are its encoded forms.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The pair after it; of a deletion only key and mod revision.
    pub kv: KeyValue,
    /// The pair before it, where there was one and it is still known.
    pub prev_kv: Option<KeyValue>,
    encoded: [OnceLock<Bytes>; 2],
}

impl Event {
    /// A change.
    pub fn new(kind: EventKind, kv: KeyValue, prev_kv: Option<KeyValue>) -> Self {
        Event { kind, kv, prev_kv, encoded: Default::default() }
    }

    /// Its encoded form with or without the pair before; `encode` runs for the first caller only.
    pub fn encoded(&self, with_prev: bool, encode: impl FnOnce(&Event) -> Bytes) -> Bytes {
        self.encoded[usize::from(with_prev)].get_or_init(|| encode(self)).clone()
    }

    /// Bytes it keeps in memory, roughly.
    pub fn size(&self) -> usize {
        let size = |kv: &KeyValue| kv.key.len() + kv.value.len() + 64;
        size(&self.kv) + self.prev_kv.as_ref().map_or(0, size) + 64
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.kv == other.kv && self.prev_kv == other.prev_kv
    }
}
