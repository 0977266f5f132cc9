//! A range in pieces: all of one revision, none much larger than a request may be. A piece is read when the client has
//! taken the one before, so that nothing is held for a slow one. As etcd 3.7 has it.

use bytes::{Bytes, BytesMut};
use etcd::etcdserverpb::{RangeResponse, RangeStreamResponse};
use futures::{StreamExt, stream, stream::BoxStream};
use prost::Message;
use tonic::Status;

use super::{Context, blocking, convert, disk_status, identity::Credentials, slow::Trace, status};
use crate::{
    command::{self, Range, SortOrder, SortTarget},
    mvcc::{Revisions, range},
};

/// Keys in the first piece; etcd's.
const FIRST: i64 = 10;

/// What a stream of pieces does not serve.
#[allow(clippy::result_large_err)]
pub(super) fn check(range: &Range) -> Result<(), Status> {
    let by_key = range.sort_target == SortTarget::Key as i32 && range.sort_order == SortOrder::Ascend as i32;
    if range.sort_order != SortOrder::None as i32 && !by_key {
        return Err(Status::unimplemented("RangeStream does not support custom sort orders"));
    }
    let bounds = [range.min_mod_revision, range.max_mod_revision, range.min_create_revision, range.max_create_revision];
    if bounds.iter().any(|bound| *bound != 0) {
        return Err(Status::unimplemented("RangeStream does not support revision filters"));
    }
    Ok(())
}

/// The pieces, of the revision asked for or else the one that is newest when the first is read.
pub(super) fn stream(context: Context, who: Credentials, range: Range) -> BoxStream<'static, Result<RangeStreamResponse, Status>> {
    let left = if range.limit > 0 { range.limit } else { i64::MAX };
    let range = Range { sort_target: SortTarget::Key as i32, ..range };
    let rest = Rest { context, who, range, left, sent: 0, keys: FIRST, revision: None };
    let pieces = stream::try_unfold(Some(rest), |rest: Option<Rest>| async move {
        match rest {
            Some(rest) => rest.piece().await.map(Some),
            None => Ok(None),
        }
    });
    pieces.boxed()
}

/// What is still to be sent.
struct Rest {
    context: Context,
    who: Credentials,
    /// From the next key on; pinned to a revision once the first piece is read.
    range: Range,
    /// Keys at most.
    left: i64,
    sent: i64,
    /// Keys in the next piece.
    keys: i64,
    /// The store's when the first piece was read.
    revision: Option<i64>,
}

impl Rest {
    /// The next piece, and what is left after it.
    async fn piece(mut self) -> Result<(RangeStreamResponse, Option<Self>), Status> {
        self.range.limit = self.keys.min(self.left);
        let (found, revisions) = self.read(range::page).await?;
        let revision = *self.revision.get_or_insert(revisions.current);
        if self.range.revision <= 0 {
            self.range.revision = revision;
        }
        let (found, _) = found;
        let count = found.kvs.len() as i64;
        (self.left, self.sent) = (self.left - count, self.sent + count);
        if let Some(last) = found.kvs.last() {
            self.range.key = after(&last.key);
        }
        let ends = !found.more || self.left == 0;
        let mut piece = convert::range_response(found, None);
        self.keys = next_size(self.keys, piece.encoded_len(), self.context.limits.request_bytes);
        if !ends {
            piece = RangeResponse { kvs: piece.kvs, ..Default::default() };
            return Ok((RangeStreamResponse { range_response: Some(piece) }, Some(self)));
        }
        piece = RangeResponse { header: self.context.header(revision), count: self.sent, ..piece };
        if piece.more || self.range.count_only {
            self.range.count_only = true;
            piece.count += self.read(range::range).await?.0.count;
        }
        Ok((RangeStreamResponse { range_response: Some(piece) }, None))
    }

    /// Reads what is left of the range in some way, from one moment's state.
    async fn read<T: Send + 'static>(
        &self,
        how: impl FnOnce(&dyn crate::disk::Read, Revisions, &Range) -> crate::mvcc::Result<T> + Send + 'static,
    ) -> Result<(T, Revisions), Status> {
        let (state, range) = (self.context.node.state().clone(), self.range.clone());
        let mut trace = Trace::begin();
        let read = move || state.read(|read, revisions| (how(read, revisions, &range), revisions));
        let read = blocking(self.context.node.state(), read).await?;
        trace.step("read keys");
        self.context.note_range(&self.range, &trace, Some(&command::RangeResponse::default()));
        let (found, revisions) = read.map_err(disk_status)?;
        let found = found.map_err(status)?;
        // A stream may last: for each piece the rights of its moment.
        self.context.asked(&self.who).await?.reads(&self.range.key, &self.range.range_end)?;
        Ok((found, revisions))
    }
}

/// The first key after another.
fn after(key: &[u8]) -> Bytes {
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.extend_from_slice(&[0]);
    next.freeze()
}

/// Keys of the next piece, so that its size comes near the one wanted.
fn next_size(keys: i64, size: usize, wanted: usize) -> i64 {
    match size {
        _ if size < wanted / 2 => keys.saturating_mul(2),
        _ if size > wanted * 2 => (keys / 2).max(1),
        _ => keys,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_grow_and_shrink_towards_the_size_wanted() {
        assert_eq!(next_size(10, 100, 1000), 20);
        assert_eq!(next_size(10, 700, 1000), 10);
        assert_eq!(next_size(10, 3000, 1000), 5);
        assert_eq!(next_size(1, 3000, 1000), 1);
    }

    #[test]
    fn orders_and_filters_are_not_served() {
        let refused = |range: Range| check(&range).unwrap_err().message().to_owned();
        let descending = Range { sort_order: SortOrder::Descend as i32, ..Default::default() };
        assert_eq!(refused(descending), "RangeStream does not support custom sort orders");
        let filtered = Range { max_mod_revision: 7, ..Default::default() };
        assert_eq!(refused(filtered), "RangeStream does not support revision filters");
        let by_key = Range { sort_order: SortOrder::Ascend as i32, ..Default::default() };
        assert!(check(&by_key).is_ok());
    }
}
