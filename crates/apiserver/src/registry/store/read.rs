//! Get, list and watch: straight from storage.

use apimachinery::{Object, status::Status};
use futures::{StreamExt as _, future::ready, stream};

use super::Store;
use crate::{
    request::RequestContext,
    storage::{Entry, Error, Freshness, List, ListOptions, Scope, Verb, WatchOptions, WatchStream},
};

impl Store {
    /// One object as stored.
    pub(crate) async fn get(&self, ctx: &RequestContext, name: &str, freshness: Freshness) -> Result<Entry, Status> {
        let found = self.storage.get(&self.key(ctx, name), freshness).await;
        found.map_err(|e| self.failed(e, Verb::Get, name))
    }

    /// One object in the served version.
    pub(crate) async fn get_object(&self, ctx: &RequestContext, name: &str) -> Result<Object, Status> {
        self.present(&self.get(ctx, name, Freshness::Latest).await?)
    }

    /// A page of objects.
    pub(crate) async fn list(&self, ctx: &RequestContext, options: ListOptions) -> Result<List, Status> {
        let listed = self.storage.list(&self.scope(ctx), options).await;
        listed.map_err(|e| self.failed(e, Verb::List, ""))
    }

    /// Follows objects. A version that is too old or too new is told by the watch itself, as its only event.
    pub(crate) async fn watch(&self, ctx: &RequestContext, options: WatchOptions) -> Result<WatchStream, Status> {
        match self.storage.watch(&self.scope(ctx), options).await {
            Err(error @ (Error::Compacted { .. } | Error::FutureRevision { .. })) => Ok(stream::once(ready(Err(error))).boxed()),
            watch => watch.map_err(|e| self.failed(e, Verb::Watch, "")),
        }
    }

    /// Whether stored bytes may be answered as they are.
    pub(crate) fn bytes_as_stored(&self) -> bool {
        let resource = &self.served.resource;
        resource.conversion.is_none() && resource.stored == resource.gvk() && !resource.strategy.decorates()
    }

    fn scope(&self, ctx: &RequestContext) -> Scope {
        let namespace = ctx.namespace();
        if self.served.resource.namespaced && !namespace.is_empty() { Scope::namespace(namespace) } else { Scope::all() }
    }
}
