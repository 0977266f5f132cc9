//! Update and patch: read, change, mutating admission, strategy, validating admission, write; again where another writer came first.

use std::sync::Arc;

use apimachinery::{Object, apply, field, gvk::GroupKind, status::Status};
use futures::FutureExt;
use parking_lot::Mutex;
use serde_json::Value;

use super::{Store, match_namespace};
use crate::{
    admission::Operation,
    registry::{Strategy, meta, strategy::Finish},
    request::RequestContext,
    storage::{Entry, Error, Freshness, Preconditions, Update, UpdateOptions, Updated, Verb},
};

/// What a request wants of an object, computed anew on each attempt.
pub(crate) trait Change: Send + Sync {
    /// The object wanted, given the one that is there; `None` where there is none and the kind may be created by PUT.
    fn apply(&self, current: Option<&Object>) -> Result<Object, Status>;

    /// A uid the caller expects the object to have.
    fn expected_uid(&self) -> Option<String> {
        None
    }

    /// Whether an absent object may be created at all (PUT, apply).
    fn creates(&self) -> bool {
        false
    }

    /// Whether this is a server-side apply: it creates objects of any kind, and says itself who manages their fields.
    fn applies(&self) -> bool {
        false
    }
}

/// Which part of the object an update is about.
#[derive(Clone)]
pub(crate) enum View {
    /// The object itself.
    Main,
    /// `/status`.
    Status,
    /// Another subresource with rules of its own.
    Other(Arc<dyn Strategy>),
}

/// One attempt's inputs.
struct Attempt<'a> {
    ctx: &'a RequestContext,
    change: &'a dyn Change,
    view: &'a View,
    options: &'a Value,
    /// What the last attempt took, to be settled when the outcome is known.
    finish: &'a Mutex<Finish>,
    /// The object as the last attempt left it, where that means its removal.
    last: &'a Mutex<Object>,
}

impl Store {
    /// Changes the object `name`; answers it as stored, and whether it was created.
    pub(crate) async fn update(
        &self,
        ctx: &RequestContext,
        name: &str,
        change: &dyn Change,
        view: &View,
        options: &Value,
    ) -> Result<(Object, bool), Status> {
        let (finish, last) = (Mutex::new(None), Mutex::new(Object::default()));
        let attempt = Attempt { ctx, change, view, options, finish: &finish, last: &last };
        let outcome = if ctx.dry_run { self.rehearse(&attempt, name).await } else { self.write(&attempt, name).await };
        let last = finish.lock().take();
        if let Some(last) = last {
            last(outcome.is_ok()).await;
        }
        outcome
    }

    async fn write(&self, attempt: &Attempt<'_>, name: &str) -> Result<(Object, bool), Status> {
        let strategy = &self.served.resource.strategy;
        let options = UpdateOptions {
            preconditions: Preconditions { uid: attempt.change.expected_uid(), resource_version: None },
            ignore_not_found: self.may_create(attempt),
            hint: None,
        };
        let before: Mutex<Option<Object>> = Mutex::new(None);
        let mut updater = |entry: Option<Entry>| {
            let before = &before;
            async move {
                let old = entry.as_ref().map(|e| self.present(e)).transpose()?;
                before.lock().clone_from(&old);
                self.decide(attempt, name, old).await
            }
            .boxed()
        };
        let updated = self.storage.update(&self.key(attempt.ctx, name), options, &mut updater).await;
        let updated = updated.map_err(|e| self.failed(e, Verb::Update, name))?;
        let (created, removed) = (matches!(updated, Updated::Created(_)), matches!(updated, Updated::Removed(_)));
        let mut object = self.present(&updated.into_entry())?;
        if removed {
            let version = object.resource_version().to_owned();
            object = std::mem::take(&mut *attempt.last.lock());
            object.set_resource_version(&version);
        }
        let (ctx, api) = (attempt.ctx, &self.hub.loopback);
        match before.into_inner() {
            _ if removed => strategy.after_delete(ctx, api, &object).await,
            Some(old) => strategy.after_update(ctx, api, &object, &old).await,
            None => strategy.after_create(ctx, api, &object).await,
        }
        Ok((object, created))
    }

