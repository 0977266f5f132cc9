//! The API server as its own client: strategies' hooks, admission plugins and the server's own loops read and write
//! through the same tower service as everybody else, in process, as `system:apiserver`. Never storage.

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
};

use apimachinery::{Object, status::Status};
use axum::body::Body;
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio_util::{
    codec::{FramedRead, LinesCodec},
    io::StreamReader,
};
use tower::{ServiceExt, util::BoxCloneSyncService};

use crate::request::UserInfo;

/// The whole server as a tower service.
pub(crate) type Service = BoxCloneSyncService<Request<Body>, http::Response<Body>, Infallible>;

/// Marks a request that came in through [`Loopback`] and is authenticated already. Only in-process callers can set it.
#[derive(Clone, Debug)]
pub(crate) struct InProcess(pub(crate) UserInfo);

/// A cheap handle to the server's own API.
#[derive(Clone)]
pub(crate) struct Loopback {
    service: Arc<OnceLock<Service>>,
    user: Arc<UserInfo>,
}

impl Default for Loopback {
    fn default() -> Self {
        Self { service: Arc::default(), user: Arc::new(UserInfo::apiserver()) }
    }
}

/// One page of a list.
#[derive(Debug, Default)]
pub(crate) struct ObjectList {
    /// The objects, each with apiVersion and kind.
    pub(crate) items: Vec<Object>,
    /// The state the list shows; watch from here.
    pub(crate) resource_version: String,
}

impl Loopback {
    /// Connects the handle; requests before that answer 503. Later calls are ignored.
    pub(crate) fn connect(&self, service: Service) {
        // A second connection would be a second server in one process sharing a handle: keep the first.
        let _ = self.service.set(service);
    }

    /// A cluster-scoped resource, or a namespaced one across all namespaces: `api("apps/v1", "deployments")`.
    pub(crate) fn api(&self, group_version: &str, resource: &str) -> Api {
        let prefix = if group_version.contains('/') { "/apis" } else { "/api" };
        Api { loopback: self.clone(), base: format!("{prefix}/{group_version}"), namespace: String::new(), resource: resource.into() }
    }

    /// A resource in one namespace.
    pub(crate) fn namespaced(&self, group_version: &str, resource: &str, namespace: &str) -> Api {
        Api { namespace: format!("/namespaces/{namespace}"), ..self.api(group_version, resource) }
    }

    /// Sends one request.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Result<http::Response<Body>, Status> {
        let service = self.service.get().cloned().ok_or_else(|| Status::service_unavailable("the API server is starting"))?;
        request.extensions_mut().insert(InProcess((*self.user).clone()));
        request.headers_mut().entry(header::USER_AGENT).or_insert(header::HeaderValue::from_static("kube-apiserver"));
        match service.oneshot(request).await {
            Ok(response) => Ok(response),
            Err(never) => match never {},
        }
    }

    async fn call(&self, method: Method, url: &str, content_type: &str, body: Option<&Value>) -> Result<Value, Status> {
        let body = body.map_or_else(Body::empty, |b| Body::from(b.to_string()));
        let request = Request::builder().method(method).uri(url).header(header::CONTENT_TYPE, content_type).body(body);
        let request = request.map_err(|e| Status::internal(format!("building a request for {url}: {e}")))?;
        let response = self.send(request).await?;
        let code = response.status();
        let bytes = response.into_body().collect().await.map_err(|e| Status::internal(e.to_string()))?.to_bytes();
        decode(code, &bytes)
    }
}

fn decode(code: StatusCode, bytes: &Bytes) -> Result<Value, Status> {
    let value: Value = serde_json::from_slice(bytes).map_err(|e| Status::internal(format!("decoding an answer ({code}): {e}")))?;
    if code.is_success() {
        return Ok(value);
    }
    Err(serde_json::from_value(value).unwrap_or_else(|e| Status::internal(format!("decoding a status ({code}): {e}"))))
}

fn object(value: Value) -> Result<Object, Status> {
    Object::from_value(value).map_err(|_| Status::internal("the answer is no object"))
}

/// One resource seen through the loopback.
#[derive(Clone)]
pub(crate) struct Api {
    loopback: Loopback,
    base: String,
    namespace: String,
    resource: String,
}

const JSON: &str = "application/json";

impl Api {
    /// Reads one object.
    pub(crate) async fn get(&self, name: &str) -> Result<Object, Status> {
        object(self.loopback.call(Method::GET, &self.url(name, ""), JSON, None).await?)
    }

