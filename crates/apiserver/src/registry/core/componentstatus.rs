//! Component statuses (deprecated): computed on each request. Only the store is asked; the other components' health
//! is theirs to tell.

use apimachinery::{Object, gvk::GroupResource, status::Status};
use async_trait::async_trait;
use axum::body::Body;
use http::{Request, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    loopback::Loopback,
    registry::{Answer, Call, Connect},
    request::RequestContext,
};

/// Serves get and list.
pub(crate) struct ComponentStatuses;

const STORE: &str = "etcd-0";

#[async_trait]
impl Connect for ComponentStatuses {
    async fn call(&self, ctx: &RequestContext, api: &Loopback, call: Call) -> Result<Answer, Status> {
        let name = if call.name.is_empty() { ctx.info.name.as_str() } else { &call.name };
        match (ctx.verb(), name) {
            ("list", _) => {
                let items = vec![store(api).await?];
                let list = json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items});
                Ok(Answer::Raw(plain(&list)))
            }
            (_, STORE) => Ok(Answer::Object(StatusCode::OK, Object::from_value(store(api).await?).unwrap_or_default())),
            (_, other) => Err(Status::not_found(&GroupResource::new("", "componentstatuses"), other)),
        }
    }
}

/// A list has no Table form here; clients print it themselves.
fn plain(value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

async fn store(api: &Loopback) -> Result<Value, Status> {
    let request = Request::get("/livez/etcd").body(Body::empty()).map_err(Status::internal)?;
    let healthy = api.send(request).await?.status().is_success();
    let condition = match healthy {
        true => json!({"type": "Healthy", "status": "True", "message": "ok"}),
        false => json!({"type": "Healthy", "status": "False", "message": "the store does not answer"}),
    };
    Ok(json!({"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": STORE}, "conditions": [condition]}))
}

/// The cells of one component.
pub(crate) const TABLE: crate::registry::small::Small = crate::registry::small::Small {
    columns: &[
        ("Status", "string", "Healthy, Unhealthy or Unknown.", |obj| match condition(obj, "status") {
            "True" => "Healthy".into(),
            "False" => "Unhealthy".into(),
            _ => "Unknown".into(),
        }),
        ("Message", "string", "What the component says.", |obj| condition(obj, "message").into()),
        ("Error", "string", "Why it could not be asked.", |obj| condition(obj, "error").into()),
    ],
    ..crate::registry::small::Small::PLAIN
};

fn condition<'a>(obj: &'a Object, field: &str) -> &'a str {
    obj.str_at(&format!("/conditions/0/{field}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unknown_components_are_not_found() {
        let mut ctx = RequestContext::for_tests();
        ctx.info.verb = "get";
        let (parts, ()) = Request::new(()).into_parts();
        let call = Call { method: http::Method::GET, query: Vec::new(), name: "x".into(), body: None, parts, stream: None };
        let refused = ComponentStatuses.call(&ctx, &Loopback::default(), call).await.err().unwrap();
        assert_eq!(refused.message, "componentstatuses \"x\" not found");
    }
}
