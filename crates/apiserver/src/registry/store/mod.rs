//! The generic flow of every stored resource: admission, the strategy's rules, storage. Upstream's `registry.Store`.

mod create;
mod delete;
mod gc;
mod read;
mod update;
mod versions;

use std::sync::{Arc, atomic::AtomicBool};

use apimachinery::{
    Object,
    apply::{self, FieldSet},
    gvk::GroupResource,
    status::Status,
};
use arc_swap::ArcSwap;
use serde_json::Value;

pub(crate) use delete::Deleted;
pub(crate) use update::{Change, View};
pub(crate) use versions::OtherVersions;

use super::{
    Strategy, Wiring,
    catalog::{Catalog, Served},
};
use crate::{
    admission::{Attributes, Chain, Operation},
    loopback::Loopback,
    request::RequestContext,
    storage::{self, Backend, Collection, Entry, Key, SelectableFields, Storage, Verb},
};

/// What all resources share.
pub(crate) struct Hub {
    /// Everything served.
    pub(crate) catalog: ArcSwap<Catalog>,
    /// Whether custom resources may be missing from the catalog, because their definitions have not been read yet.
    pub(crate) incomplete: AtomicBool,
    backend: Arc<dyn Backend>,
    prefix: String,
    /// The enabled admission plugins.
    pub(crate) admission: Chain,
    /// The server's own API, for hooks.
    pub(crate) loopback: Loopback,
}

impl Hub {
    /// A hub with the built-in resources.
    pub(crate) fn new(backend: Arc<dyn Backend>, prefix: &str, wiring: &Wiring, admission: Chain, loopback: Loopback) -> Self {
        let catalog = ArcSwap::from_pointee(Catalog::builtin(&*backend, prefix, wiring));
        Self { catalog, incomplete: AtomicBool::new(false), backend, prefix: prefix.to_owned(), admission, loopback }
    }

    /// Opens storage for a resource that is not built in, under `place` below the prefix of all keys.
    pub(crate) fn open(&self, resource: GroupResource, place: &str, fields: SelectableFields) -> Arc<dyn Storage> {
        self.backend.open(Collection::new(resource, format!("{}/{place}", self.prefix)).with_fields(fields))
    }

    /// The store of one served resource; `None` where it is computed.
    pub(crate) fn store(self: &Arc<Self>, served: &Arc<Served>) -> Option<Store> {
        let storage = served.storage.clone()?;
        Some(Store { hub: self.clone(), served: served.clone(), storage })
    }
}

/// One resource's objects under all rules.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) hub: Arc<Hub>,
    pub(crate) served: Arc<Served>,
    storage: Arc<dyn Storage>,
}

impl Store {
    fn key(&self, ctx: &RequestContext, name: &str) -> Key {
        Key::new(if self.served.resource.namespaced { ctx.namespace() } else { "" }, name)
    }

    fn failed(&self, error: storage::Error, verb: Verb, name: &str) -> Status {
        error.into_status(verb, &self.served.resource.group_resource(), name)
    }

    fn attributes(&self, ctx: &RequestContext, operation: Operation, name: &str, options: &Value) -> Attributes {
        Attributes {
            resource: self.served.resource.clone(),
            subresource: ctx.info.subresource.clone(),
            operation,
            namespace: ctx.namespace().to_owned(),
            name: name.to_owned(),
            object: None,
            old_object: None,
            options: options.clone(),
        }
    }

    /// A stored object in the served version.
    pub(crate) fn present(&self, entry: &Entry) -> Result<Object, Status> {
        let resource = &self.served.resource;
        let mut object = entry.object();
        if let Some(conversion) = &resource.conversion {
            object = conversion.to_served(object)?;
        }
        resource.strategy.decorate(&mut object);
        Ok(object)
    }

    /// An object in the version it is stored in.
    fn to_stored(&self, mut object: Object) -> Result<Object, Status> {
        let resource = &self.served.resource;
        if let Some(conversion) = &resource.conversion {
            object = conversion.to_stored(object)?;
        }
        object.set_gvk(&resource.stored);
        Ok(object)
    }

    /// The form in which the object is stored and answered.
    fn canonicalize(&self, strategy: &dyn Strategy, object: &mut Object) {
        strategy.canonicalize(object);
        let mut value = std::mem::take(object).into_value();
        self.served.schema.fold_empty_lists(&mut value);
        *object = Object::from_value(value).unwrap_or_default();
    }

    /// Attributes what changed to the request's field manager.
    fn attribute(&self, ctx: &RequestContext, view: &View, old: &Object, obj: &mut Object) {
        let context = apply::Context {
            schema: &self.served.schema,
            gvk: &self.served.resource.gvk(),
            subresource: &ctx.info.subresource,
            ignored: &self.served.ignored(view),
            now: ctx.now,
            versions: Some(&OtherVersions { hub: &self.hub, served: &self.served }),
        };
        apply::update(old, obj, &ctx.field_manager, &context);
    }

    fn invalid(&self, name: &str, errors: apimachinery::field::ErrorList) -> Status {
        Status::invalid(&self.served.resource.group_kind(), name, errors)
    }
}

impl Served {
    /// The fields a write of the view leaves alone, whoever asks.
    pub(crate) fn ignored(&self, view: &View) -> FieldSet {
        match view {
            View::Status if self.resource.is_custom() => FieldSet::of(["metadata", "spec"]),
            View::Status => {
                let fields = self.schema.fields().iter().map(|field| field.name.as_str());
                let fields = fields.filter(|name| !matches!(*name, "apiVersion" | "kind" | "metadata" | "status"));
                FieldSet::of(fields.chain(self.resource.strategy.kept_by_status().iter().copied()))
            }
            View::Main => {
                let status = self.resource.has_status().then_some("status");
                FieldSet::of(status.into_iter().chain(self.resource.strategy.unmanaged_fields().iter().copied()))
            }
            View::Other(_) => FieldSet::default(),
        }
    }
}

/// Puts the request's namespace into the object, or refuses another one.
pub(crate) fn match_namespace(namespaced: bool, request: &str, object: &mut Object) -> Result<(), Status> {
    match (namespaced, object.namespace()) {
        (true, "") => object.set_namespace(request),
        (true, own) if own != request => {
            return Err(Status::bad_request("the namespace of the provided object does not match the namespace sent on the request"));
        }
        (false, own) if !own.is_empty() => {
            return Err(Status::bad_request("namespace may not be set on a cluster-scoped object"));
        }
        _ => {}
    }
    Ok(())
}
