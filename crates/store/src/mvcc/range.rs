//! Reading keys as of a revision.

use super::{
    KeyRange, KeyValue, Result, Revisions, record,
    record::{Header, Stored},
    segments,
};
use crate::{
    command::{Range, RangeResponse, SortOrder, SortTarget},
    disk::{self, Column, Cursor, Read, columns},
    refusal::Refusal,
};
use bytes::{Bytes, BytesMut};
use std::{cmp::Ordering, ops::ControlFlow};

/// Answers a read. `read` must be a consistent view and `revisions` what it says of itself.
pub fn range(read: &dyn Read, revisions: Revisions, request: &Range) -> Result<RangeResponse> {
    let (mut response, counted) = page(read, revisions, request)?;
    if !counted {
        let past = resolve(revisions, request.revision)?;
        let past = (past < revisions.current).then_some(past);
        response.count = segments::count(read, revisions, &KeyRange::new(&request.key, &request.range_end), past)?;
    }
    Ok(response)
}

/// The pairs of a read, without looking further than its limit; true when that was far enough to count all keys of the
/// range.
pub fn page(read: &dyn Read, revisions: Revisions, request: &Range) -> Result<(RangeResponse, bool)> {
    let at = resolve(revisions, request.revision)?;
    let keys = KeyRange::new(&request.key, &request.range_end);
    let plan = Plan::new(request)?;
    let past = (at < revisions.current).then_some(at);
    if request.count_only {
        return Ok((RangeResponse::default(), false));
    }
    let mut collect = Collect { plan: &plan, arena: Arena::default(), kvs: Vec::new(), count: 0, cut: false };
    visit(read, &keys, past, &mut |key, header, value| collect.take(key, header, value))?;
    let counted = !collect.cut;
    Ok((plan.finish(collect.kvs, collect.count), counted))
}

/// The revision to read at, if it is readable.
pub fn resolve(revisions: Revisions, asked: i64) -> std::result::Result<i64, Refusal> {
    match asked {
        _ if asked > revisions.current => Err(Refusal::FutureRevision),
        _ if asked <= 0 => Ok(revisions.current),
        _ if asked < revisions.compacted => Err(Refusal::Compacted),
        _ => Ok(asked),
    }
}

/// Called for each key with its version: key, header, value.
pub type Visitor<'a> = dyn FnMut(&[u8], Header, &[u8]) -> ControlFlow<()> + 'a;

/// Walks the keys of a range in order, as they were at `past` or, without it, as they are now.
pub fn visit(read: &dyn Read, keys: &KeyRange, past: Option<i64>, visitor: &mut Visitor<'_>) -> disk::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    match past {
        Some(at) => visit_past(read, keys, at, visitor),
        None if keys.single => visit_one(read, &keys.start, visitor),
        None => visit_present(read, keys, visitor),
    }
}

fn visit_one(read: &dyn Read, key: &[u8], visitor: &mut Visitor<'_>) -> disk::Result<()> {
    if let Some(row) = read.get(Column::Current, key)? {
        let (header, value) = record::decode(Column::Current, &row)?;
        let _ = visitor(key, header, value);
    }
    Ok(())
}

fn visit_present(read: &dyn Read, keys: &KeyRange, visitor: &mut Visitor<'_>) -> disk::Result<()> {
    let mut cursor = read.scan(Column::Current, &keys.start, keys.end.as_deref())?;
    while let Some((key, row)) = cursor.row() {
        let (header, value) = record::decode(Column::Current, row)?;
        if visitor(key, header, value).is_break() {
            break;
        }
        cursor.advance()?;
    }
    Ok(())
}

/// Merges live versions that were there already with ended ones that were there still; a key has at most one.
fn visit_past(read: &dyn Read, keys: &KeyRange, at: i64, visitor: &mut Visitor<'_>) -> disk::Result<()> {
    let mut live = read.scan(Column::Current, &keys.start, keys.end.as_deref())?;
    let end = keys.end.as_deref().map(columns::past_prefix);
    let mut ended = read.scan(Column::Past, &columns::past_prefix(&keys.start), end.as_deref())?;
    let mut next_ended = seek_ended(&mut *ended, at)?;
    loop {
        skip_newer(&mut *live, at)?;
        let (live_row, ended_row) = (live.row(), next_ended.as_ref());
        let ended_first = match (&live_row, ended_row) {
            (None, None) => return Ok(()),
            (Some((key, _)), Some(ended)) => ended[..] < **key,
            (live, _) => live.is_none(),
        };
        let row = if ended_first { ended.row().map(|(_, row)| row) } else { live_row.map(|(_, row)| row) };
        let key = if ended_first { ended_row.map(|key| &key[..]) } else { live_row.map(|(key, _)| key) };
        let (Some(key), Some(row)) = (key, row) else { return Ok(()) };
        let (header, value) = record::decode(Column::Past, row)?;
        if visitor(key, header, value).is_break() {
            return Ok(());
        }
        if ended_first {
            ended.advance()?;
            next_ended = seek_ended(&mut *ended, at)?;
        } else {
            live.advance()?;
        }
    }
}

