//! Delete: preconditions, graceful deletion, finalizers, removal. Upstream's `Store.Delete` and `rest.BeforeDelete`.

use std::sync::atomic::{AtomicBool, Ordering};

use apimachinery::{Object, gvk::GroupResource, status::Status};
use futures::FutureExt;
use parking_lot::Mutex;
use serde_json::Value;

use super::{Store, gc};
use crate::{
    admission::Operation,
    registry::{DeleteOptions, Strategy},
    request::RequestContext,
    storage::{Entry, Error, Freshness, Preconditions, Update, UpdateOptions, Verb},
};

/// How often an object is looked at again that others change while it is deleted.
const ATTEMPTS: usize = 8;

/// How a deletion went.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object is gone; its last state.
    Gone(Object),
    /// The object waits for its grace period or finalizers.
    Marked(Object),
    /// It was waiting already, and this request changed nothing.
    Pending(Object),
}

/// What to do with an object that is to be deleted.
#[derive(Debug, PartialEq)]
enum Plan {
    /// Remove it.
    Remove,
    /// Write it back with a deletion timestamp or other finalizers; remove it then if `remove`.
    Mark { obj: Object, remove: bool },
    /// A deletion runs already.
    Nothing,
}

impl Store {
    /// Deletes the object `name`, or begins to.
    pub(crate) async fn delete(&self, ctx: &RequestContext, name: &str, options: &DeleteOptions, raw: &Value) -> Result<Deleted, Status> {
        let (key, strategy) = (self.key(ctx, name), &self.served.resource.strategy);
        let entry = self.storage.get(&key, Freshness::Latest).await.map_err(|e| self.failed(e, Verb::Delete, name))?;
        let obj = self.present(&entry)?;
        let mut attributes = self.attributes(ctx, Operation::Delete, name, raw);
        attributes.old_object = Some(obj.clone());
        self.hub.admission.admit(ctx, &mut attributes).await?;
        strategy.begin_delete(ctx, &self.hub.loopback, &obj, options).await?;
        self.check_preconditions(name, &obj, options)?;
        strategy.warnings_on_delete(ctx, &obj, options).into_iter().for_each(|w| ctx.warn(w));
        let mut deleted = match self.plan(ctx, obj.clone(), options) {
            Plan::Nothing => return Ok(Deleted::Pending(obj)),
            Plan::Remove => self.remove(ctx, name, options, raw).await?,
            Plan::Mark { .. } => self.mark(ctx, name, options, raw).await?,
        };
        // Something came to hold the object in between: marking looks at it again.
        for _ in 0..ATTEMPTS {
            match deleted {
                Some(deleted) => return Ok(deleted),
                None => deleted = self.mark(ctx, name, options, raw).await?,
            }
        }
        Err(Status::modified(&self.served.resource.group_resource(), name))
    }

    fn plan(&self, ctx: &RequestContext, obj: Object, options: &DeleteOptions) -> Plan {
        let strategy = &self.served.resource.strategy;
        plan(obj, options, ctx.now, &**strategy, |obj| strategy.graceful_delete(ctx, obj, options))
    }

