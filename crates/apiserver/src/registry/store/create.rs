//! Create: mutating admission → system fields → strategy → validating admission → storage.

use apimachinery::{Object, status::Status};
use serde_json::Value;

use super::{Store, View, match_namespace};
use crate::{
    admission::Operation,
    registry::{meta, strategy::Finish},
    request::RequestContext,
    storage::{Entry, Error, Freshness, Verb},
};

/// How often a generated name that is taken is replaced by another.
const NAME_ATTEMPTS: usize = 8;

impl Store {
    /// Stores a decoded and defaulted object; answers it as stored.
    pub(crate) async fn create(&self, ctx: &RequestContext, obj: Object, options: &Value) -> Result<Object, Status> {
        let generated = obj.name().is_empty() && !obj.generate_name().is_empty();
        let attempts = if generated { NAME_ATTEMPTS } else { 1 };
        let mut last = String::new();
        for _ in 0..attempts {
            match self.create_once(ctx, obj.clone(), options).await {
                Err(status) if generated && status.is(apimachinery::status::reason::ALREADY_EXISTS) => {
                    last = status.details.map(|d| d.name).unwrap_or_default();
                }
                other => return other,
            }
        }
        Err(Status::generate_name_conflict(&self.served.resource.group_resource(), &last))
    }

    async fn create_once(&self, ctx: &RequestContext, obj: Object, options: &Value) -> Result<Object, Status> {
        let (obj, finish) = self.prepare_create(ctx, obj, options, true).await?;
        let stored = self.store_new(ctx, obj).await;
        if let Some(finish) = finish {
            finish(stored.is_ok()).await;
        }
        let object = stored?;
        if !ctx.dry_run {
            self.served.resource.strategy.after_create(ctx, &self.hub.loopback, &object).await;
        }
        Ok(object)
    }

    /// Everything before storage; also used where an update creates. `attribute`: whether the object's fields still need a manager.
    pub(super) async fn prepare_create(
        &self,
        ctx: &RequestContext,
        mut obj: Object,
        options: &Value,
        attribute: bool,
    ) -> Result<(Object, Finish), Status> {
        let resource = &self.served.resource;
        match_namespace(resource.namespaced, ctx.namespace(), &mut obj)?;
        if !resource.namespaced {
            obj.meta_mut().remove("namespace");
        }
        if resource.has_status() && !resource.strategy.keeps_status_on_create() {
            self.served.reset_status(&mut obj, None);
        }
        if attribute {
            meta::dedup_owners(&mut obj, false).into_iter().for_each(|w| ctx.warn(w));
            let nothing = Object::from_value(self.served.schema.zero()).unwrap_or_default();
            self.attribute(ctx, &View::Main, &nothing, &mut obj);
        }
        let mut attributes = self.attributes(ctx, Operation::Create, obj.name(), options);
        attributes.object = Some(obj);
        self.hub.admission.admit(ctx, &mut attributes).await?;
        let mut obj = attributes.object.take().unwrap_or_default();

        if !matches!(obj.resource_version(), "" | "0") {
            return Err(Status::internal("resourceVersion should not be set on objects to be created"));
        }
        obj.meta_mut().remove("resourceVersion");
        meta::dedup_owners(&mut obj, true).into_iter().for_each(|w| ctx.warn(w));
        meta::fill_system_fields(&mut obj, ctx.now);
        let finish = resource.strategy.begin_create(ctx, &self.hub.loopback, &mut obj).await?;
        let checked = self.check_new(ctx, &mut obj, attributes).await;
        match (checked, finish) {
            (Ok(()), finish) => Ok((obj, finish)),
            (Err(status), Some(finish)) => {
                finish(false).await;
                Err(status)
            }
            (Err(status), None) => Err(status),
        }
    }

    async fn check_new(&self, ctx: &RequestContext, obj: &mut Object, mut attributes: crate::admission::Attributes) -> Result<(), Status> {
        let (resource, strategy) = (&self.served.resource, &self.served.resource.strategy);
        if resource.has_status() && !strategy.keeps_status_on_create() {
            self.served.reset_status(obj, None);
        }
        obj.meta_mut().remove("generation");
        strategy.prepare_for_create(ctx, obj);
        meta::set_generation(strategy.generation(), obj, None);
        let mut errors = meta::validate(resource, obj);
        errors.extend(strategy.validate(ctx, obj));
        if !errors.is_empty() {
            return Err(self.invalid(obj.name(), errors));
        }
        strategy.warnings_on_create(ctx, obj).into_iter().for_each(|w| ctx.warn(w));
        self.canonicalize(&**strategy, obj);
        attributes.name = obj.name().to_owned();
        attributes.object = Some(obj.clone());
        self.hub.admission.validate(ctx, &attributes).await
    }

    async fn store_new(&self, ctx: &RequestContext, obj: Object) -> Result<Object, Status> {
        let key = self.key(ctx, obj.name());
        let name = obj.name().to_owned();
        let storage = &self.storage;
        let stored = self.to_stored(obj.clone())?;
        if ctx.dry_run {
            return match storage.get(&key, Freshness::Latest).await {
                Ok(entry) => Err(self.taken(&entry)),
                Err(Error::NotFound { .. }) => Ok(obj),
                Err(e) => Err(self.failed(e, Verb::Create, &name)),
            };
        }
        match storage.create(&key, stored, self.served.resource.strategy.ttl()).await {
            Ok(created) if self.bytes_as_stored() => {
                // It is at hand as it was stored; only its version is new.
                let mut object = obj;
                object.set_resource_version(&created.revision().to_string());
                Ok(object)
            }
            Ok(created) => self.present(&created),
            Err(error @ Error::Exists { .. }) => Err(match storage.get(&key, Freshness::Latest).await {
                Ok(entry) => self.taken(&entry),
                Err(_) => self.failed(error, Verb::Create, &name),
            }),
            Err(error) => Err(self.failed(error, Verb::Create, &name)),
        }
    }

    /// Refuses a name that another object has, which may be on its way out.
    fn taken(&self, by: &Entry) -> Status {
        let mut status = Status::already_exists(&self.served.resource.group_resource(), &by.key().name);
        if by.object().deletion_timestamp().is_some() {
            status.message = format!("object is being deleted: {}", status.message);
        }
        status
    }
}
