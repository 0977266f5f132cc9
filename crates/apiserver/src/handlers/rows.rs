//! A list as a Table in JSON, written row by row: the values of all rows together would take ten times the memory of their text.

use apimachinery::status::Status;
use bytes::Bytes;
use serde_json::Value;

use super::{
    Ask,
    shape::{Include, row, table},
};
use crate::{
    registry::store::Store,
    storage::{Entry, List},
};

/// The whole answer.
pub(super) fn bytes(ask: &Ask, store: &Store, list: &List, metadata: Value, version: &str) -> Result<Bytes, Status> {
    let (strategy, include) = (&*ask.served.resource.strategy, Include::of(ask)?);
    // Names of members come in alphabetical order, so the rows are last.
    let mut out = table(strategy, version, metadata, Vec::new(), true).to_string();
    out.truncate(out.len() - "]}".len());
    let spliced = include == Include::Metadata && store.bytes_as_stored();
    for (at, entry) in list.items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        if spliced {
            let object = entry.object_without(strategy.unprinted());
            let row = row(strategy, &object, ask.ctx.now, Include::None, version);
            splice(&mut out, &row.to_string(), entry, version);
        } else {
            out.push_str(&row(strategy, &store.present(entry)?, ask.ctx.now, include, version).to_string());
        }
    }
    out.push_str("]}\n");
    Ok(out.into())
}

/// Puts the stored metadata in the place of the object, which is a row's last member.
fn splice(out: &mut String, row: &str, entry: &Entry, version: &str) {
    let Some(row) = row.strip_suffix("null}") else { return out.push_str(row) };
    out.push_str(row);
    out.push_str(r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/"#);
    out.push_str(version);
    out.push_str(r#"","metadata":"#);
    // What is stored is JSON, which is UTF-8.
    out.push_str(std::str::from_utf8(entry.metadata_json()).unwrap_or("{}"));
    out.push_str("}}");
}
