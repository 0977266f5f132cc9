//! Writes that take effect together.

use super::Column;
use bytes::Bytes;

/// One write of a [`Batch`].
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Sets a row.
    Put(Column, Bytes, Bytes),
    /// Removes a row, present or not.
    Delete(Column, Bytes),
    /// Removes the rows with `start <= key < end`.
    DeleteRange(Column, Bytes, Bytes),
}

/// Writes that take effect together, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The writes, in order.
    pub writes: Vec<Write>,
}

impl Batch {
    /// Sets a row.
    pub fn put(&mut self, column: Column, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.writes.push(Write::Put(column, key.into(), value.into()));
    }

    /// Removes a row.
    pub fn delete(&mut self, column: Column, key: impl Into<Bytes>) {
        self.writes.push(Write::Delete(column, key.into()));
    }

    /// Removes the rows with `start <= key < end`.
    pub fn delete_range(&mut self, column: Column, start: impl Into<Bytes>, end: impl Into<Bytes>) {
        self.writes.push(Write::DeleteRange(column, start.into(), end.into()));
    }

    /// Nothing to write.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}
