//! A store as it should be: all keys at one revision, and what a request does to them.

use std::collections::BTreeMap;

use super::{
    calls::{Answer, Found, Op, Request},
    log::{Event, Kind, Pair},
};

/// The keys at one revision.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pairs: BTreeMap<String, Pair>,
}

impl Model {
    /// Replays a revision of the log.
    pub(super) fn replay(&mut self, events: &[Event]) {
        for event in events {
            match event.kind {
                Kind::Put => self.pairs.insert(event.pair.key.clone(), event.pair.clone()),
                Kind::Delete => self.pairs.remove(&event.pair.key),
            };
        }
    }

    /// What a request answers here, and what it changes, if it were the one to make `revision`.
    pub(super) fn run(&self, request: &Request, revision: i64) -> (Answer, Vec<Event>) {
        let succeeded = request.compare.iter().all(|compare| self.modified(&compare.key) == compare.modified);
        let ops = if succeeded { &request.then } else { &request.otherwise };
        let (mut after, mut events) = (self.clone(), Vec::new());
        let results = ops.iter().map(|op| after.step(op, revision, &mut events)).collect();
        (Answer { revision, succeeded, results }, events)
    }

    fn modified(&self, key: &str) -> i64 {
        self.pairs.get(key).map_or(0, |pair| pair.modified)
    }

    fn step(&mut self, op: &Op, revision: i64, events: &mut Vec<Event>) -> Found {
        match op {
            Op::Put { key, value } => {
                let before = self.pairs.get(key).cloned();
                let (created, version) = before.as_ref().map_or((revision, 1), |before| (before.created, before.version + 1));
                let pair = Pair { key: key.clone(), value: value.clone(), created, modified: revision, version };
                self.pairs.insert(key.clone(), pair.clone());
                events.push(Event { kind: Kind::Put, pair, before });
                Found::Put
            }
            Op::Delete { key } => {
                let before = self.pairs.remove(key);
                let deleted = i64::from(before.is_some());
                if before.is_some() {
                    let pair = Pair { key: key.clone(), modified: revision, ..Pair::default() };
                    events.push(Event { kind: Kind::Delete, pair, before });
                }
                Found::Deleted(deleted)
            }
            Op::Get(range) => Found::Pairs(self.pairs.values().filter(|pair| range.contains(&pair.key)).cloned().collect()),
        }
    }
}
