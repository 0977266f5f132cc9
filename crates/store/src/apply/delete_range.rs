//! Deleting a range of keys.

use super::write::Writer;
use crate::{
    command::{DeleteRange, DeleteRangeResponse},
    mvcc::{KeyRange, Result, range, record::Stored},
};
use std::ops::ControlFlow;

pub(super) fn delete_range(writer: &mut Writer<'_, '_>, delete: &DeleteRange) -> Result<DeleteRangeResponse> {
    let keys = KeyRange::new(&delete.key, &delete.range_end);
    let doomed = live(writer, &keys)?;
    let deleted = doomed.len() as i64;
    let prev_kvs = if delete.prev_kv { doomed.iter().map(|stored| stored.kv.clone()).collect() } else { Vec::new() };
    doomed.into_iter().for_each(|stored| writer.remove(stored));
    Ok(DeleteRangeResponse { deleted, prev_kvs })
}

fn live(writer: &Writer<'_, '_>, keys: &KeyRange) -> Result<Vec<Stored>> {
    if keys.single {
        return Ok(writer.newest(&keys.start)?.into_iter().collect());
    }
    let mut found = Vec::new();
    range::visit(writer.view(), keys, None, &mut |key, header, value| {
        found.push(Stored::copy(header, key, value));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
