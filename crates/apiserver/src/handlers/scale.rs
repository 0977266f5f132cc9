//! `/scale`: `autoscaling/v1 Scale` over the fields a scalable kind keeps.

use std::sync::Arc;

use apimachinery::{
    Object,
    apply::{self, FieldSet},
    field::{Error, Path},
    gvk::{GroupKind, GroupVersionKind},
    schema::Schema,
    selector::label,
    status::Status,
};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Ask, options, patch, shape, update::check_name};
use crate::{
    registry::{
        Column, ScalePaths, Strategy,
        codec::Expect,
        print::age,
        store::{Change, View},
    },
    request::RequestContext,
    schema,
};

const DEFINITION: &str = "io.k8s.api.autoscaling.v1.Scale";

fn gvk() -> GroupVersionKind {
    GroupVersionKind::new("autoscaling", "v1", "Scale")
}

pub(super) async fn serve(mut ask: Ask, paths: ScalePaths) -> Result<Response, Status> {
    let name = ask.ctx.info.name.clone();
    let schema = schema::builtin(DEFINITION);
    if ask.ctx.verb() == "get" {
        let object = ask.store()?.get_object(&ask.ctx, &name).await?;
        if ask.served.resource.is_custom() && object.pointer(&paths.spec_replicas).is_none() {
            let path = paths.spec_replicas.replace('/', ".");
            return Err(Status::internal(format!("the spec replicas field {path:?} does not exist")));
        }
        return answer(&ask, &object, &paths);
    }
    let patching = ask.ctx.verb() == "patch";
    let applied = super::apply::body_kind(&ask).filter(|_| patching);
    let of = if patching { "PatchOptions" } else { "UpdateOptions" };
    let options = options::write(&ask.query, of, patching.then_some(applied.is_some()))?;
    ask.ctx.dry_run = options.dry_run;
    let wish = if let Some(kind) = applied {
        let body = ask.body().await?;
        let config = super::apply::read(&ask.ctx, kind, &body)?;
        Wish::Apply {
            ctx: ask.ctx.clone(),
            config,
            force: options.value.get("force") == Some(&Value::Bool(true)),
            api_version: ask.served.resource.api_version(),
        }
    } else if patching {
        let kind = patch::Kind::of(&ask)?;
        Wish::Patch(ask.ctx.clone(), kind, ask.body().await?)
    } else {
        let mut scale = ask.object(&Expect { gvk: gvk(), schema: &schema, strategy: None }).await?;
        check_name(&mut scale, &name)?;
        Wish::Replace(scale)
    };
    let change = Rescale { paths: paths.clone(), schema, wish };
    let (object, _) = ask.store()?.update(&ask.ctx, &name, &change, &View::Main, &options.value).await?;
    answer(&ask, &object, &paths)
}

fn answer(ask: &Ask, object: &Object, paths: &ScalePaths) -> Result<Response, Status> {
    shape::one_by(ask, &Shown { custom: ask.served.resource.is_custom() }, StatusCode::OK, &scale_of(object, paths))
}

/// How a Scale looks in a Table. Upstream: the internal printers', and what custom resources have in their place.
struct Shown {
    custom: bool,
}

impl Strategy for Shown {
    fn columns(&self) -> Vec<Column> {
        let name = "Name must be unique within a namespace.";
        vec![
            if self.custom { Column::object_name(name) } else { Column::new("Name", "string", name) },
            Column::new("Desired", "integer", "Number of desired replicas"),
            Column::new("Available", "integer", "Number of replicas that there are"),
            Column::new("Age", if self.custom { "date" } else { "string" }, "Time since creation."),
        ]
    }

    fn cells(&self, scale: &Object, now: Timestamp) -> Vec<Value> {
        let count = |pointer| scale.pointer(pointer).cloned().unwrap_or_else(|| 0.into());
        vec![scale.name().into(), count("/spec/replicas"), count("/status/replicas"), age(scale, now)]
    }
}

