//! Where an informer lists and watches.

use std::fmt;

use async_trait::async_trait;
use futures::{AsyncBufReadExt as _, Stream, StreamExt as _, TryStreamExt as _, stream::BoxStream};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, ListParams, ObjectList, Request, WatchEvent, WatchParams},
    core::PartialObjectMeta,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// The events of one watch request, in order.
pub type WatchStream<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

/// One listable and watchable collection.
#[async_trait]
pub trait Source<K: Clone>: Send + Sync + 'static {
    /// One page of the collection, or all of it when `params` sets no limit.
    async fn list(&self, params: &ListParams) -> kube::Result<ObjectList<K>>;
    /// The changes after `version`.
    async fn watch(&self, params: &WatchParams, version: &str) -> kube::Result<WatchStream<K>>;
}

#[async_trait]
impl<K> Source<K> for Api<K>
where
    K: Resource + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
{
    async fn list(&self, params: &ListParams) -> kube::Result<ObjectList<K>> {
        Api::list(self, params).await
    }

    async fn watch(&self, params: &WatchParams, version: &str) -> kube::Result<WatchStream<K>> {
        let request = Request::new(self.resource_url()).watch(params, version).map_err(kube::Error::BuildRequest)?;
        let lines = lines(&self.clone().into_client(), request).await?;
        Ok(lines.map(|line| line.and_then(|line| typed(&line))).boxed())
    }
}

/// One line of a watch, its object unread: read together with the line an object has to be kept until its type is known, for
/// which serde compiles a second decoder of every kind into every program.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    event: String,
    object: Box<RawValue>,
}

/// The lines of one watch request.
async fn lines(client: &Client, mut request: http::Request<Vec<u8>>) -> kube::Result<impl Stream<Item = kube::Result<String>> + use<>> {
    request.extensions_mut().insert("watch");
    // Compressed, the events would arrive in blocks.
    request.headers_mut().insert(http::header::ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
    let lines = client.request_stream(request).await?.lines();
    Ok(lines.map_err(kube::Error::ReadEvents))
}

fn typed<K: DeserializeOwned>(line: &str) -> kube::Result<WatchEvent<K>> {
    let line: Line = read(line)?;
    let object = line.object.get();
    Ok(match line.event.as_str() {
        "ADDED" => WatchEvent::Added(read(object)?),
        "MODIFIED" => WatchEvent::Modified(read(object)?),
        "DELETED" => WatchEvent::Deleted(read(object)?),
        "BOOKMARK" => WatchEvent::Bookmark(read(object)?),
        "ERROR" => WatchEvent::Error(Box::new(read(object)?)),
        other => return Err(kube::Error::SerdeError(serde::de::Error::custom(format!("unknown watch event {other:?}")))),
    })
}

fn read<T: DeserializeOwned>(text: &str) -> kube::Result<T> {
    serde_json::from_str(text).map_err(kube::Error::SerdeError)
}

/// A collection of any kind of which only metadata is asked for.
#[derive(Clone, Debug)]
pub struct MetadataSource(pub Api<DynamicObject>);

#[async_trait]
impl Source<PartialObjectMeta<DynamicObject>> for MetadataSource {
    async fn list(&self, params: &ListParams) -> kube::Result<ObjectList<PartialObjectMeta<DynamicObject>>> {
        self.0.list_metadata(params).await
    }

    async fn watch(&self, params: &WatchParams, version: &str) -> kube::Result<WatchStream<PartialObjectMeta<DynamicObject>>> {
        Ok(self.0.watch_metadata(params, version).await?.into_stream().boxed())
    }
}

/// A [`Source`] narrowed by selectors.
#[derive(Clone, Debug)]
pub struct Selected<S> {
    /// What is narrowed.
    pub source: S,
    /// Label selector, empty for all.
    pub labels: String,
    /// Field selector, empty for all.
    pub fields: String,
}

#[async_trait]
impl<K, S> Source<K> for Selected<S>
where
    S: Source<K>,
    K: Clone + 'static,
{
    async fn list(&self, params: &ListParams) -> kube::Result<ObjectList<K>> {
        let params = params.clone();
        let params = if self.labels.is_empty() { params } else { params.labels(&self.labels) };
        let params = if self.fields.is_empty() { params } else { params.fields(&self.fields) };
        self.source.list(&params).await
    }

    async fn watch(&self, params: &WatchParams, version: &str) -> kube::Result<WatchStream<K>> {
        let params = params.clone();
        let params = if self.labels.is_empty() { params } else { params.labels(&self.labels) };
        let params = if self.fields.is_empty() { params } else { params.fields(&self.fields) };
        self.source.watch(&params, version).await
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn an_object_that_cannot_be_read_is_an_error_of_its_event_alone() {
        let unread = typed::<ConfigMap>(r#"{"type":"ADDED","object":{"metadata":{"name":7}}}"#);
        assert!(matches!(unread, Err(kube::Error::SerdeError(_))));
        let unknown = typed::<ConfigMap>(r#"{"type":"RENAMED","object":{}}"#);
        // What kube writes before the cause is kube's, and changes with its versions.
        let Err(kube::Error::SerdeError(cause)) = unknown else { panic!("a watch event of an unknown type was read") };
        assert_eq!(cause.to_string(), r#"unknown watch event "RENAMED""#);
    }

    #[test]
    fn an_event_may_come_before_or_after_its_object() {
        for line in
            [r#"{"type":"MODIFIED","object":{"metadata":{"name":"a"}}}"#, r#"{"object":{"metadata":{"name":"a"}},"type":"MODIFIED"}"#]
        {
            let Ok(WatchEvent::Modified(read)) = typed::<ConfigMap>(line) else { panic!("a change: {line}") };
            assert_eq!(read.metadata.name.as_deref(), Some("a"));
        }
    }

    #[test]
    fn bookmarks_and_errors_are_told_apart() {
        let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}"#;
        let Ok(WatchEvent::Bookmark(read)) = typed::<ConfigMap>(bookmark) else { panic!("a bookmark") };
        assert_eq!(read.metadata.resource_version, "7");
        let expired = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}}"#;
        let Ok(WatchEvent::Error(status)) = typed::<ConfigMap>(expired) else { panic!("an error") };
        assert_eq!((status.reason.as_str(), status.code), ("Expired", 410));
    }
}
