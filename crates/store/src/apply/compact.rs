//! Giving up history.

use super::write::Writer;
use crate::{command::Compact, mvcc::Result, refusal::Refusal};

pub(super) fn compact(writer: &mut Writer<'_, '_>, compact: Compact) -> Result<()> {
    let revisions = writer.revisions();
    match compact.revision {
        revision if revision <= revisions.compacted => Err(Refusal::Compacted.into()),
        revision if revision > revisions.current => Err(Refusal::FutureRevision.into()),
        revision => {
            writer.compact(revision);
            Ok(())
        }
    }
}
