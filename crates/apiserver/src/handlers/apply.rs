//! PATCH as server-side apply.

use std::sync::Arc;

use apimachinery::{
    Object,
    apply::{self, FieldSet},
    raw,
    status::Status,
};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::{Ask, options, update::check_name};
use crate::{
    negotiate::{BodyKind, media_type},
    registry::{
        catalog::Served,
        codec::{self, complain},
        store::{Change, Hub, OtherVersions, View},
    },
    request::RequestContext,
};

/// The media types of configurations to apply, the second one where its feature is on; JSON is YAML too.
const MEDIA_TYPES: [&str; 2] = ["application/apply-patch+yaml", "application/apply-patch+cbor"];

/// The media types of configurations to apply.
pub(super) fn media_types(cbor: bool) -> &'static [&'static str] {
    if cbor { &MEDIA_TYPES } else { &MEDIA_TYPES[..1] }
}

/// How the configuration is encoded that a request asks to apply; `None` where it asks for something else.
pub(super) fn body_kind(ask: &Ask) -> Option<BodyKind> {
    let wanted = media_type(ask.headers());
    let at = media_types(ask.server.cbor).iter().position(|known| *known == wanted)?;
    Some([BodyKind::Yaml, BodyKind::Cbor][at])
}

/// Applies the body to the object under one of its views, creating it where there is none.
pub(super) async fn serve(mut ask: Ask, kind: BodyKind, view: View) -> Result<Response, Status> {
    let options = options::write(&ask.query, "PatchOptions", Some(true))?;
    ask.ctx.dry_run = options.dry_run;
    let body = ask.body().await?;
    let change = Apply {
        config: read(&ask.ctx, kind, &body)?,
        force: options.value.get("force") == Some(&Value::Bool(true)),
        ignored: ask.served.ignored(&view),
        ctx: ask.ctx.clone(),
        hub: ask.server.hub.clone(),
        served: ask.served.clone(),
    };
    let name = ask.ctx.info.name.clone();
    let (stored, created) = ask.store()?.update(&ask.ctx, &name, &change, &view, &options.value).await?;
    ask.answer(if created { StatusCode::CREATED } else { StatusCode::OK }, &stored)
}

/// Reads a configuration. Errors: 400, which speaks of YAML in any case, as upstream's does.
pub(super) fn read(ctx: &RequestContext, kind: BodyKind, body: &[u8]) -> Result<Value, Status> {
    let broken = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
    let (syntax, wrong) = match kind {
        BodyKind::Cbor => ("", "cbor: cannot unmarshal"),
        _ => ("error converting YAML to JSON: ", "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal"),
    };
    let node = codec::parse(kind, body).map_err(|why| broken(format!("{syntax}{why}")))?;
    if !matches!(node, raw::Node::Object(_) | raw::Node::Null) {
        return Err(broken(format!("{wrong} {} into Go value of type map[string]interface {{}}", node.type_name())));
    }
    let strict = raw::duplicates(&node).into_iter().map(|path| format!("duplicate field \"{path}\"")).collect();
    complain(ctx, strict, |text| Status::bad_request(format!("error strict decoding YAML: {text}")))?;
    Ok(if matches!(node, raw::Node::Null) { json!({}) } else { node.to_value() })
}

/// A configuration applied to the stored object.
struct Apply {
    ctx: RequestContext,
    hub: Arc<Hub>,
    served: Arc<Served>,
    config: Value,
    force: bool,
    ignored: FieldSet,
}

impl Change for Apply {
    fn apply(&self, current: Option<&Object>) -> Result<Object, Status> {
        let context = apply::Context {
            schema: &self.served.schema,
            gvk: &self.served.resource.gvk(),
            subresource: &self.ctx.info.subresource,
            ignored: &self.ignored,
            now: self.ctx.now,
            versions: Some(&OtherVersions { hub: &self.hub, served: &self.served }),
        };
        let live = current.cloned().unwrap_or_else(|| apply::empty(&context));
        let merged = apply::apply(&live, &self.config, &self.ctx.field_manager, self.force, &context)?;
        let decoded = self.served.schema.decode_value(&merged.value()).map_err(|error| Status::bad_request(error.to_string()))?;
        let mut object = codec::finish(&self.served.expect(), decoded.value);
        check_name(&mut object, &self.ctx.info.name)?;
        // An apply that changes nothing is no write, though its time would be another.
        match current {
            Some(current) if apply::same_but_for_times(current, &object) => Ok(current.clone()),
            _ => Ok(object),
        }
    }

    fn creates(&self) -> bool {
        true
    }

    fn applies(&self) -> bool {
        true
    }
}
