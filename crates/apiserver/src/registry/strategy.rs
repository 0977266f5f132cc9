//! What is peculiar to a kind: defaults across fields, preparation, validation, deletion, tables.
//!
//! Every method has a default that suits a plain object with a spec, so a strategy says only what differs. All but the
//! `begin_*`/`after_*` hooks are pure: the time is `ctx.now`.

use apimachinery::{Object, field::ErrorList, names, status::Status};
use async_trait::async_trait;
use futures::future::BoxFuture;
use serde_json::Value;

use super::Column;
use crate::{loopback::Loopback, request::RequestContext};

/// When `metadata.generation` counts up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The kind has no generation.
    Never,
    /// 1 at creation, one more whenever one of these fields (`spec`, `metadata.annotations`) differs from the stored object.
    Fields(&'static [&'static str]),
    /// None at creation, one more whenever one of these fields differs from the stored object.
    Later(&'static [&'static str]),
    /// 1 at creation, one more whenever anything but metadata differs (custom resources).
    AllButMetadata,
}

/// What becomes of an object's dependents where its deletion does not say. Upstream: `GarbageCollectionPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependents {
    /// The garbage collector deletes them.
    Delete,
    /// They stay, without their owner.
    Orphan,
    /// The garbage collector does not know the kind: its finalizers are never set.
    Unsupported,
}

/// The usual rule: the spec counts.
pub(crate) const SPEC: Generation = Generation::Fields(&["spec"]);

/// Called once the write was stored (`true`) or failed (`false`): frees or keeps what a `begin_*` hook took.
pub(crate) type Finish = Option<Box<dyn FnOnce(bool) -> BoxFuture<'static, ()> + Send>>;

/// `meta.k8s.io/v1 DeleteOptions`, decoded and checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    /// Seconds a graceful deletion may take; 0 deletes at once; absent takes the kind's default.
    pub(crate) grace_period_seconds: Option<i64>,
    /// Delete only this very object.
    pub(crate) uid: Option<String>,
    /// Delete only this very state.
    pub(crate) resource_version: Option<String>,
    /// Orphan, Background or Foreground.
    pub(crate) propagation_policy: Option<String>,
    /// The old form of Orphan (true) and Background (false).
    pub(crate) orphan_dependents: Option<bool>,
    /// `dryRun=All`.
    pub(crate) dry_run: bool,
    /// Delete even what cannot be read from storage.
    pub(crate) ignore_store_read_error: bool,
}

impl DeleteOptions {
    /// The precondition that does not hold: what it is about, the value wanted, the one found, and what may have happened.
    pub(crate) fn broken_precondition<'a>(&'a self, obj: &'a Object) -> Option<(&'static str, &'a str, &'a str, &'static str)> {
        let uid = self.uid.as_deref().filter(|uid| *uid != obj.uid());
        let version = self.resource_version.as_deref().filter(|version| *version != obj.resource_version());
        uid.map(|uid| ("UID", uid, obj.uid(), "deleted and then recreated"))
            .or_else(|| version.map(|version| ("ResourceVersion", version, obj.resource_version(), "modified")))
    }
}

/// The rules of one kind.
#[async_trait]
pub(crate) trait Strategy: Send + Sync {
    // -- defaults -----------------------------------------------------------------------------------------------

    /// Fills defaults that depend on other fields; static ones come from the schema before. Also runs on objects
    /// read from storage, so it must be idempotent and must not look at anything but the object.
    fn default(&self, _obj: &mut Object) {}

    // -- create -------------------------------------------------------------------------------------------------

    /// Sets and clears what the user may not choose at creation. Status was cleared already (see
    /// [`Strategy::keeps_status_on_create`]), generation is set afterwards.
    fn prepare_for_create(&self, _ctx: &RequestContext, _obj: &mut Object) {}

    /// Checks a new object beyond its metadata (name, labels, annotations, owners … are checked before).
    fn validate(&self, _ctx: &RequestContext, _obj: &Object) -> ErrorList {
        ErrorList::new()
    }

    /// Warnings for a new object.
    fn warnings_on_create(&self, _ctx: &RequestContext, _obj: &Object) -> Vec<String> {
        Vec::new()
    }

    /// Fields besides `status` that a write of the object itself does not make anybody the manager of: the server sets them.
    fn unmanaged_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Brings equivalent forms into one (after validation, before storage).
    fn canonicalize(&self, _obj: &mut Object) {}

    /// Takes what the object needs from elsewhere (a cluster IP, a node port), through the API.
    async fn begin_create(&self, _ctx: &RequestContext, _api: &Loopback, _obj: &mut Object) -> Result<Finish, Status> {
        Ok(None)
    }

    /// Runs after the object was stored (never on a dry run).
    async fn after_create(&self, _ctx: &RequestContext, _api: &Loopback, _obj: &Object) {}

    // -- update -------------------------------------------------------------------------------------------------

    /// Brings over from `old` what an update may not change silently. Status was taken from `old` already where the
    /// kind has a status subresource; generation follows afterwards.
    fn prepare_for_update(&self, _ctx: &RequestContext, _obj: &mut Object, _old: &Object) {}

    /// Checks a changed object beyond its metadata. By default what a new object must satisfy.
    fn validate_update(&self, ctx: &RequestContext, obj: &Object, _old: &Object) -> ErrorList {
        self.validate(ctx, obj)
    }

    /// Warnings for a changed object. By default those of a new one.
    fn warnings_on_update(&self, ctx: &RequestContext, obj: &Object, _old: &Object) -> Vec<String> {
        self.warnings_on_create(ctx, obj)
    }

