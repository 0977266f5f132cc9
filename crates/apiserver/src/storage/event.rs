//! Watch events: encoded once, however many watch.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Entry, Predicate, Revision};

/// What happened, seen through a watch's predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventKind {
    /// The object came, or began to match.
    Added,
    /// The object changed.
    Modified,
    /// The object went, or ceased to match.
    Deleted,
}

impl EventKind {
    /// The `type` of the event on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One write to one key, shared by everyone who watches it.
#[derive(Debug)]
pub(crate) struct Change {
    revision: Revision,
    current: Option<Entry>,
    previous: Option<Entry>,
    gone: OnceLock<Entry>,
    frames: [OnceLock<Bytes>; 3],
    forms: Mutex<Vec<(EventKind, String, Bytes)>>,
}

impl Change {
    /// A write at `revision` that replaced `previous` by `current`; `current` is `None` for a deletion.
    pub(crate) fn new(revision: Revision, current: Option<Entry>, previous: Option<Entry>) -> Arc<Self> {
        Arc::new(Self { revision, current, previous, gone: OnceLock::new(), frames: Default::default(), forms: Mutex::default() })
    }

    /// When.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// The object after the write.
    pub(crate) fn current(&self) -> Option<&Entry> {
        self.current.as_ref()
    }

    /// The object before the write.
    pub(crate) fn previous(&self) -> Option<&Entry> {
        self.previous.as_ref()
    }

    /// The last state of an object that went or ceased to match, with the revision of this write.
    fn gone(&self) -> Option<&Entry> {
        let last = self.previous.as_ref()?;
        Some(self.gone.get_or_init(|| last.at_revision(self.revision)))
    }
}

/// A change as one watch sees it.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// What it is to this watch.
    pub(crate) kind: EventKind,
    change: Arc<Change>,
}

impl Event {
    /// The initial event of an object that was there before.
    pub(crate) fn initial(entry: Entry) -> Self {
        Self { kind: EventKind::Added, change: Change::new(entry.revision(), Some(entry), None) }
    }

    /// How a watch with `predicate` sees the change, if at all.
    pub(crate) fn seen_by(predicate: &Predicate, change: &Arc<Change>) -> Option<Self> {
        let matches = |entry: &Entry| predicate.matches(entry);
        let before = change.previous.as_ref().is_some_and(matches);
        let now = change.current.as_ref().is_some_and(matches);
        let kind = match (before, now) {
            (false, true) => EventKind::Added,
            (true, true) => EventKind::Modified,
            (true, false) => EventKind::Deleted,
            (false, false) => return None,
        };
        Some(Self { kind, change: change.clone() })
    }

    /// The write behind it.
    pub(crate) fn change(&self) -> &Arc<Change> {
        &self.change
    }

    /// The object to show.
    pub(crate) fn entry(&self) -> &Entry {
        let shown = match self.kind {
            EventKind::Deleted => self.change.gone(),
            EventKind::Added | EventKind::Modified => self.change.current(),
        };
        // `seen_by` and `initial` only build events whose side of the change is there.
        match shown.or(self.change.previous()).or(self.change.current()) {
            Some(entry) => entry,
            None => unreachable!("a change has at least one side"),
        }
    }

    /// `{"type":…,"object":…}` and a newline, encoded once for all watches.
    pub(crate) fn frame(&self) -> Bytes {
        self.change.frames[self.kind as usize]
            .get_or_init(|| {
                let json = self.entry().json();
                let mut out = Vec::with_capacity(json.len() + 40);
                out.extend_from_slice(b"{\"type\":\"");
                out.extend_from_slice(self.kind.as_str().as_bytes());
                out.extend_from_slice(b"\",\"object\":");
                out.extend_from_slice(json);
                out.extend_from_slice(b"}\n");
                out.into()
            })
            .clone()
    }

    /// Another encoding of the event (Table, protobuf, another version), named by `form` and made once for all watches.
    pub(crate) fn encoded<E>(&self, form: &str, encode: impl FnOnce(&Event) -> Result<Bytes, E>) -> Result<Bytes, E> {
        let known = |(kind, name, _): &&(EventKind, String, Bytes)| *kind == self.kind && name == form;
        if let Some((_, _, bytes)) = self.change.forms.lock().iter().find(known) {
            return Ok(bytes.clone());
        }
        let bytes = encode(self)?;
        self.change.forms.lock().push((self.kind, form.to_owned(), bytes.clone()));
        Ok(bytes)
    }
}
