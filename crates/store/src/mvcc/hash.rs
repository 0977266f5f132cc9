//! A fingerprint of the keys as of a revision: members that agree have the same.

use super::{KeyRange, NEVER_COMPACTED, Result, Revisions, history, range};
use crate::disk::Read;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::ops::ControlFlow;

/// What was hashed, and what came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    /// The fingerprint.
    pub hash: u32,
    /// Revision it covers.
    pub revision: i64,
    /// Compacted revision it starts from.
    pub compacted: i64,
}

/// Hashes the state at `revision` (0 or less: the newest) and the changes since the compacted one.
///
/// How far a member got with removing compacted versions from disk makes no difference.
pub fn hash(read: &dyn Read, revision: i64) -> Result<Hash> {
    let revisions = Revisions::read(read)?;
    let at = range::resolve(revisions, revision)?;
    let mut digest = Sha256::new();
    let everything = KeyRange::new(&Bytes::new(), &Bytes::from_static(&[0]));
    range::visit(read, &everything, (at < revisions.current).then_some(at), &mut |key, header, value| {
        part(&mut digest, key);
        for number in [header.create_revision, header.mod_revision, header.version, header.lease] {
            digest.update(number.to_be_bytes());
        }
        part(&mut digest, value);
        ControlFlow::Continue(())
    })?;
    let mut changes = history::walk(read, revisions.compacted.max(0) + 1, at)?;
    while let Some((key, row)) = changes.row() {
        part(&mut digest, key);
        part(&mut digest, row);
        changes.advance()?;
    }
    digest.update(revisions.compacted.max(NEVER_COMPACTED).to_be_bytes());
    let bytes = digest.finalize();
    let hash = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    Ok(Hash { hash, revision: at, compacted: revisions.compacted })
}

fn part(digest: &mut Sha256, bytes: &[u8]) {
    digest.update((bytes.len() as u64).to_be_bytes());
    digest.update(bytes);
}
