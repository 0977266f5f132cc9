//! Keys, changes, and all changes by revision.

use std::collections::BTreeMap;

use super::Violation;

/// A key and its value at some revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// The key.
    pub key: String,
    /// The value; empty in a deletion.
    pub value: String,
    /// Revision of the change that created it; 0 in a deletion.
    pub created: i64,
    /// Revision of the latest change.
    pub modified: i64,
    /// Changes since it was created; 0 in a deletion.
    pub version: i64,
}

/// What kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Created or updated.
    Put,
    /// Deleted.
    Delete,
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: Kind,
    /// The pair after it.
    pub pair: Pair,
    /// The pair before it, where it was asked for and there was one.
    pub before: Option<Pair>,
}

/// Keys from `start` up to `end`; one key when `end` is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// First key.
    pub start: String,
    /// First key that is not in it.
    pub end: String,
}

impl Range {
    /// One key.
    pub fn key(key: &str) -> Self {
        Self { start: key.to_owned(), end: String::new() }
    }

    /// Every key that begins so. The last character must not be the last one there is.
    pub fn prefix(prefix: &str) -> Self {
        let mut end = prefix.to_owned();
        let last = end.pop().and_then(|last| char::from_u32(u32::from(last) + 1)).unwrap_or('\0');
        end.push(last);
        Self { start: prefix.to_owned(), end }
    }

    /// Whether a key is in it.
    pub fn contains(&self, key: &str) -> bool {
        if self.end.is_empty() { key == self.start } else { *key >= *self.start && *key < *self.end }
    }
}

/// All changes of a range of keys after a revision at which there were none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    after: i64,
    upto: i64,
    /// Up to here the store was asked to give up history: what was there before a change may be untold.
    given_up: i64,
    revisions: BTreeMap<i64, Vec<Event>>,
}

impl Log {
    /// The changes after `after`, complete up to `upto`. Each event must carry the pair before it.
    pub fn new(after: i64, upto: i64, events: impl IntoIterator<Item = Event>) -> Self {
        let mut revisions = BTreeMap::<i64, Vec<Event>>::new();
        for event in events {
            revisions.entry(event.pair.modified).or_default().push(event);
        }
        Self { after, upto, given_up: 0, revisions }
    }

    /// The same of a store that was asked to give up its history up to a revision.
    pub fn given_up(self, given_up: i64) -> Self {
        Self { given_up, ..self }
    }

    /// The pairs before changes at a revision may be gone.
    pub fn may_lack_before(&self, revision: i64) -> bool {
        revision <= self.given_up
    }

    /// The revision it begins after.
    pub fn after(&self) -> i64 {
        self.after
    }

    /// The revision it is complete up to.
    pub fn upto(&self) -> i64 {
        self.upto
    }

    /// Its revisions in order.
    pub fn revisions(&self) -> impl Iterator<Item = (i64, &[Event])> {
        self.revisions.iter().map(|(revision, events)| (*revision, &events[..]))
    }

    /// Its revisions from one on, in order.
    pub fn since(&self, revision: i64) -> impl Iterator<Item = (i64, &[Event])> {
        self.revisions.range(revision..).map(|(revision, events)| (*revision, &events[..]))
    }

    /// What happened at a revision.
    pub fn at(&self, revision: i64) -> &[Event] {
        self.revisions.get(&revision).map_or(&[], |events| &events[..])
    }

    /// The same up to a revision.
    pub fn until(&self, upto: i64) -> Self {
        let revisions = self.revisions.range(..=upto).map(|(revision, events)| (*revision, events.clone())).collect();
        Self { after: self.after, upto: upto.min(self.upto), given_up: self.given_up, revisions }
    }

    /// What there was at a revision, by key.
    pub fn state(&self, range: &Range, revision: i64) -> BTreeMap<&str, &Pair> {
        let mut state = BTreeMap::new();
        let events = self.revisions.range(..=revision).flat_map(|(_, events)| events);
        for Event { kind, pair, .. } in events.filter(|event| range.contains(&event.pair.key)) {
            match kind {
                Kind::Put => state.insert(&*pair.key, pair),
                Kind::Delete => state.remove(&*pair.key),
            };
        }
        state
    }

    /// The first revision at which another log tells something else.
    pub fn differs(&self, other: &Self) -> String {
        let revisions = self.revisions.keys().chain(other.revisions.keys());
        let first = revisions.filter(|revision| self.at(**revision) != other.at(**revision)).min();
        let Some(first) = first else { return "nothing".to_owned() };
        format!("at {first}: {:?} and {:?}", self.at(*first), other.at(*first))
    }

    /// Nobody but the recorded clients writes: every revision after the first must be in it.
    ///
    /// # Errors
    /// One is not.
    pub fn without_gaps(&self) -> Result<(), Violation> {
        match (self.after + 1..=self.upto).find(|revision| !self.revisions.contains_key(revision)) {
            Some(revision) => Err(Violation::Gap { revision }),
            None => Ok(()),
        }
    }
}