/// The Scale an object shows.
fn scale_of(object: &Object, paths: &ScalePaths) -> Object {
    let mut scale = Object::new(&gvk());
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.meta().get(field) {
            scale.meta_mut().insert(field.into(), value.clone());
        }
    }
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    let replicas = number(&paths.spec_replicas);
    scale.0.insert("spec".into(), if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) });
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    if let Some(text) = paths.selector.as_ref().and_then(|p| object.pointer(p)).map(selector_text).filter(|t| !t.is_empty()) {
        status["selector"] = text.into();
    }
    scale.0.insert("status".into(), status);
    scale
}

/// A selector as text, whatever form the kind keeps it in.
fn selector_text(selector: &Value) -> String {
    match selector {
        Value::String(text) => text.clone(),
        Value::Object(map) if map.values().all(Value::is_string) => {
            map.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect::<Vec<_>>().join(",")
        }
        other => label::Selector::from_label_selector(other).map(|s| s.to_string()).unwrap_or_default(),
    }
}

enum Wish {
    Replace(Object),
    Patch(RequestContext, patch::Kind, Bytes),
    Apply { ctx: RequestContext, config: Value, force: bool, api_version: String },
}

/// A new number of replicas for the stored object.
struct Rescale {
    paths: ScalePaths,
    schema: Arc<Schema>,
    wish: Wish,
}

impl Rescale {
    fn wanted(&self, current: &Object) -> Result<Object, Status> {
        match &self.wish {
            Wish::Replace(scale) => Ok(scale.clone()),
            Wish::Patch(ctx, kind, bytes) => {
                let expect = Expect { gvk: gvk(), schema: &self.schema, strategy: None };
                let mut scale = patch::patched(ctx, &expect, *kind, &scale_of(current, &self.paths).value(), bytes)?;
                check_name(&mut scale, current.name())?;
                Ok(scale)
            }
            Wish::Apply { ctx, config, force, api_version } => {
                let context = apply::Context {
                    schema: &self.schema,
                    gvk: &gvk(),
                    subresource: "scale",
                    ignored: &FieldSet::default(),
                    now: ctx.now,
                    versions: None,
                };
                let mut scale = scale_of(current, &self.paths);
                apply::to_scale(current, &mut scale, api_version, &self.paths.spec_replicas);
                let mut scale = apply::apply(&scale, config, &ctx.field_manager, *force, &context)?;
                check_name(&mut scale, current.name())?;
                Ok(scale)
            }
        }
    }
}

impl Change for Rescale {
    fn apply(&self, current: Option<&Object>) -> Result<Object, Status> {
        let Some(current) = current else { return Err(Status::internal("a scale has no object")) };
        let scale = self.wanted(current)?;
        let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
        if replicas < 0 {
            let error = Error::invalid(&Path::new("spec").child("replicas"), replicas, "must be greater than or equal to 0");
            return Err(Status::invalid(&GroupKind::new("autoscaling", "Scale"), scale.name(), vec![error]));
        }
        let mut object = current.clone();
        set(&mut object, &self.paths.spec_replicas, replicas.into());
        // Without a version the scale overwrites whatever is stored.
        if !scale.resource_version().is_empty() {
            object.set_resource_version(scale.resource_version());
        }
        if let Wish::Apply { api_version, .. } = &self.wish {
            apply::from_scale(&mut object, &scale, api_version, &self.paths.spec_replicas);
        }
        Ok(object)
    }

    fn applies(&self) -> bool {
        matches!(self.wish, Wish::Apply { .. })
    }

    fn expected_uid(&self) -> Option<String> {
        match &self.wish {
            Wish::Replace(scale) if !scale.uid().is_empty() => Some(scale.uid().to_owned()),
            _ => None,
        }
    }
}

/// Sets a value at a pointer, making the objects on the way.
fn set(object: &mut Object, pointer: &str, value: Value) {
    let mut at = &mut object.0;
    let mut parts = pointer.trim_start_matches('/').split('/').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            at.insert(part.into(), value);
            return;
        }
        let next = at.entry(part).or_insert_with(|| json!({}));
        let Some(map) = next.as_object_mut() else { return };
        at = map;
    }
}
