//! Subresources and computed resources: views of the stored object, scale, and calls with answers of their own.

use std::sync::Arc;

use apimachinery::{
    apply::{self, Context, FieldSet},
    status::Status,
};
use axum::response::Response;
use http::Method;

use super::{Ask, get, options, patch, scale, update};
use crate::{
    admission::{Attributes, Operation},
    registry::{
        Answer, Backing, Call, Connect, SubresourceKind,
        codec::Expect,
        definition,
        store::{View, match_namespace},
    },
    schema,
};

pub(super) async fn serve(ask: Ask) -> Result<Response, Status> {
    let resource = ask.served.resource.clone();
    if let Backing::Call(connect) = &resource.backing {
        return call(ask, connect.clone(), Some((resource.gvk(), resource.definition.clone()))).await;
    }
    let Some(sub) = resource.subresource(&ask.ctx.info.subresource).cloned() else { return Err(Status::not_found_path()) };
    match sub.serve {
        SubresourceKind::Status => view(ask, View::Status).await,
        SubresourceKind::View(strategy) => view(ask, View::Other(strategy)).await,
        SubresourceKind::Scale(paths) => scale::serve(ask, paths).await,
        SubresourceKind::Call(connect) => {
            let body = sub.kind.map(|gvk| (gvk.clone(), definition(&gvk.group, &gvk.version, &gvk.kind)));
            call(ask, connect, body).await
        }
    }
}

async fn view(ask: Ask, view: View) -> Result<Response, Status> {
    match ask.ctx.verb() {
        "get" => get::serve(ask).await,
        "update" => update::replace(ask, view).await,
        "patch" => patch::apply(ask, view).await,
        _ => Err(Status::method_not_allowed()),
    }
}

type BodyType = (apimachinery::gvk::GroupVersionKind, String);

async fn call(mut ask: Ask, connect: Arc<dyn Connect>, body: Option<BodyType>) -> Result<Response, Status> {
    let options = options::write(&ask.query, "CreateOptions", None)?;
    ask.ctx.dry_run = options.dry_run;
    let takes_body = matches!(ask.parts.method, Method::POST | Method::PUT) && !connect.raw();
    let operation = if takes_body { Operation::Create } else { Operation::Connect };
    let mut attributes = attributes(&ask, operation, options.value);
    if takes_body && let Some((gvk, definition)) = body {
        let schema = schema::builtin(&definition);
        let strategy = (ask.ctx.info.subresource.is_empty()).then(|| ask.served.resource.strategy.clone());
        let expect = Expect { gvk, schema: &schema, strategy: strategy.as_deref() };
        let mut object = ask.object(&expect).await?;
        connect.default(&mut object);
        if !ask.ctx.namespace().is_empty() {
            match_namespace(ask.served.resource.namespaced, ask.ctx.namespace(), &mut object)?;
        }
        let cx = Context {
            schema: &schema,
            gvk: &expect.gvk,
            subresource: &ask.ctx.info.subresource,
            ignored: &FieldSet::default(),
            now: ask.ctx.now,
            versions: None,
        };
        apply::update(&apply::empty(&cx), &mut object, &ask.ctx.field_manager, &cx);
        attributes.object = Some(object);
    }
    if takes_body || connect.raw() {
        ask.server.hub.admission.admit(&ask.ctx, &mut attributes).await?;
        ask.server.hub.admission.validate(&ask.ctx, &attributes).await?;
    }
    let stream = connect.raw().then(|| ask.take_body());
    let call = Call {
        method: ask.parts.method.clone(),
        query: ask.query.clone(),
        name: ask.ctx.info.name.clone(),
        body: attributes.object.take(),
        parts: std::mem::replace(&mut ask.parts, http::Request::new(()).into_parts().0),
        stream,
    };
    match connect.call(&ask.ctx, &ask.server.hub.loopback, call).await? {
        Answer::Object(code, object) => ask.answer(code, &object),
        Answer::Raw(response) => Ok(response),
    }
}

fn attributes(ask: &Ask, operation: Operation, options: serde_json::Value) -> Attributes {
    Attributes {
        resource: ask.served.resource.clone(),
        subresource: ask.ctx.info.subresource.clone(),
        operation,
        namespace: ask.ctx.namespace().to_owned(),
        name: ask.ctx.info.name.clone(),
        object: None,
        old_object: None,
        options,
    }
}
