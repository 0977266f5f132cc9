//! Keeps count of the live keys, segment by segment, as commands change them.

use super::View;
use crate::disk::{Column, Error, Read, Result};
use bytes::Bytes;

impl View<'_> {
    /// A key came to live; its row is set already.
    pub(super) fn born(&mut self, key: &[u8]) -> Result<()> {
        let Some((first, count)) = self.segments().of(key) else { return Ok(()) };
        if count < self.segments().full() {
            self.set_segment(first, Some(count + 1));
            return Ok(());
        }
        let half = count.div_ceil(2);
        let middle = self.key_after(&first, half)?;
        self.set_segment(first, Some(half));
        self.set_segment(middle, Some(count + 1 - half));
        Ok(())
    }

    /// A key died. A segment that became small goes to the one before it.
    pub(super) fn died(&mut self, key: &[u8]) {
        let Some((first, count)) = self.segments().of(key) else { return };
        let left = count.saturating_sub(1);
        match self.segments().before(&first) {
            Some((previous, others)) if others + left <= self.segments().full() / 2 => {
                self.set_segment(first, None);
                self.set_segment(previous, Some(others + left));
            }
            _ => self.set_segment(first, Some(left)),
        }
    }

    /// The live key that has so many before it, from `first` on.
    fn key_after(&self, first: &[u8], count: u32) -> Result<Bytes> {
        let fewer = Error::Corrupt { column: Column::Segment, what: "a segment has as many keys as it says" };
        let mut cursor = self.scan(Column::Current, first, None)?;
        for _ in 0..count {
            // A number that is none must not be counted to.
            if cursor.row().is_none() {
                return Err(fewer);
            }
            cursor.advance()?;
        }
        cursor.row().map(|(key, _)| Bytes::copy_from_slice(key)).ok_or(fewer)
    }
}