    fn may_create(&self, attempt: &Attempt<'_>) -> bool {
        let allowed = attempt.change.applies() || self.served.resource.strategy.allow_create_on_update();
        allowed && attempt.change.creates() && matches!(attempt.view, View::Main)
    }

    /// A dry run: everything but the write.
    async fn rehearse(&self, attempt: &Attempt<'_>, name: &str) -> Result<(Object, bool), Status> {
        let creates = self.may_create(attempt);
        let old = match self.storage.get(&self.key(attempt.ctx, name), Freshness::Latest).await {
            Ok(entry) => Some(self.present(&entry)?),
            Err(Error::NotFound { .. }) if creates => None,
            Err(e) => return Err(self.failed(e, Verb::Update, name)),
        };
        if let (Some(uid), Some(old)) = (attempt.change.expected_uid(), &old)
            && uid != old.uid()
        {
            let text = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", old.uid());
            return Err(Status::conflict(&self.served.resource.group_resource(), name, text));
        }
        let (created, version) = (old.is_none(), old.as_ref().map(|o| o.resource_version().to_owned()));
        match self.decide(attempt, name, old.clone()).await? {
            Update::Put { mut object, .. } => {
                object.set_gvk(&self.served.resource.gvk());
                object.set_resource_version(&version.unwrap_or_default());
                Ok((object, created))
            }
            Update::Remove => Ok((std::mem::take(&mut *attempt.last.lock()), false)),
        }
    }

    /// One attempt: what to do with the stored object.
    async fn decide(&self, attempt: &Attempt<'_>, name: &str, old: Option<Object>) -> Result<Update, Status> {
        let Attempt { ctx, change, options, .. } = attempt;
        let stale = attempt.finish.lock().take();
        if let Some(stale) = stale {
            stale(false).await;
        }
        let wanted = change.apply(old.as_ref())?;
        let Some(old) = old else { return self.decide_create(attempt, wanted).await };
        let mut obj = wanted;
        match_namespace(self.served.resource.namespaced, ctx.namespace(), &mut obj)?;
        self.reset(ctx, attempt.view, &mut obj, &old);
        if !change.applies() {
            if change.creates() {
                meta::dedup_owners(&mut obj, false).into_iter().for_each(|w| ctx.warn(w));
            }
            self.attribute(ctx, attempt.view, &old, &mut obj);
        }
        let mut attributes = self.attributes(ctx, Operation::Update, name, options);
        attributes.object = Some(obj);
        attributes.old_object = Some(old.clone());
        self.hub.admission.admit(ctx, &mut attributes).await?;
        let mut obj = attributes.object.take().unwrap_or_default();
        self.check_version(name, &mut obj, &old)?;
        meta::dedup_owners(&mut obj, true).into_iter().for_each(|w| ctx.warn(w));
        self.check_changed(attempt, &mut obj, &old).await?;
        if apply::same_but_for_times(&old, &obj) {
            obj = old.clone();
        }
        attributes.object = Some(obj.clone());
        self.hub.admission.validate(ctx, &attributes).await?;
        if old.deletion_timestamp().is_some()
            && obj.finalizers().is_empty()
            && old.deletion_grace_period_seconds().is_none_or(|seconds| seconds == 0)
            && !self.served.resource.strategy.holds_deletion(&obj)
        {
            *attempt.last.lock() = obj;
            return Ok(Update::Remove);
        }
        let ttl = self.served.resource.strategy.ttl();
        Ok(Update::Put { object: self.to_stored(obj)?, ttl })
    }

    async fn decide_create(&self, attempt: &Attempt<'_>, mut wanted: Object) -> Result<Update, Status> {
        wanted.meta_mut().remove("resourceVersion");
        let (obj, finish) = self.prepare_create(attempt.ctx, wanted, attempt.options, !attempt.change.applies()).await?;
        *attempt.finish.lock() = finish;
        Ok(Update::Put { object: self.to_stored(obj)?, ttl: self.served.resource.strategy.ttl() })
    }

