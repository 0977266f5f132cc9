//! Keys and their versions: what a revision saw, how it is laid out, how old ones go.

pub mod compaction;
pub mod event;
pub mod history;
pub mod key_range;
pub mod range;
pub mod record;
pub mod segments;

pub use event::{Event, EventKind};
pub use key_range::KeyRange;
pub use segments::Segments;

use crate::{
    disk::{self, Column, Error, Read, columns, columns::meta},
    refusal::Refusal,
};
use bytes::Bytes;

/// A key with one of its versions; field numbers are `mvccpb.KeyValue`'s.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeyValue {
    /// The key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Revision at which it came to be.
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    /// Revision of this version.
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    /// Changes since it came to be; 1 for a new key.
    #[prost(int64, tag = "4")]
    pub version: i64,
    /// The value.
    #[prost(bytes = "bytes", tag = "5")]
    pub value: Bytes,
    /// The lease it is attached to; 0 for none.
    #[prost(int64, tag = "6")]
    pub lease: i64,
}

/// Revision of a store nothing was written to.
pub const FIRST_REVISION: i64 = 1;

/// Compacted revision of a store that never was compacted; etcd's value.
pub const NEVER_COMPACTED: i64 = -1;

/// Where a state stands in history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revisions {
    /// The newest.
    pub current: i64,
    /// The oldest that is readable, or [`NEVER_COMPACTED`].
    pub compacted: i64,
}

impl Revisions {
    /// Reads both.
    pub fn read(read: &dyn Read) -> disk::Result<Self> {
        let Some(row) = read.get(Column::Meta, meta::REVISIONS)? else {
            return Ok(Revisions { current: FIRST_REVISION, compacted: NEVER_COMPACTED });
        };
        let corrupt = Error::Corrupt { column: Column::Meta, what: "the revisions are 16 bytes" };
        let (current, compacted) = row.split_at_checked(8).ok_or(corrupt)?;
        let (current, compacted) = (columns::read_revision(Column::Meta, current)?, columns::read_revision(Column::Meta, compacted)?);
        if !(FIRST_REVISION..i64::MAX / 2).contains(&current) || !(NEVER_COMPACTED..=current).contains(&compacted) {
            return Err(Error::Corrupt { column: Column::Meta, what: "the newest revision is one, and what is compacted is not newer" });
        }
        Ok(Revisions { current, compacted })
    }

    /// The form [`Revisions::read`] reads.
    pub(crate) fn encode(self) -> Bytes {
        let (current, compacted) = (columns::revision_key(self.current), columns::revision_key(self.compacted));
        Bytes::copy_from_slice([current, compacted].as_flattened())
    }
}

/// A request that did not work out: refused, or the disk failed under it.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The client's to deal with.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The member's end.
    #[error(transparent)]
    Disk(#[from] disk::Error),
}

/// A result of reading or writing versions.
pub type Result<T> = std::result::Result<T, Failure>;
