//! Where an informer lists and watches.

use std::fmt;

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use kube::{
    Api, Resource,
    api::{DynamicObject, ListParams, ObjectList, WatchEvent, WatchParams},
    core::PartialObjectMeta,
};
use serde::de::DeserializeOwned;

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
        Ok(Api::watch(self, params, version).await?.into_stream().boxed())
    }
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