    /// The optimistic lock: a version in the object must be the stored one.
    fn check_version(&self, name: &str, obj: &mut Object, old: &Object) -> Result<(), Status> {
        let resource = &self.served.resource;
        let version = obj.resource_version().to_owned();
        if matches!(version.as_str(), "" | "0") {
            if !resource.strategy.allow_unconditional_update() {
                // Upstream prints the number zero as Go writes it, and names the resource where the kind would be.
                let path = field::Path::new("metadata").child("resourceVersion");
                let error = field::Error::new(field::ErrorKind::Invalid, &path, None, "0x0: must be specified for an update");
                return Err(Status::invalid(&GroupKind::new(&resource.group, &resource.plural), name, vec![error]));
            }
        } else if version.parse::<u64>().is_err() {
            let path = field::Path::new("metadata").child("resourceVersion");
            let text = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
            return Err(self.invalid(name, vec![field::Error::invalid(&path, version.as_str(), text)]));
        } else if version != old.resource_version() {
            return Err(Status::modified(&resource.group_resource(), name));
        }
        obj.set_resource_version(old.resource_version());
        Ok(())
    }

    async fn check_changed(&self, attempt: &Attempt<'_>, obj: &mut Object, old: &Object) -> Result<(), Status> {
        let (ctx, strategy) = (attempt.ctx, self.strategy(attempt.view));
        if !matches!(attempt.view, View::Status) {
            let finish = strategy.begin_update(ctx, &self.hub.loopback, obj, old).await?;
            *attempt.finish.lock() = finish;
        }
        match old.meta().get("generation") {
            Some(generation) => drop(obj.meta_mut().insert("generation".into(), generation.clone())),
            None => drop(obj.meta_mut().remove("generation")),
        }
        meta::carry_over(obj, old);
        self.prepare_changed(ctx, attempt.view, obj, old);
        if !matches!(attempt.view, View::Status) {
            meta::set_generation(strategy.generation(), obj, Some(old));
        }
        let mut errors = meta::validate_update(obj, old, self.served.resource.strategy.wants_qualified_finalizers());
        errors.extend(match attempt.view {
            View::Status => strategy.validate_status_update(ctx, obj, old),
            View::Main | View::Other(_) => strategy.validate_update(ctx, obj, old),
        });
        if !errors.is_empty() {
            return Err(self.invalid(obj.name(), errors));
        }
        if matches!(attempt.view, View::Main | View::Other(_)) {
            strategy.warnings_on_update(ctx, obj, old).into_iter().for_each(|w| ctx.warn(w));
        }
        self.canonicalize(&**strategy, obj);
        Ok(())
    }

    /// Takes back what the view may not change: nobody becomes its manager by trying.
    fn reset(&self, ctx: &RequestContext, view: &View, obj: &mut Object, old: &Object) {
        let strategy = self.strategy(view);
        match view {
            View::Status => {
                keep_all_but_status(obj, old);
                meta::keep(obj, old, strategy.kept_by_status());
                strategy.prepare_for_status_update(ctx, obj, old);
            }
            View::Main if self.served.resource.has_status() && !strategy.keeps_status_on_update() => {
                self.served.reset_status(obj, Some(old));
            }
            View::Main | View::Other(_) => {}
        }
    }

    fn prepare_changed(&self, ctx: &RequestContext, view: &View, obj: &mut Object, old: &Object) {
        self.reset(ctx, view, obj, old);
        if !matches!(view, View::Status) {
            self.strategy(view).prepare_for_update(ctx, obj, old);
        }
    }

    fn strategy<'a>(&'a self, view: &'a View) -> &'a Arc<dyn Strategy> {
        match view {
            View::Main | View::Status => &self.served.resource.strategy,
            View::Other(strategy) => strategy,
        }
    }
}

/// Takes every top-level field but `status` and `metadata` from `old`.
fn keep_all_but_status(obj: &mut Object, old: &Object) {
    let kept = |key: &str| matches!(key, "status" | "metadata");
    obj.0.retain(|key, _| kept(key));
    obj.0.extend(old.0.iter().filter(|(key, _)| !kept(key)).map(|(k, v)| (k.clone(), v.clone())));
}
