//! GET of a collection: cached bytes strung together, or rows, or metadata.

use std::num::{IntErrorKind, ParseIntError};

use apimachinery::{go::quote, selector, status::Status};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::{
    Ask, options,
    pieces::{self, Piece},
    rows,
    shape::{Include, list_meta, row, table, wrong_form},
};
use crate::{
    negotiate::{Form, Format, bytes_response, partial, value_response},
    protobuf,
    registry::store::Store,
    storage::{Freshness, List, ListOptions, Predicate, Revision},
};

pub(super) async fn serve(ask: Ask) -> Result<Response, Status> {
    let store = ask.store()?;
    let options = list_options(&ask)?;
    let list = store.list(&ask.ctx, options).await?;
    render(&ask, &store, &list)
}

/// What the query asks of storage.
pub(super) fn list_options(ask: &Ask) -> Result<ListOptions, Status> {
    let query = options::list(&ask.query, false)?;
    if !query.continue_token.is_empty() && !matches!(query.resource_version.as_str(), "" | "0") {
        return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
    }
    // What is at hand is answered whole, as upstream's cache does.
    let limit = if query.resource_version == "0" { 0 } else { query.limit };
    let freshness = freshness(&query.resource_version, &query.version_match, limit);
    Ok(ListOptions {
        freshness: freshness.map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?,
        limit,
        continue_token: query.continue_token,
        predicate: predicate(ask)?,
    })
}

/// A whole answer from a page of objects.
pub(super) fn render(ask: &Ask, store: &Store, list: &List) -> Result<Response, Status> {
    let mut meta = list_meta(list.revision, &list.continue_token, list.remaining);
    let negotiated = ask.negotiated;
    if negotiated.form == Form::Object && ask.served.resource.is_custom() && list.continue_token.is_empty() {
        // Lists without a Go type name the token they do not have.
        meta["continue"] = "".into();
    }
    let resource = &ask.served.resource;
    if negotiated.takes_bytes() {
        let (kind, own) = (resource.list_kind.as_str(), resource.api_version());
        let (piece, kind, api_version) = match negotiated.form {
            Form::Table(version) => return Ok(bytes_response(StatusCode::OK, negotiated, rows::bytes(ask, store, list, meta, version)?)),
            Form::Object if resource.is_custom() => (Some(Piece::Typed), kind, own),
            Form::Object => (Some(Piece::Item), kind, own),
            Form::PartialList(version) => (Some(Piece::Metadata(version)), "PartialObjectMetadataList", format!("meta.k8s.io/{version}")),
            Form::Partial(_) => (None, kind, own),
        };
        if let Some(piece) = piece.filter(|_| store.bytes_as_stored()) {
            let head = format!(r#"{{"kind":{kind:?},"apiVersion":{api_version:?},"metadata":{meta},"items":["#);
            let mut response = bytes_response(StatusCode::OK, negotiated, Bytes::new());
            *response.body_mut() = pieces::body(head, piece, list.items.clone());
            return Ok(response);
        }
    }
    let objects = || list.items.iter().map(|entry| store.present(entry));
    let value = match negotiated.form {
        Form::Object if negotiated.format == Format::Protobuf => {
            let head = json!({"kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": meta});
            return Ok(bytes_response(StatusCode::OK, negotiated, protobuf::encode_list(&head, objects())?.into()));
        }
        Form::Object => {
            let typed = resource.is_custom();
            let items = objects().map(|o| o.map(|o| item(o, typed))).collect::<Result<Vec<_>, _>>()?;
            json!({"kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": meta, "items": items})
        }
        Form::PartialList(version) => {
            let items = objects().map(|o| o.map(|o| partial(&o, version))).collect::<Result<Vec<_>, _>>()?;
            json!({"kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": meta, "items": items})
        }
        Form::Table(version) => {
            let (strategy, include) = (&*resource.strategy, Include::of(ask)?);
            let rows = objects().map(|o| o.map(|o| row(strategy, &o, ask.ctx.now, include, version))).collect::<Result<Vec<_>, _>>()?;
            table(strategy, version, meta, rows, true)
        }
        Form::Partial(_) => return Err(wrong_form("PartialObjectMetadata", "the requested object is a list", &resource.list_kind)),
    };
    Ok(value_response(StatusCode::OK, negotiated, &value))
}

/// An item of a list: built-in kinds leave their type out.
fn item(mut object: apimachinery::Object, typed: bool) -> Value {
    if !typed {
        object.0.remove("kind");
        object.0.remove("apiVersion");
    }
    object.into_value()
}

/// How fresh `resourceVersion` and `resourceVersionMatch` want a read. The first page of a list is of exactly the version asked
/// for, where nothing else is said: the other pages have to go with it. Errors: why something is no version.
pub(super) fn freshness(version: &str, version_match: &str, limit: u64) -> Result<Freshness, String> {
    Ok(match (version, version_match) {
        ("", _) => Freshness::Latest,
        ("0", _) => Freshness::Any,
        (version, "Exact") => Freshness::Exact(revision(version)?),
        (version, "") if limit > 0 => Freshness::Exact(revision(version)?),
        (version, _) => Freshness::NotOlderThan(revision(version)?),
    })
}

/// A resourceVersion as a number; else why it is none, in upstream's words.
pub(super) fn revision(version: &str) -> Result<Revision, String> {
    let number = if version.starts_with('+') { "".parse() } else { version.parse() };
    number.map_err(|error: ParseIntError| {
        let why = if *error.kind() == IntErrorKind::PosOverflow { "value out of range" } else { "invalid syntax" };
        let shown = quote(version);
        format!("resourceVersion: Invalid value: {shown}: strconv.ParseUint: parsing {shown}: {why}")
    })
}

/// Upstream answers so wherever it does not expect that reading a version may fail.
pub(super) fn unexpected(why: String) -> Status {
    Status::failure(500, "", why)
}

/// The query's selectors. Errors: 400 for what cannot be parsed or selected on.
pub(super) fn predicate(ask: &Ask) -> Result<Predicate, Status> {
    let labels = ask.query("labelSelector").unwrap_or_default();
    let labels = selector::label::Selector::parse(labels).map_err(|e| Status::bad_request(e.to_string()))?;
    let fields = ask.query("fieldSelector").unwrap_or_default();
    let fields = selector::field::Selector::parse(fields).map_err(|e| Status::bad_request(e.to_string()))?;
    let strategy = &ask.served.resource.strategy;
    let known = strategy.field_labels();
    let mut requirements = fields.requirements().to_vec();
    for requirement in &mut requirements {
        let field = requirement.field.as_str();
        if matches!(field, "metadata.name" | "metadata.namespace") {
            continue;
        }
        if !known.iter().any(|k| k == field) {
            return Err(Status::bad_request(unknown_field(ask, field)));
        }
        requirement.field = strategy.stored_field(field);
    }
    Ok(Predicate { labels, fields: selector::field::Selector::new(requirements) })
}

fn unknown_field(ask: &Ask, field: &str) -> String {
    let resource = &ask.served.resource;
    if !resource.is_custom() && resource.strategy.field_labels().is_empty() {
        return format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
    }
    format!("field label not supported: {field}")
}