fn skip_newer(live: &mut dyn Cursor, at: i64) -> disk::Result<()> {
    while let Some((_, row)) = live.row() {
        if record::decode(Column::Current, row)?.0.mod_revision <= at {
            break;
        }
        live.advance()?;
    }
    Ok(())
}

/// Moves to the next ended version that was there at a revision; its key.
fn seek_ended(ended: &mut dyn Cursor, at: i64) -> disk::Result<Option<Bytes>> {
    while let Some((key, _)) = ended.row() {
        let (written, superseded) = columns::read_past_span(key)?;
        if written <= at && at < superseded {
            return columns::read_past_key(key).map(Some);
        }
        ended.advance()?;
    }
    Ok(None)
}

/// What a read asks for, beyond which keys.
struct Plan<'a> {
    request: &'a Range,
    limit: usize,
    /// Sorted by this field, lowest first or highest first; none for key order.
    sort: Option<(SortTarget, bool)>,
    /// Nothing past the limit need be looked at.
    stop_at_limit: bool,
}

impl<'a> Plan<'a> {
    fn new(request: &'a Range) -> std::result::Result<Self, Refusal> {
        let order = SortOrder::try_from(request.sort_order).map_err(|_| Refusal::InvalidSortOption)?;
        let target = SortTarget::try_from(request.sort_target).map_err(|_| Refusal::InvalidSortOption)?;
        let sort = match (target, order) {
            (SortTarget::Key, SortOrder::None | SortOrder::Ascend) => None,
            (target, order) => Some((target, order == SortOrder::Descend)),
        };
        let limit = usize::try_from(request.limit).ok().filter(|&limit| limit > 0).unwrap_or(usize::MAX);
        // As in etcd, a field without an order sorts only what the limit left, lowest key first.
        let stop_at_limit = sort.is_none() || (order == SortOrder::None && !selects(request));
        Ok(Plan { request, limit, sort, stop_at_limit })
    }

    fn wants(&self, header: &Header) -> bool {
        let above = |bound: i64, number: i64| bound == 0 || number >= bound;
        let below = |bound: i64, number: i64| bound == 0 || number <= bound;
        above(self.request.min_mod_revision, header.mod_revision)
            && below(self.request.max_mod_revision, header.mod_revision)
            && above(self.request.min_create_revision, header.create_revision)
            && below(self.request.max_create_revision, header.create_revision)
    }

    fn finish(&self, mut kvs: Vec<KeyValue>, count: i64) -> RangeResponse {
        if let Some((target, descend)) = self.sort {
            kvs.sort_by(|a, b| if descend { compare(target, b, a) } else { compare(target, a, b) });
        }
        let more = kvs.len() > self.limit;
        kvs.truncate(self.limit);
        if self.request.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value = Bytes::new());
        }
        RangeResponse { kvs, more, count }
    }
}

/// It leaves keys out by their revisions.
fn selects(request: &Range) -> bool {
    let bounds = [request.min_mod_revision, request.max_mod_revision, request.min_create_revision, request.max_create_revision];
    bounds.iter().any(|bound| *bound != 0)
}

fn compare(target: SortTarget, a: &KeyValue, b: &KeyValue) -> Ordering {
    match target {
        SortTarget::Key => a.key.cmp(&b.key),
        SortTarget::Version => a.version.cmp(&b.version),
        SortTarget::Create => a.create_revision.cmp(&b.create_revision),
        SortTarget::Mod => a.mod_revision.cmp(&b.mod_revision),
        SortTarget::Value => a.value.cmp(&b.value),
    }
}

struct Collect<'a> {
    plan: &'a Plan<'a>,
    arena: Arena,
    kvs: Vec<KeyValue>,
    count: i64,
    /// There are more than the limit, and the others were not looked at.
    cut: bool,
}

impl Collect<'_> {
    fn take(&mut self, key: &[u8], header: Header, value: &[u8]) -> ControlFlow<()> {
        self.count += 1;
        if !self.plan.wants(&header) {
            return ControlFlow::Continue(());
        }
        let by_value = matches!(self.plan.sort, Some((SortTarget::Value, _)));
        let value = if self.plan.request.keys_only && !by_value { Bytes::new() } else { self.arena.copy(value) };
        self.kvs.push(header.with(self.arena.copy(key), value));
        self.cut = self.plan.stop_at_limit && self.kvs.len() > self.plan.limit;
        if self.cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Copies many small slices into few allocations. For answers that live and die together.
#[derive(Default)]
struct Arena(BytesMut);

impl Arena {
    const CHUNK: usize = 64 << 10;

    fn copy(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.len() >= Self::CHUNK / 4 {
            return Bytes::copy_from_slice(bytes);
        }
        if self.0.capacity() < bytes.len() {
            self.0 =
                BytesMut::with_capacity(if self.0.is_empty() && self.0.capacity() == 0 { 1 << 10 } else { Self::CHUNK }.max(bytes.len()));
        }
        self.0.extend_from_slice(bytes);
        self.0.split().freeze()
    }
}

/// The newest version of a key, if it lives.
pub fn newest(read: &dyn Read, key: &Bytes) -> disk::Result<Option<Stored>> {
    let row = read.get(Column::Current, key)?;
    row.map(|row| Stored::read(Column::Current, key.clone(), row)).transpose()
}
