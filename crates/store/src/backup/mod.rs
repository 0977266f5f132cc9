//! Files of etcd's own format: written from this store's state, and read back into one.
//!
//! [`bolt`] knows pages and trees, [`buckets`] and [`versions`] what etcd keeps in them; [`export`] and [`import`] turn
//! one into the other. Nothing is held in memory whole.

pub mod bolt;
pub mod buckets;
pub mod crc32c;
pub mod export;
pub mod file;
pub mod hash;
pub mod import;
pub mod sort;
pub mod status;
#[cfg(test)]
mod tests;
pub mod versions;

use std::io;

use crate::{disk, refusal::Refusal};

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The state cannot be read.
    #[error(transparent)]
    Disk(#[from] disk::Error),
    /// The request does not fit the state.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The state does not say where it stands.
    #[error("read the applied position")]
    Standing(#[source] io::Error),
    /// What was to be sorted found no place.
    #[error("write a temporary file")]
    Scratch(#[source] io::Error),
    /// The second look at the state found something else than the first.
    #[error("the state did not stand still")]
    Moved,
    /// Nobody takes the file any more.
    #[error("the receiver is gone")]
    Closed,
}