    fn check_preconditions(&self, name: &str, obj: &Object, options: &DeleteOptions) -> Result<(), Status> {
        let kind = GroupResource::new(&self.served.resource.group, &self.served.resource.kind);
        match options.broken_precondition(obj) {
            Some((what, wanted, found, why)) => {
                let text = format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {why}"
                );
                Err(Status::conflict(&kind, name, text))
            }
            None => Ok(()),
        }
    }

    /// Writes the deletion timestamp or finalizers, then removes the object where nothing holds it any more. `None` as for
    /// [`Store::remove`].
    async fn mark(&self, ctx: &RequestContext, name: &str, options: &DeleteOptions, raw: &Value) -> Result<Option<Deleted>, Status> {
        let last: Mutex<Plan> = Mutex::new(Plan::Nothing);
        if ctx.dry_run {
            let entry = self.storage.get(&self.key(ctx, name), Freshness::Latest).await.map_err(|e| self.failed(e, Verb::Delete, name))?;
            self.validate_deletion(ctx, name, raw, self.present(&entry)?).await?;
            return Ok(Some(match self.plan(ctx, self.present(&entry)?, options) {
                Plan::Mark { obj, remove: false } => Deleted::Marked(obj),
                Plan::Mark { obj, remove: true } => Deleted::Gone(obj),
                Plan::Remove => Deleted::Gone(self.present(&entry)?),
                Plan::Nothing => Deleted::Pending(self.present(&entry)?),
            }));
        }
        let mut updater = |entry: Option<Entry>| {
            let last = &last;
            async move {
                let Some(entry) = entry else { return Err(Status::not_found(&self.served.resource.group_resource(), name)) };
                let obj = self.present(&entry)?;
                self.check_preconditions(name, &obj, options)?;
                self.validate_deletion(ctx, name, raw, obj.clone()).await?;
                let plan = self.plan(ctx, obj.clone(), options);
                let write = if let Plan::Mark { obj, .. } = &plan { obj.clone() } else { obj };
                *last.lock() = plan;
                Ok(Update::Put { object: self.to_stored(write)?, ttl: self.served.resource.strategy.ttl() })
            }
            .boxed()
        };
        let updated = self.storage.update(&self.key(ctx, name), UpdateOptions::default(), &mut updater).await;
        let object = self.present(&updated.map_err(|e| self.failed(e, Verb::Delete, name))?.into_entry())?;
        match last.into_inner() {
            Plan::Nothing => Ok(Some(Deleted::Pending(object))),
            Plan::Mark { remove: false, .. } => Ok(Some(Deleted::Marked(object))),
            Plan::Mark { remove: true, .. } => self.finish(ctx, name, object).await.map(Some),
            Plan::Remove => self.remove(ctx, name, options, raw).await,
        }
    }

    /// Removes the object, unless something holds it that was not there when that was planned: `None` then.
    async fn remove(&self, ctx: &RequestContext, name: &str, options: &DeleteOptions, raw: &Value) -> Result<Option<Deleted>, Status> {
        let key = self.key(ctx, name);
        if ctx.dry_run {
            let entry = self.storage.get(&key, Freshness::Latest).await.map_err(|e| self.failed(e, Verb::Delete, name))?;
            self.validate_deletion(ctx, name, raw, self.present(&entry)?).await?;
            return Ok(Some(Deleted::Gone(self.present(&entry)?)));
        }
        let preconditions = Preconditions { uid: options.uid.clone(), resource_version: options.resource_version.clone() };
        let held = AtomicBool::new(false);
        let mut validate = |entry: Entry| {
            let held = &held;
            async move {
                let obj = self.present(&entry)?;
                self.validate_deletion(ctx, name, raw, obj.clone()).await?;
                held.store(self.plan(ctx, obj, options) != Plan::Remove, Ordering::Relaxed);
                if held.load(Ordering::Relaxed) { Err(self.held(name)) } else { Ok(()) }
            }
            .boxed()
        };
        match self.storage.delete(&key, &preconditions, &mut validate).await {
            Ok(entry) => self.gone(ctx, &entry).await.map(Some),
            Err(Error::Rejected(_)) if held.load(Ordering::Relaxed) => Ok(None),
            Err(e) => Err(self.failed(e, Verb::Delete, name)),
        }
    }

    /// Removes an object that was just marked, and only that one; others may do the same at the same time.
    async fn finish(&self, ctx: &RequestContext, name: &str, marked: Object) -> Result<Deleted, Status> {
        let preconditions = Preconditions { uid: Some(marked.uid().to_owned()), resource_version: None };
        let holder: Mutex<Option<Object>> = Mutex::new(None);
        let mut validate = |entry: Entry| {
            let holder = &holder;
            async move {
                let obj = self.present(&entry)?;
                if obj.finalizers().is_empty() && !self.served.resource.strategy.holds_deletion(&obj) {
                    return Ok(());
                }
                *holder.lock() = Some(obj);
                Err(self.held(name))
            }
            .boxed()
        };
        match self.storage.delete(&self.key(ctx, name), &preconditions, &mut validate).await {
            Ok(entry) => self.gone(ctx, &entry).await,
            Err(Error::NotFound { .. } | Error::Precondition { .. }) => Ok(Deleted::Gone(marked)),
            Err(e) => match holder.into_inner() {
                Some(obj) if matches!(e, Error::Rejected(_)) => Ok(Deleted::Marked(obj)),
                _ => Err(self.failed(e, Verb::Delete, name)),
            },
        }
    }

    async fn gone(&self, ctx: &RequestContext, last: &Entry) -> Result<Deleted, Status> {
        let object = self.present(last)?;
        self.served.resource.strategy.after_delete(ctx, &self.hub.loopback, &object).await;
        Ok(Deleted::Gone(object))
    }

    fn held(&self, name: &str) -> Status {
        Status::conflict(&self.served.resource.group_resource(), name, "something holds the object that is to be removed")
    }

    async fn validate_deletion(&self, ctx: &RequestContext, name: &str, raw: &Value, obj: Object) -> Result<(), Status> {
        let mut attributes = self.attributes(ctx, Operation::Delete, name, raw);
        attributes.old_object = Some(obj);
        self.hub.admission.validate(ctx, &attributes).await
    }
}

