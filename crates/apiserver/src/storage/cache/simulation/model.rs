//! What was written, and so what a reader or watcher has to be shown.

use std::collections::BTreeMap;

use apimachinery::selector::field;

use super::super::super::*;
use crate::storage::event::EventKind;

/// A kind of event, whose object, and the revision it shows.
pub(super) type Told = (EventKind, Key, Revision);

/// Which objects somebody asks for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) scope: Scope,
    pub(super) phase: Option<&'static str>,
    pub(super) name: Option<&'static str>,
}

impl Wanted {
    pub(super) fn predicate(&self) -> Predicate {
        let term = |field: &str, value: &str| field::Requirement { field: field.into(), equal: true, value: value.into() };
        let terms = [self.phase.map(|phase| term("status.phase", phase)), self.name.map(|name| term("metadata.name", name))];
        Predicate { fields: field::Selector::new(terms.into_iter().flatten().collect()), ..Predicate::default() }
    }

    fn takes(&self, key: &Key, phase: &str) -> bool {
        self.scope.covers(key) && self.phase.is_none_or(|wanted| wanted == phase) && self.name.is_none_or(|wanted| wanted == key.name)
    }
}

/// One write: the object's phase, or none where it was deleted.
struct Write {
    revision: Revision,
    key: Key,
    phase: Option<&'static str>,
}

/// Every write in order.
#[derive(Default)]
pub(super) struct Model {
    writes: Vec<Write>,
    /// History before this is gone.
    pub(super) compacted: Revision,
}

impl Model {
    pub(super) fn wrote(&mut self, revision: Revision, key: Key, phase: Option<&'static str>) {
        assert!(revision > self.revision(), "revision {revision} comes after {}", self.revision());
        self.writes.push(Write { revision, key, phase });
    }

    /// The newest revision; an empty store is at 1.
    pub(super) fn revision(&self) -> Revision {
        self.writes.last().map_or(1, |write| write.revision)
    }

    pub(super) fn phase(&self, key: &Key) -> Option<&'static str> {
        self.writes.iter().rev().find(|write| write.key == *key).and_then(|write| write.phase)
    }

    /// The objects wanted as of `revision`, each with the revision that wrote it.
    pub(super) fn state(&self, revision: Revision, wanted: &Wanted) -> BTreeMap<Key, Revision> {
        let mut state = BTreeMap::new();
        for write in self.writes.iter().take_while(|write| write.revision <= revision) {
            match write.phase.filter(|phase| wanted.takes(&write.key, phase)) {
                Some(_) => state.insert(write.key.clone(), write.revision),
                None => state.remove(&write.key),
            };
        }
        state
    }

    /// What a watch is told of everything after `revision`.
    pub(super) fn told(&self, revision: Revision, wanted: &Wanted) -> Vec<Told> {
        let mut phases: BTreeMap<&Key, &str> = BTreeMap::new();
        let mut told = Vec::new();
        for Write { revision: at, key, phase } in &self.writes {
            let takes = |phase: Option<&str>| phase.is_some_and(|phase| wanted.takes(key, phase));
            let kind = match (takes(phases.get(key).copied()), takes(*phase)) {
                (false, true) => Some(EventKind::Added),
                (true, true) => Some(EventKind::Modified),
                (true, false) => Some(EventKind::Deleted),
                (false, false) => None,
            };
            told.extend(kind.filter(|_| *at > revision).map(|kind| (kind, key.clone(), *at)));
            match phase {
                Some(phase) => phases.insert(key, phase),
                None => phases.remove(key),
            };
        }
        told
    }
}
