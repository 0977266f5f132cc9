//! PATCH: JSON patch, merge patch, strategic merge patch; server-side apply is in `apply`.

use std::sync::Arc;

use apimachinery::{
    Object,
    field::{Error, Path},
    gvk::{GroupKind, GroupVersionKind},
    patch::{self, Patched, print},
    status::Status,
};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::{Ask, options, update::check_name};
use crate::{
    negotiate::media_type,
    registry::{
        catalog::Served,
        codec::{self, Expect, complain},
        definition,
        store::{Change, View},
    },
    request::RequestContext,
    schema::Definitions,
};

pub(super) async fn serve(ask: Ask) -> Result<Response, Status> {
    apply(ask, View::Main).await
}

/// PATCH of the object under one of its views.
pub(super) async fn apply(mut ask: Ask, view: View) -> Result<Response, Status> {
    if let Some(kind) = super::apply::body_kind(&ask) {
        return super::apply::serve(ask, kind, view).await;
    }
    let kind = Kind::of(&ask)?;
    let options = options::write(&ask.query, "PatchOptions", Some(false))?;
    ask.ctx.dry_run = options.dry_run;
    let patch = ask.body().await?;
    let name = ask.ctx.info.name.clone();
    let change = PatchObject { ctx: ask.ctx.clone(), served: ask.served.clone(), kind, patch };
    let (stored, created) = ask.store()?.update(&ask.ctx, &name, &change, &view, &options.value).await?;
    ask.answer(if created { StatusCode::CREATED } else { StatusCode::OK }, &stored)
}

/// The kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Merge,
    Strategic,
}

impl Kind {
    /// From the content type. Errors: 415; custom resources know no strategic merge.
    pub(super) fn of(ask: &Ask) -> Result<Self, Status> {
        let built_in = !ask.served.resource.is_custom();
        match media_type(ask.headers()).as_str() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if built_in => Ok(Self::Strategic),
            _ => {
                let patches = ["application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"];
                let patches = if built_in { &patches[..] } else { &patches[..2] };
                Err(Status::unsupported_media_type(&[patches, super::apply::media_types(ask.server.cbor)].concat()))
            }
        }
    }
}

/// Applies a patch to a document and reads the outcome by `expect`.
pub(super) fn patched(ctx: &RequestContext, expect: &Expect<'_>, kind: Kind, doc: &Value, patch: &Bytes) -> Result<Object, Status> {
    let Patched { value, patch, mut strict } = match kind {
        Kind::Json => patch::json::apply(doc, patch)?,
        Kind::Merge => patch::merge::apply(doc, patch)?,
        Kind::Strategic => patch::strategic::apply(doc, patch, expect.schema)?,
    };
    let shown = || match kind {
        Kind::Strategic => apimachinery::go::print(&patch),
        Kind::Json | Kind::Merge if !expect.schema.is_custom() => print(&value),
        Kind::Json | Kind::Merge => apimachinery::go::json(&value),
    };
    let refuse = |why: String| {
        let error = Error::invalid(&Path::new("patch"), shown(), why);
        Status::invalid(&GroupKind::new("", ""), "", vec![error])
    };
    check_type(expect, &value).map_err(refuse)?;
    let decoded = match kind {
        Kind::Strategic => expect.schema.convert_value(&value),
        Kind::Json | Kind::Merge => expect.schema.decode_value(&value),
    };
    let decoded = decoded.map_err(|e| refuse(e.to_string()))?;
    strict.extend(decoded.strict);
    complain(ctx, strict, |text| refuse(format!("strict decoding error: {text}")))?;
    Ok(codec::finish(expect, decoded.value))
}

/// Upstream reads the outcome as whatever it says it is; only then is it found to be of another kind.
fn check_type(expect: &Expect<'_>, value: &Value) -> Result<(), String> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let api_version = text("apiVersion").map_or_else(|| expect.gvk.api_version(), str::to_owned);
    let gvk = GroupVersionKind::from_api_version(&api_version, text("kind").unwrap_or(&expect.gvk.kind)).map_err(|e| e.to_string())?;
    if gvk == expect.gvk {
        return Ok(());
    }
    let Some(schema) = Definitions::builtin().get(&definition(&gvk.group, &gvk.version, &gvk.kind)) else {
        let scheme = "pkg/api/legacyscheme/scheme.go:30";
        return Err(format!("no kind {:?} is registered for version {api_version:?} in scheme {scheme:?}", gvk.kind));
    };
    schema.decode_value(value).map_err(|e| e.to_string())?;
    Err(codec::unregistered(expect, &api_version, &gvk.kind))
}

/// A patch of the stored object.
struct PatchObject {
    ctx: RequestContext,
    served: Arc<Served>,
    kind: Kind,
    patch: Bytes,
}

impl Change for PatchObject {
    fn apply(&self, current: Option<&Object>) -> Result<Object, Status> {
        let name = &self.ctx.info.name;
        let Some(current) = current else { return Err(Status::not_found(&self.served.resource.group_resource(), name)) };
        let mut object = patched(&self.ctx, &self.served.expect(), self.kind, &current.value(), &self.patch)?;
        check_name(&mut object, name)?;
        Ok(object)
    }
}
