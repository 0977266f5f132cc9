//! Objects in the form the client asked for: itself, Table, or metadata only.

use apimachinery::{
    Object,
    status::{Status, reason},
};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::Ask;
use crate::{
    negotiate::{Form, bytes_response, partial, value_response},
    registry::Strategy,
};

/// What a Table's rows carry beside the cells (`?includeObject=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    /// `PartialObjectMetadata`, the default.
    Metadata,
    /// Nothing.
    None,
    /// The whole object.
    Object,
}

impl Include {
    /// From the query. Errors: 400.
    pub(crate) fn of(ask: &Ask) -> Result<Self, Status> {
        match ask.query("includeObject").unwrap_or_default() {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(Status::bad_request(format!("unrecognized includeObject value: {other:?}"))),
        }
    }
}

/// An answer of one object.
pub(crate) fn one(ask: &Ask, code: StatusCode, object: &Object) -> Result<Response, Status> {
    one_by(ask, &*ask.served.resource.strategy, code, object)
}

/// An answer of one object, whose row `strategy` knows.
pub(crate) fn one_by(ask: &Ask, strategy: &dyn Strategy, code: StatusCode, object: &Object) -> Result<Response, Status> {
    if ask.negotiated.form == Form::Object && ask.negotiated.takes_bytes() {
        // Writing JSON values into memory cannot fail.
        let mut bytes = serde_json::to_vec(&object.0).unwrap_or_default();
        bytes.push(b'\n');
        return Ok(bytes_response(code, ask.negotiated, bytes.into()));
    }
    let value = match ask.negotiated.form {
        Form::Object => object.value(),
        Form::Partial(version) => partial(object, version),
        Form::PartialList(_) => {
            return Err(wrong_form("PartialObjectMetadataList", "the requested object is not a list", object.kind()));
        }
        Form::Table(version) => {
            let rows = vec![row(strategy, object, ask.ctx.now, Include::of(ask)?, version)];
            let metadata = json!({"resourceVersion": object.resource_version()});
            table(strategy, version, metadata, rows, true)
        }
    };
    Ok(value_response(code, ask.negotiated, &value))
}

/// 406 for a form that does not go with one object or a list.
pub(crate) fn wrong_form(form: &str, why: &str, kind: &str) -> Status {
    Status::failure(406, reason::NOT_ACCEPTABLE, format!("you requested {form}, but {why} (*core.{kind})"))
}

/// A Table from its rows.
pub(crate) fn table(strategy: &dyn Strategy, version: &str, metadata: Value, rows: Vec<Value>, with_columns: bool) -> Value {
    let columns = if with_columns { strategy.columns().iter().map(column).collect() } else { Value::Null };
    json!({
        "kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata,
        "columnDefinitions": columns, "rows": rows,
    })
}

fn column(column: &crate::registry::Column) -> Value {
    json!({
        "name": column.name, "type": column.kind, "format": column.format,
        "description": column.description, "priority": column.priority,
    })
}

/// One row.
pub(crate) fn row(strategy: &dyn Strategy, object: &Object, now: jiff::Timestamp, include: Include, version: &str) -> Value {
    let shown = match include {
        Include::Metadata => partial(object, version),
        Include::None => Value::Null,
        Include::Object => object.value(),
    };
    let mut row = json!({"cells": strategy.cells(object, now), "object": shown});
    let conditions = strategy.row_conditions(object);
    if !conditions.is_empty() {
        row["conditions"] = conditions.into();
    }
    row
}

/// `metadata` of a list.
pub(crate) fn list_meta(revision: u64, continue_token: &str, remaining: Option<u64>) -> Value {
    let mut meta = Map::new();
    meta.insert("resourceVersion".into(), revision.to_string().into());
    if !continue_token.is_empty() {
        meta.insert("continue".into(), continue_token.into());
    }
    if let Some(remaining) = remaining.filter(|_| !continue_token.is_empty()) {
        meta.insert("remainingItemCount".into(), remaining.into());
    }
    Value::Object(meta)
}
