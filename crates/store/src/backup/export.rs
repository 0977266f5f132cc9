//! Writing a state as a file of etcd's.

use std::{collections::BTreeMap, path::PathBuf};

use bytes::Bytes;

use super::{
    Error,
    bolt::write::{self, Counter, Shape, Writer},
    buckets::{self, KEY, NAMES, Rows, Standing},
    sort::{Sorted, Sorter},
    versions::{self, Reference, RevisionKey, Unique},
};
use crate::{disk::Read, mvcc::Revisions};

/// A state about to be written; its size is known.
pub struct Export<'a> {
    read: &'a dyn Read,
    buckets: BTreeMap<&'static str, Rows>,
    versions: Sorted,
    shape: Shape,
}

impl<'a> Export<'a> {
    /// Looks through a state that stands still. What does not fit into memory is sorted in files in `scratch`.
    pub fn new(read: &'a dyn Read, standing: &Standing, scratch: PathBuf) -> Result<Self, Error> {
        let buckets = buckets::read(read, standing)?;
        let mut sorter = Sorter::new(scratch);
        versions::visit(read, Revisions::read(read)?, &mut |version| {
            let reference = Reference::to(&version).encode();
            sorter.push(&version.at.encode(), &reference).map_err(Error::Scratch)
        })?;
        let versions = sorter.finish();
        let shape = measure(&buckets, &versions)?;
        Ok(Export { read, buckets, versions, shape })
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.shape.size()
    }

    /// Hands the file to `send`, from front to back, in whole pages.
    pub fn write(&self, send: &mut dyn FnMut(Bytes) -> Result<(), Error>) -> Result<(), Error> {
        send(self.shape.head())?;
        let mut pages = Writer::new(send);
        let root = write::place(&mut pages, &NAMES, |name, rows| match name {
            KEY => each(&self.versions, &mut |at, reference| rows(at.encode().into(), reference.fetch(self.read, at.main)?)),
            _ => self.buckets[name].iter().try_for_each(|(key, value)| rows(key.clone(), value.clone())),
        })?;
        match pages.shape(root) == self.shape {
            true => Ok(()),
            false => Err(Error::Moved),
        }
    }
}

/// Builds the file from sizes alone.
fn measure(buckets: &BTreeMap<&'static str, Rows>, versions: &Sorted) -> Result<Shape, Error> {
    let mut counter = Counter::default();
    let root = write::place(&mut counter, &NAMES, |name, rows| match name {
        KEY => each(versions, &mut |at, reference| rows(at.encode().into(), reference.size)),
        _ => buckets[name].iter().try_for_each(|(key, value)| rows(key.clone(), value.len())),
    })?;
    Ok(counter.shape(root))
}

/// Visits all versions in the order of the bucket.
fn each(versions: &Sorted, visit: &mut dyn FnMut(RevisionKey, Reference) -> Result<(), Error>) -> Result<(), Error> {
    let (mut merge, mut unique) = (versions.read().map_err(Error::Scratch)?, Unique::default());
    let row = |key: &[u8], payload: &[u8]| Some((RevisionKey::decode(key)?, Reference::decode(payload)?));
    while let Some(row) = merge.next(row).map_err(Error::Scratch)? {
        let (at, reference) = row.ok_or(Error::Moved)?;
        visit(unique.next(at), reference)?;
    }
    Ok(())
}
