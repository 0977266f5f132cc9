//! Where an informer lists and watches.

use std::fmt;

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, ListParams, ObjectList, Request, WatchEvent, WatchParams},
    core::PartialObjectMeta,
};
use serde::de::DeserializeOwned;
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
        let events = watch_raw(self.clone().into_client(), request).await?;
        Ok(events.map(|event| event.and_then(typed)).boxed())
    }
}

/// Events with their objects unread. Read together with its event an object may have to be kept until the type is known, for
/// which serde compiles a second decoder of every kind into every program.
async fn watch_raw(client: Client, mut request: http::Request<Vec<u8>>) -> kube::Result<WatchStream<Box<RawValue>>> {
    request.extensions_mut().insert("watch");
    Ok(client.request_events::<Box<RawValue>>(request).await?.boxed())
}

fn typed<K: DeserializeOwned>(event: WatchEvent<Box<RawValue>>) -> kube::Result<WatchEvent<K>> {
    let read = |object: Box<RawValue>| serde_json::from_str(object.get()).map_err(kube::Error::SerdeError);
    Ok(match event {
        WatchEvent::Added(object) => WatchEvent::Added(read(object)?),
        WatchEvent::Modified(object) => WatchEvent::Modified(read(object)?),
        WatchEvent::Deleted(object) => WatchEvent::Deleted(read(object)?),
        WatchEvent::Bookmark(bookmark) => WatchEvent::Bookmark(bookmark),
        WatchEvent::Error(status) => WatchEvent::Error(status),
    })
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

    fn event(text: &str) -> kube::Result<WatchEvent<ConfigMap>> {
        typed(serde_json::from_str(text).expect("an event"))
    }

    #[test]
    fn an_object_that_cannot_be_read_is_an_error_of_its_event_alone() {
        let unread = event(r#"{"type":"ADDED","object":{"metadata":{"name":7}}}"#);
        assert!(matches!(unread, Err(kube::Error::SerdeError(_))));
        let Ok(WatchEvent::Modified(read)) = event(r#"{"type":"MODIFIED","object":{"metadata":{"name":"a"}}}"#) else {
            panic!("a change");
        };
        assert_eq!(read.metadata.name.as_deref(), Some("a"));
    }
}
