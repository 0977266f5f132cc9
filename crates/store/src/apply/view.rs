//! A database with changes on top that are not written yet: what a batch of commands works on.

use super::alarm::Alarms;
use crate::{
    auth::Policy,
    disk::{Batch, Column, Cursor, Read, Result, columns::meta},
    mvcc::{Revisions, Segments, segments},
};
use bytes::Bytes;
use std::{collections::BTreeMap, collections::btree_map, iter::Peekable, sync::Arc};

type Overlay = BTreeMap<Bytes, Option<Bytes>>;

/// One of each column, in the order of [`Column::KV`].
type Overlays = [Overlay; Column::KV.len()];

/// What every batch of commands begins with.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Where the state stands in history.
    pub revisions: Revisions,
    /// What is raised.
    pub(super) alarms: Alarms,
    /// Who may do what.
    pub policy: Arc<Policy>,
}

impl Standing {
    /// As a database says.
    pub fn read(read: &dyn Read) -> Result<Self> {
        Ok(Standing { revisions: Revisions::read(read)?, alarms: Alarms::read(read)?, policy: Arc::new(Policy::read(read)?) })
    }
}

/// A database and the changes of a batch of commands, readable as one.
pub struct View<'a> {
    base: &'a dyn Read,
    overlay: Overlays,
    undo: Vec<(Column, Bytes, Option<Option<Bytes>>)>,
    revisions: Revisions,
    before: Revisions,
    segments: Segments,
    /// What segments had before the changes since the last [`View::accept`].
    uncounted: Vec<(Bytes, Option<u32>)>,
    pub(super) alarms: Alarms,
    pub(super) policy: Arc<Policy>,
}

impl<'a> View<'a> {
    /// A view without changes yet that keeps no count of keys: for a database that has no segments yet.
    pub fn new(base: &'a dyn Read) -> Result<Self> {
        Self::counting(base, Segments::default())
    }

    /// A view without changes yet; `segments` are those of the database.
    pub fn counting(base: &'a dyn Read, segments: Segments) -> Result<Self> {
        Ok(Self::at(base, Standing::read(base)?, segments))
    }

    /// The same for a database that is known to stand so.
    pub fn at(base: &'a dyn Read, Standing { revisions, alarms, policy }: Standing, segments: Segments) -> Self {
        let (overlay, undo, uncounted) = (Overlays::default(), Vec::new(), Vec::new());
        View { base, overlay, undo, revisions, before: revisions, segments, uncounted, alarms, policy }
    }

    /// Where the database will stand with these changes.
    pub fn standing(&self) -> Standing {
        Standing { revisions: self.revisions, alarms: self.alarms.clone(), policy: self.policy.clone() }
    }

    /// Who may do what.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// Where the state stands in history.
    pub fn revisions(&self) -> Revisions {
        self.revisions
    }

    /// Sets a row.
    pub fn put(&mut self, column: Column, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.set(column, key.into(), Some(value.into()));
    }

    /// Removes a row.
    pub fn delete(&mut self, column: Column, key: impl Into<Bytes>) {
        self.set(column, key.into(), None);
    }

    fn set(&mut self, column: Column, key: Bytes, value: Option<Bytes>) {
        let before = self.overlay[column as usize].insert(key.clone(), value);
        self.undo.push((column, key, before));
    }

    pub(super) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Sets how many keys a segment has, or removes it.
    pub(super) fn set_segment(&mut self, first: Bytes, count: Option<u32>) {
        self.uncounted.push((first.clone(), self.segments.set(first.clone(), count)));
        self.set(Column::Segment, first, count.map(segments::encode));
    }

    /// Makes the changes since the last call permanent for this view.
    pub(crate) fn accept(&mut self, revisions: Revisions) {
        self.undo.clear();
        self.uncounted.clear();
        self.revisions = revisions;
    }

    /// Takes back the changes since the last [`View::accept`].
    pub(crate) fn reject(&mut self) {
        while let Some((column, key, before)) = self.undo.pop() {
            let rows = &mut self.overlay[column as usize];
            match before {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        }
        while let Some((first, count)) = self.uncounted.pop() {
            self.segments.set(first, count);
        }
    }

    /// All changes as one batch.
    pub fn into_batch(self) -> Batch {
        self.into_parts().0
    }

    /// All changes as one batch, and the segments as they are once it is written.
    pub fn into_parts(self) -> (Batch, Segments) {
        let mut batch = Batch::default();
        for (column, rows) in Column::KV.into_iter().zip(self.overlay) {
            for (key, value) in rows {
                match value {
                    Some(value) => batch.put(column, key, value),
                    None => batch.delete(column, key),
                }
            }
        }
        if self.before != self.revisions {
            batch.put(Column::Meta, meta::REVISIONS, self.revisions.encode());
        }
        (batch, self.segments)
    }
}

impl Read for View<'_> {
    fn get(&self, column: Column, key: &[u8]) -> Result<Option<Bytes>> {
        match self.overlay.get(column as usize).and_then(|rows| rows.get(key)) {
            Some(value) => Ok(value.clone()),
            None => self.base.get(column, key),
        }
    }