    /// As [`Strategy::begin_create`], for an update.
    async fn begin_update(&self, _ctx: &RequestContext, _api: &Loopback, _obj: &mut Object, _old: &Object) -> Result<Finish, Status> {
        Ok(None)
    }

    /// Runs after an update was stored (never on a dry run).
    async fn after_update(&self, _ctx: &RequestContext, _api: &Loopback, _obj: &Object, _old: &Object) {}

    // -- status subresource ---------------------------------------------------------------------------------------

    /// Prepares a write to `/status`. `obj` already has every top-level field but `status` and `metadata` from `old`.
    /// Upstream's kinds differ in which metadata may change here: bring back the rest from `old`.
    fn prepare_for_status_update(&self, _ctx: &RequestContext, _obj: &mut Object, _old: &Object) {}

    /// Metadata that a write to `/status` leaves as it was and that nobody manages by one: `metadata` for all that users set,
    /// or single fields such as `metadata.labels`. Upstream's status strategies differ in this.
    fn kept_by_status(&self) -> &'static [&'static str] {
        &[]
    }

    /// Checks a write to `/status` beyond the metadata.
    fn validate_status_update(&self, _ctx: &RequestContext, _obj: &Object, _old: &Object) -> ErrorList {
        ErrorList::new()
    }

    // -- delete -------------------------------------------------------------------------------------------------

    /// The grace period of a graceful deletion, `None` where the object goes at once. `options` carries the request's
    /// wish. Upstream's `CheckGracefulDelete`.
    fn graceful_delete(&self, _ctx: &RequestContext, _obj: &Object, _options: &DeleteOptions) -> Option<i64> {
        None
    }

    /// What becomes of dependents where the deletion does not say.
    fn dependents(&self) -> Dependents {
        Dependents::Delete
    }

    /// Warnings for a deletion.
    fn warnings_on_delete(&self, _ctx: &RequestContext, _obj: &Object, _options: &DeleteOptions) -> Vec<String> {
        Vec::new()
    }

    /// Refuses or prepares a deletion, through the API. Runs before preconditions are checked.
    async fn begin_delete(&self, _ctx: &RequestContext, _api: &Loopback, _obj: &Object, _options: &DeleteOptions) -> Result<(), Status> {
        Ok(())
    }

    /// Whether something beside `metadata.finalizers` holds a deleted object (a namespace's own finalizers).
    fn holds_deletion(&self, _obj: &Object) -> bool {
        false
    }

    /// A finalizer that the first deletion adds, for what has to be cleaned up before the object may go.
    fn deletion_finalizer(&self) -> Option<&'static str> {
        None
    }

    /// Changes an object that is being marked as deleted (a namespace's phase).
    fn mark_deleted(&self, _obj: &mut Object) {}

    /// Runs after the object left storage (never on a dry run).
    async fn after_delete(&self, _ctx: &RequestContext, _api: &Loopback, _obj: &Object) {}

    // -- rules --------------------------------------------------------------------------------------------------

    /// Complaints about a name; the flag asks for the prefix form of `generateName`.
    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        if prefix { names::is_dns1123_subdomain(&names::mask_trailing_dash(name)) } else { names::is_dns1123_subdomain(name) }
    }

    /// Whether finalizers have to be qualified by a domain, unless they are among the standard ones.
    fn wants_qualified_finalizers(&self) -> bool {
        true
    }

    /// Whether PUT creates a missing object.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Whether PUT without a resourceVersion overwrites whatever is stored.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// When the generation counts up.
    fn generation(&self) -> Generation {
        Generation::Never
    }

    /// Whether a new object may bring its own status (Node).
    fn keeps_status_on_create(&self) -> bool {
        false
    }

    /// Whether PUT on the object itself takes the status along although there is a status subresource.
    fn keeps_status_on_update(&self) -> bool {
        false
    }

    /// How long an object is kept after its last write (events).
    fn ttl(&self) -> Option<std::time::Duration> {
        None
    }

    // -- reading ------------------------------------------------------------------------------------------------

    /// Field labels a field selector may name, beyond metadata.name and metadata.namespace.
    fn field_labels(&self) -> Vec<std::borrow::Cow<'static, str>> {
        Vec::new()
    }

    /// The name that a field label has in the version objects are stored in.
    fn stored_field(&self, label: &str) -> String {
        label.to_owned()
    }

    /// A stored object's value for each field that [`Strategy::stored_field`] names.
    fn selectable_fields(&self, _obj: &Object) -> Vec<(std::borrow::Cow<'static, str>, String)> {
        Vec::new()
    }

    /// Whether [`Strategy::decorate`] does anything; else cached bytes are answered as they are.
    fn decorates(&self) -> bool {
        false
    }

    /// Fills what answers show but storage does not hold.
    fn decorate(&self, _obj: &mut Object) {}

    /// The Table form's columns.
    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name must be unique within a namespace."),
            Column::new("Created At", "date", "CreationTimestamp is the server time when the object was created."),
        ]
    }

    /// One object's cells, one for each of [`Strategy::columns`].
    fn cells(&self, obj: &Object, _now: jiff::Timestamp) -> Vec<Value> {
        let created = obj.pointer("/metadata/creationTimestamp").cloned().unwrap_or(Value::Null);
        vec![Value::from(obj.name()), created]
    }

    /// Members, wherever they are, that neither `cells` nor `row_conditions` look at: they need not be read for that.
    fn unprinted(&self) -> &'static [&'static str] {
        &["managedFields"]
    }

    /// Conditions of the row in the Table form: finished pods tell clients that they may be hidden.
    fn row_conditions(&self, _obj: &Object) -> Vec<Value> {
        Vec::new()
    }
}

/// The strategy of a kind without rules of its own.
pub(crate) struct Plain;

#[async_trait]
impl Strategy for Plain {}
