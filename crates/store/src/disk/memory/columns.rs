//! Columns of sorted rows in memory; whoever holds a copy sees no later write.

use crate::disk::{Batch, Column, Cursor, Read, Result, Write};
use bytes::Bytes;
use std::{collections::BTreeMap, ops::Bound, sync::Arc};

pub(super) type Rows = BTreeMap<Bytes, Bytes>;

/// A state of all columns; a column is copied only when it changes while somebody else still holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns(BTreeMap<Column, Arc<Rows>>);

impl Columns {
    pub(super) fn apply(&mut self, batch: &Batch) {
        for write in &batch.writes {
            match write {
                Write::Put(column, key, value) => {
                    self.rows_mut(*column).insert(key.clone(), value.clone());
                }
                Write::Delete(column, key) => {
                    self.rows_mut(*column).remove(key);
                }
                Write::DeleteRange(column, start, end) if start < end => {
                    let rows = self.rows_mut(*column);
                    let mut cut = rows.split_off(start);
                    rows.append(&mut cut.split_off(end));
                }
                Write::DeleteRange(..) => {}
            }
        }
    }

    pub(super) fn rows_mut(&mut self, column: Column) -> &mut Rows {
        Arc::make_mut(self.0.entry(column).or_default())
    }

    /// All columns that have rows, or had some.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Column, &Rows)> {
        self.0.iter().map(|(column, rows)| (*column, &**rows))
    }

    /// Walks the rows of a column as they are now.
    pub(super) fn walk(&self, column: Column, start: &[u8], end: Option<&[u8]>) -> Walk {
        Walk::new(self.0.get(&column).cloned().unwrap_or_default(), start, end)
    }
}

impl Read for Columns {
    fn get(&self, column: Column, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.0.get(&column).and_then(|rows| rows.get(key).cloned()))
    }

    fn scan<'a>(&'a self, column: Column, start: &[u8], end: Option<&[u8]>) -> Result<Box<dyn Cursor + 'a>> {
        Ok(Box::new(self.walk(column, start, end)))
    }
}

/// A cursor over rows that it shares.
pub(super) struct Walk {
    rows: Arc<Rows>,
    end: Option<Bytes>,
    row: Option<(Bytes, Bytes)>,
}

impl Walk {
    fn new(rows: Arc<Rows>, start: &[u8], end: Option<&[u8]>) -> Self {
        let mut walk = Walk { rows, end: end.map(Bytes::copy_from_slice), row: None };
        walk.enter(Bound::Included(start));
        walk
    }

    fn enter(&mut self, from: Bound<&[u8]>) {
        let next = self.rows.range::<[u8], _>((from, Bound::Unbounded)).next();
        self.row = next.filter(|(key, _)| self.end.as_ref().is_none_or(|end| *key < end)).map(|(key, value)| (key.clone(), value.clone()));
    }
}

impl Cursor for Walk {
    fn row(&self) -> Option<(&[u8], &[u8])> {
        self.row.as_ref().map(|(key, value)| (&key[..], &value[..]))
    }

    fn advance(&mut self) -> Result<()> {
        if let Some((key, _)) = self.row.take() {
            self.enter(Bound::Excluded(&key[..]));
        }
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.row.as_ref().is_some_and(|(at, _)| at < key) {
            self.enter(Bound::Included(key));
        }
        Ok(())
    }
}
