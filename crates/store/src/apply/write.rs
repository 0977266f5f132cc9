//! Changes of keys by one command: all at one revision, each with its history and its event.

use super::{Applied, LeaseChange, TokenChange, View};
use crate::{
    command::{Outcome, Response},
    disk::{Column, columns},
    mvcc::{
        Event, EventKind, KeyValue, Result, Revisions,
        history::Change,
        range,
        record::{self, Stored},
    },
    refusal::Refusal,
};
use bytes::Bytes;

/// Collects what one command changes.
pub(super) struct Writer<'v, 'a> {
    view: &'v mut View<'a>,
    revisions: Revisions,
    events: Vec<Event>,
    leases: Vec<LeaseChange>,
    tokens: Vec<TokenChange>,
}

impl<'v, 'a> Writer<'v, 'a> {
    pub(super) fn new(view: &'v mut View<'a>) -> Self {
        let revisions = view.revisions();
        Writer { view, revisions, events: Vec::new(), leases: Vec::new(), tokens: Vec::new() }
    }

    pub(super) fn view(&self) -> &View<'a> {
        self.view
    }

    pub(super) fn view_mut(&mut self) -> &mut View<'a> {
        self.view
    }

    /// As seen from within the command: its own changes count.
    pub(super) fn revisions(&self) -> Revisions {
        let current = if self.events.is_empty() { self.revisions.current } else { self.writing() };
        Revisions { current, ..self.revisions }
    }

    pub(super) fn compact(&mut self, revision: i64) {
        self.revisions.compacted = revision;
    }

    pub(super) fn lease_changed(&mut self, change: LeaseChange) {
        self.leases.push(change);
    }

    pub(super) fn tokens_changed(&mut self, change: TokenChange) {
        self.tokens.push(change);
    }

    /// The revision its changes get.
    fn writing(&self) -> i64 {
        self.revisions.current + 1
    }

    /// Sets a key whose live version is `prev`.
    pub(super) fn set(&mut self, key: &Bytes, value: Bytes, lease: i64, prev: Option<Stored>) -> Result<()> {
        let revision = self.writing();
        let prev = prev.map(|prev| self.end(prev));
        let (create_revision, version) = prev.as_ref().map_or((revision, 1), |prev| (prev.create_revision, prev.version + 1));
        let kv = KeyValue { key: key.clone(), create_revision, mod_revision: revision, version, value, lease };
        self.view.put(Column::Current, key.clone(), record::encode(&kv, self.events.len() as i64));
        if prev.is_none() {
            self.view.born(key)?;
        }
        let held = prev.as_ref().map_or(0, |prev| prev.lease);
        if held != lease {
            self.let_go(held, key);
            if lease != 0 {
                self.view.put(Column::LeaseItem, columns::lease_item_key(lease, key), Bytes::new());
            }
        }
        self.note(EventKind::Put, kv, prev);
        Ok(())
    }

    /// Deletes a key whose live version is `prev`.
    pub(super) fn remove(&mut self, prev: Stored) {
        let prev = self.end(prev);
        let kv = KeyValue { key: prev.key.clone(), mod_revision: self.writing(), ..Default::default() };
        self.view.delete(Column::Current, prev.key.clone());
        self.view.died(&prev.key);
        self.let_go(prev.lease, &prev.key);
        self.note(EventKind::Delete, kv, Some(prev));
    }

    /// Moves a version to the past; its record is shared, not copied.
    fn end(&mut self, Stored { kv, row }: Stored) -> KeyValue {
        let key = columns::past_key(&kv.key, kv.mod_revision, self.writing());
        self.view.put(Column::Past, key, row);
        kv
    }

    fn let_go(&mut self, lease: i64, key: &[u8]) {
        if lease != 0 {
            self.view.delete(Column::LeaseItem, columns::lease_item_key(lease, key));
        }
    }

    fn note(&mut self, kind: EventKind, kv: KeyValue, prev: Option<KeyValue>) {
        let ended = prev.as_ref().map_or(0, |prev| prev.mod_revision);
        let change = Change { kind, ended, key: kv.key.clone() };
        let key = columns::history_key(self.writing(), self.events.len() as u32);
        self.view.put(Column::History, Bytes::copy_from_slice(&key), change.encode());
        self.events.push(Event::new(kind, kv, prev));
    }

    /// The live version of a key.
    pub(super) fn newest(&self, key: &Bytes) -> Result<Option<Stored>> {
        Ok(range::newest(&*self.view, key)?)
    }

    /// Keeps the changes, or drops all of them when the command was refused.
    pub(super) fn finish(mut self, result: std::result::Result<Response, Refusal>) -> Applied {
        if result.is_err() {
            self.view.reject();
            self.events.clear();
            self.leases.clear();
            self.tokens.clear();
            let outcome = Outcome { revision: self.view.revisions().current, result };
            return Applied { outcome, events: self.events, leases: self.leases, tokens: self.tokens };
        }
        let revisions = self.revisions();
        self.view.accept(revisions);
        let outcome = Outcome { revision: revisions.current, result };
        Applied { outcome, events: self.events, leases: self.leases, tokens: self.tokens }
    }
}