    fn scan<'b>(&'b self, column: Column, start: &[u8], end: Option<&[u8]>) -> Result<Box<dyn Cursor + 'b>> {
        let base = self.base.scan(column, start, end)?;
        let Some(rows) = self.overlay.get(column as usize).filter(|rows| !rows.is_empty()) else { return Ok(base) };
        if end.is_some_and(|end| end <= start) {
            return Ok(base);
        }
        let end = end.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let over = rows.range::<[u8], _>((std::ops::Bound::Included(start), end)).peekable();
        let mut merge = Merge { base, over, on_over: false };
        merge.settle()?;
        Ok(Box::new(merge))
    }
}

/// Walks base and overlay together; the overlay's rows hide the base's.
struct Merge<'a> {
    base: Box<dyn Cursor + 'a>,
    over: Peekable<btree_map::Range<'a, Bytes, Option<Bytes>>>,
    on_over: bool,
}

impl Merge<'_> {
    fn settle(&mut self) -> Result<()> {
        loop {
            let Some((over_key, over_value)) = self.over.peek() else {
                self.on_over = false;
                return Ok(());
            };
            match self.base.row() {
                Some((key, _)) if key < &over_key[..] => {
                    self.on_over = false;
                    return Ok(());
                }
                Some((key, _)) if key == &over_key[..] => self.base.advance()?,
                _ if over_value.is_some() => {
                    self.on_over = true;
                    return Ok(());
                }
                _ => {
                    self.over.next();
                }
            }
        }
    }
}

impl Cursor for Merge<'_> {
    fn row(&self) -> Option<(&[u8], &[u8])> {
        if !self.on_over {
            return self.base.row();
        }
        // Peeking needs a mutable borrow; a clone of the range is two pointers.
        let (key, value) = self.over.clone().next()?;
        value.as_ref().map(|value| (&key[..], &value[..]))
    }

    fn advance(&mut self) -> Result<()> {
        if self.on_over {
            self.over.next();
        } else {
            self.base.advance()?;
        }
        self.settle()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.base.seek(key)?;
        while self.over.next_if(|(at, _)| &at[..] < key).is_some() {}
        self.settle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Database, memory::Memory};

    fn keys(read: &dyn Read) -> Vec<(Bytes, Bytes)> {
        let mut cursor = read.scan(Column::Lease, b"", None).unwrap();
        let mut rows = Vec::new();
        while let Some((key, value)) = cursor.row() {
            rows.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
            cursor.advance().unwrap();
        }
        rows
    }

    fn base() -> Memory {
        let memory = Memory::new();
        let mut batch = Batch::default();
        for key in ["b", "d", "f"] {
            batch.put(Column::Lease, key, "base");
        }
        memory.write(batch).unwrap();
        memory
    }

    #[test]
    fn the_overlay_hides_adds_and_removes() {
        let base = base();
        let mut view = View::new(&base).unwrap();
        view.put(Column::Lease, "a", "new");
        view.put(Column::Lease, "d", "new");
        view.delete(Column::Lease, "f");
        let expected: Vec<(Bytes, Bytes)> =
            [("a", "new"), ("b", "base"), ("d", "new")].map(|(key, value)| (key.into(), value.into())).into();
        assert_eq!(keys(&view), expected);
        base.write(view.into_batch()).unwrap();
        assert_eq!(keys(&base), expected);
    }

    #[test]
    fn rejected_changes_leave_no_trace() {
        let base = base();
        let mut view = View::new(&base).unwrap();
        view.put(Column::Lease, "d", "kept");
        let revisions = view.revisions();
        view.accept(revisions);
        view.put(Column::Lease, "d", "lost");
        view.delete(Column::Lease, "b");
        view.put(Column::Lease, "x", "lost");
        view.reject();
        let expected: Vec<(Bytes, Bytes)> =
            [("b", "base"), ("d", "kept"), ("f", "base")].map(|(key, value)| (key.into(), value.into())).into();
        assert_eq!(keys(&view), expected);
    }
}