    /// Reads one object, `None` where there is none.
    pub(crate) async fn get_opt(&self, name: &str) -> Result<Option<Object>, Status> {
        match self.get(name).await {
            Ok(found) => Ok(Some(found)),
            Err(status) if status.code == 404 => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Reads one object as the watch cache has it, which may be a little old; `None` where it has none.
    pub(crate) async fn get_cached(&self, name: &str) -> Result<Option<Object>, Status> {
        match self.loopback.call(Method::GET, &self.url(name, "resourceVersion=0"), JSON, None).await {
            Ok(found) => object(found).map(Some),
            Err(status) if status.code == 404 => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Lists, with a raw query such as `labelSelector=a%3Db&limit=500`.
    pub(crate) async fn list(&self, query: &str) -> Result<ObjectList, Status> {
        let mut list = self.loopback.call(Method::GET, &self.url("", query), JSON, None).await?;
        let text = |v: &Value, p: &str| v.pointer(p).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&list, "/apiVersion"), text(&list, "/kind"));
        let items = match list.pointer_mut("/items").map(Value::take) {
            Some(Value::Array(items)) => items.into_iter().map(object).collect::<Result<Vec<_>, _>>()?,
            _ => Vec::new(),
        };
        let items = items.into_iter().map(|o| named(o, &api_version, kind.trim_end_matches("List"))).collect();
        Ok(ObjectList { items, resource_version: text(&list, "/metadata/resourceVersion") })
    }

    /// Creates an object.
    pub(crate) async fn create(&self, obj: &Object) -> Result<Object, Status> {
        object(self.loopback.call(Method::POST, &self.url("", ""), JSON, Some(&obj.value())).await?)
    }

    /// Replaces an object.
    pub(crate) async fn update(&self, obj: &Object) -> Result<Object, Status> {
        object(self.loopback.call(Method::PUT, &self.url(obj.name(), ""), JSON, Some(&obj.value())).await?)
    }

    /// Replaces an object's subresource, e.g. `status`.
    pub(crate) async fn update_sub(&self, sub: &str, obj: &Object) -> Result<Object, Status> {
        let url = self.url(&format!("{}/{sub}", obj.name()), "");
        object(self.loopback.call(Method::PUT, &url, JSON, Some(&obj.value())).await?)
    }

    /// Merge-patches an object, or below it: `merge_patch("a/status", …)`.
    pub(crate) async fn merge_patch(&self, name: &str, patch: &Value) -> Result<Object, Status> {
        let kind = "application/merge-patch+json";
        object(self.loopback.call(Method::PATCH, &self.url(name, ""), kind, Some(patch)).await?)
    }

    /// Deletes an object with DeleteOptions (may be `{}`).
    pub(crate) async fn delete(&self, name: &str, options: &Value) -> Result<(), Status> {
        self.loopback.call(Method::DELETE, &self.url(name, ""), JSON, Some(options)).await.map(drop)
    }

    /// Deletes everything there is, in one namespace or, of a cluster-scoped resource, in all.
    pub(crate) async fn delete_all(&self) -> Result<(), Status> {
        self.loopback.call(Method::DELETE, &self.url("", ""), JSON, None).await.map(drop)
    }

    /// Watches from a list's resourceVersion: (ADDED | MODIFIED | DELETED | BOOKMARK, object). Ends when the server
    /// ends it, with an error where the history is gone; list again then.
    pub(crate) async fn watch(
        &self,
        query: &str,
        resource_version: &str,
    ) -> Result<impl Stream<Item = Result<(String, Object), Status>> + Send + use<>, Status> {
        let query = format!("{query}&watch=true&allowWatchBookmarks=true&resourceVersion={resource_version}");
        let request = Request::get(self.url("", query.trim_start_matches('&'))).body(Body::empty());
        let request = request.map_err(|e| Status::internal(format!("building a watch: {e}")))?;
        let response = self.loopback.send(request).await?;
        if !response.status().is_success() {
            let code = response.status();
            let bytes = response.into_body().collect().await.map_err(|e| Status::internal(e.to_string()))?.to_bytes();
            return Err(decode(code, &bytes).err().unwrap_or_else(|| Status::internal("watch refused")));
        }
        let bytes = TryStreamExt::map_err(response.into_body().into_data_stream(), std::io::Error::other);
        let lines = FramedRead::new(StreamReader::new(Box::pin(bytes)), LinesCodec::new());
        Ok(lines.map(|line| event(&line.map_err(|e| Status::internal(format!("watch broke: {e}")))?)))
    }

    fn url(&self, name: &str, query: &str) -> String {
        let slash = if name.is_empty() { "" } else { "/" };
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{}{}/{}{slash}{}{mark}{query}", self.base, self.namespace, self.resource, escape(name))
    }
}

fn escape(name: &str) -> String {
    use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
    const SET: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'?').add(b'#');
    utf8_percent_encode(name, SET).to_string()
}

fn named(mut obj: Object, api_version: &str, kind: &str) -> Object {
    obj.0.entry("apiVersion").or_insert_with(|| api_version.into());
    obj.0.entry("kind").or_insert_with(|| kind.into());
    obj
}

fn event(line: &str) -> Result<(String, Object), Status> {
    let mut event: Value = serde_json::from_str(line).map_err(|e| Status::internal(format!("decoding an event: {e}")))?;
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let inner = event.get_mut("object").map(Value::take).unwrap_or_default();
    if kind == "ERROR" {
        return Err(serde_json::from_value(inner).unwrap_or_else(|_| Status::internal("watch ended with an unknown error")));
    }
    Ok((kind, object(inner)?))
}