/// Decides what a deletion does to the object; `grace` asks the kind for its grace period.
fn plan(
    mut obj: Object,
    options: &DeleteOptions,
    now: jiff::Timestamp,
    strategy: &dyn Strategy,
    grace: impl Fn(&Object) -> Option<i64>,
) -> Plan {
    if obj.deletion_timestamp().is_some() && strategy.holds_deletion(&obj) {
        return Plan::Nothing;
    }
    if let (None, Some(finalizer)) = (obj.deletion_timestamp(), strategy.deletion_finalizer()) {
        let mut finalizers = obj.finalizers();
        if !finalizers.iter().any(|known| known == finalizer) {
            finalizers.push(finalizer.to_owned());
        }
        obj.set_finalizers(finalizers);
        obj.set_deletion_timestamp(Some(now));
        strategy.mark_deleted(&mut obj);
        return Plan::Mark { obj, remove: false };
    }
    let graceful = match begin(&mut obj, options, now, grace) {
        Begun::Pending => return Plan::Nothing,
        Begun::Graceful(seconds) => Some(seconds),
        Begun::AtOnce => None,
    };
    if let Some(finalizers) = gc::finalizers(&obj, options, strategy.dependents()) {
        obj.set_finalizers(finalizers);
    }
    let held = !obj.finalizers().is_empty() || strategy.holds_deletion(&obj);
    match graceful {
        Some(seconds) => Plan::Mark { obj, remove: !held && seconds == 0 },
        None if held => {
            if obj.finalizers().is_empty() {
                // Held by the kind's own means only: it has no grace period to speak of.
                obj.set_deletion_timestamp(Some(obj.deletion_timestamp().unwrap_or(now)));
            } else {
                mark_now(&mut obj, now);
            }
            strategy.mark_deleted(&mut obj);
            Plan::Mark { obj, remove: false }
        }
        None => Plan::Remove,
    }
}

enum Begun {
    AtOnce,
    Graceful(i64),
    Pending,
}

/// Sets deletionTimestamp and grace period where the kind deletes gracefully.
fn begin(obj: &mut Object, options: &DeleteOptions, now: jiff::Timestamp, grace: impl Fn(&Object) -> Option<i64>) -> Begun {
    if let Some(until) = obj.deletion_timestamp() {
        let before = obj.deletion_grace_period_seconds().unwrap_or_default();
        return match options.grace_period_seconds {
            _ if before == 0 => Begun::AtOnce,
            Some(wanted) if wanted < before => {
                let since = until - jiff::SignedDuration::from_secs(before);
                set_deletion(obj, since, wanted);
                Begun::Graceful(wanted)
            }
            // Only a shorter grace period may be given to what is already being deleted.
            _ => Begun::Pending,
        };
    }
    let Some(seconds) = grace(obj) else { return Begun::AtOnce };
    set_deletion(obj, now, seconds);
    bump_generation(obj);
    Begun::Graceful(seconds)
}

fn set_deletion(obj: &mut Object, from: jiff::Timestamp, seconds: i64) {
    obj.set_deletion_timestamp(Some(from.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(from)));
    obj.set_deletion_grace_period_seconds(Some(seconds));
}

fn mark_now(obj: &mut Object, now: jiff::Timestamp) {
    if obj.deletion_grace_period_seconds().is_none() {
        bump_generation(obj);
    }
    if obj.deletion_timestamp().is_none_or(|at| at > now) {
        obj.set_deletion_timestamp(Some(now));
    }
    obj.set_deletion_grace_period_seconds(Some(0));
}

fn bump_generation(obj: &mut Object) {
    if obj.generation() > 0 {
        obj.set_generation(obj.generation() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Plain;
    use serde_json::json;

    fn object(meta: Value) -> Object {
        Object::from_value(json!({"metadata": meta})).unwrap()
    }

    fn at(seconds: i64) -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    #[test]
    fn an_object_without_finalizers_goes_at_once() {
        let done = plan(object(json!({"name": "a"})), &DeleteOptions::default(), at(0), &Plain, |_| None);
        assert_eq!(done, Plan::Remove);
    }

    #[test]
    fn a_finalizer_holds_the_object_and_counts_as_a_new_generation() {
        let obj = object(json!({"name": "a", "finalizers": ["x/y"], "generation": 1}));
        let Plan::Mark { obj, remove } = plan(obj, &DeleteOptions::default(), at(0), &Plain, |_| None) else { panic!("not marked") };
        assert!(!remove && obj.deletion_timestamp().is_some());
        assert_eq!((obj.generation(), obj.deletion_grace_period_seconds()), (2, Some(0)));
    }

    #[test]
    fn a_pending_deletion_may_only_be_shortened() {
        let graceful = |_: &Object| Some(30);
        let Plan::Mark { obj, .. } = plan(object(json!({"name": "a"})), &DeleteOptions::default(), at(0), &Plain, graceful) else {
            panic!("not marked")
        };
        assert_eq!(obj.deletion_timestamp(), Some(at(30)));
        let longer = DeleteOptions { grace_period_seconds: Some(60), ..Default::default() };
        assert_eq!(plan(obj.clone(), &longer, at(1), &Plain, graceful), Plan::Nothing);
        let shorter = DeleteOptions { grace_period_seconds: Some(5), ..Default::default() };
        let Plan::Mark { obj, remove } = plan(obj, &shorter, at(1), &Plain, graceful) else { panic!("not marked") };
        assert_eq!((obj.deletion_timestamp(), remove), (Some(at(5)), false));
    }

    #[test]
    fn no_grace_removes_a_graceful_object_after_marking_it() {
        let done = plan(object(json!({"name": "a"})), &DeleteOptions::default(), at(0), &Plain, |_| Some(0));
        assert!(matches!(done, Plan::Mark { remove: true, .. }));
    }
}
