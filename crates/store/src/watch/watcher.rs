//! What a watcher wants.

use crate::mvcc::{Event, EventKind, KeyRange};

/// Kinds of change a watcher does not want.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// No puts.
    pub no_put: bool,
    /// No deletions.
    pub no_delete: bool,
}

/// Which changes, from when on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Of which keys.
    pub range: KeyRange,
    /// Of which kinds.
    pub filter: Filter,
    /// From this revision on; 0 or less for whatever comes next.
    pub start: i64,
}

impl Watch {
    /// A change of this kind to this key is wanted.
    pub fn wants(&self, kind: EventKind, key: &[u8]) -> bool {
        let kind = match kind {
            EventKind::Put => !self.filter.no_put,
            EventKind::Delete => !self.filter.no_delete,
        };
        kind && self.range.contains(key)
    }

    /// [`Watch::wants`] of an event.
    pub fn wants_event(&self, event: &Event) -> bool {
        self.wants(event.kind, &event.kv.key)
    }
}
