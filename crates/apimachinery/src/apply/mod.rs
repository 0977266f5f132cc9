//! Server-side apply: who manages which fields, merging with ownership, conflicts (`structured-merge-diff`, `managedfields`).
//!
//! [`update`] follows up a change made by other means, [`apply`] makes one. Both see objects in the schema's canonical form, and both
//! come before admission.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::gvk::GroupVersionKind;
use crate::object::Object;
use crate::schema::Schema;
use crate::status::{Cause, Status, cause};

mod last_applied;
mod managers;
mod merge;
mod same;
mod scale;
mod set;
mod typed;
mod versions;
mod walk;

pub use managers::{Manager, Operation};
pub use same::same_but_for_times;
pub use scale::{from_scale, to_scale};
pub use set::{FieldSet, PathElement};
pub use versions::{InVersion, Versions};

use last_applied::{LAST_APPLIED, last_applied, last_applied_fields};
use managers::{Managed, Managers};
use typed::Type;
use versions::Changes;

/// At most this many updaters are kept apart.
const MAX_UPDATERS: usize = 10;
/// Who gets the fields an object had before it was first applied to.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// What both operations need to know of the kind and the request.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The kind's schema.
    pub schema: &'a Schema,
    /// Kind, in the version the request speaks.
    pub gvk: &'a GroupVersionKind,
    /// The subresource that is written; empty for the object itself.
    pub subresource: &'a str,
    /// Fields that a write of this kind never changes, such as `status` (a strategy's reset fields).
    pub ignored: &'a FieldSet,
    /// The time to note.
    pub now: Timestamp,
    /// The kind's other versions, for those who manage fields of them; where there are none, fields are taken for the same in all.
    pub versions: Option<&'a dyn Versions>,
}

/// Why an apply failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Other managers own fields with other values: 409. Each conflict is the manager as messages name it, and the path.
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<(String, String)>),
    /// The request makes no sense: 400.
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not fit the schema: 500 without a reason, as upstream answers.
    #[error("{0}")]
    Typed(String),
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Conflicts(conflicts) => {
                let causes = conflicts.into_iter().map(|(manager, path)| Cause {
                    reason: cause::FIELD_MANAGER_CONFLICT.into(),
                    message: format!("conflict with {manager}"),
                    field: path,
                });
                Self::apply_conflict(causes.collect(), message)
            }
            Error::BadRequest(_) => Self::bad_request(message),
            Error::Typed(_) => Self::failure(500, "", message),
        }
    }
}

fn conflict_message(conflicts: &[(String, String)]) -> String {
    if let [(manager, path)] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {manager}: {path}");
    }
    let mut lines: Vec<String> = Vec::new();
    let mut last = None;
    for (manager, path) in conflicts {
        if last.replace(manager) != Some(manager) {
            lines.push(format!("conflicts with {manager}:"));
        }
        lines.push(format!("- {path}"));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// Fields nobody manages: the server writes them, or they identify the object.
static UNMANAGED: LazyLock<FieldSet> = LazyLock::new(|| {
    let names = "name namespace creationTimestamp selfLink uid clusterName generation managedFields resourceVersion";
    let paths: Vec<String> = names.split(' ').map(|name| format!("metadata.{name}")).collect();
    FieldSet::of(["apiVersion", "kind", "metadata"].into_iter().chain(paths.iter().map(String::as_str)))
});

/// Writes into `new.metadata.managedFields` who manages what after `manager` changed `live` into `new`.
///
/// For a create, `live` is what [`empty`] gives. An object whose fields nobody managed so far stays that way.
pub fn update(live: &Object, new: &mut Object, manager: &str, cx: &Context<'_>) {
    let mut managers = managers_for_update(live, new, cx);
    new.meta_mut().remove("managedFields");
    if !managers.0.is_empty() || live.uid().is_empty() {
        follow(&mut managers, live, new, manager, cx);
    }
    write(&managers, new);
}

/// An object of the kind as it is before it is created.
pub fn empty(cx: &Context<'_>) -> Object {
    let mut object = Object::from_value(cx.schema.zero()).unwrap_or_default();
    object.set_gvk(cx.gvk);
    object
}

/// The managers a request may state itself, else those of the live object.
fn managers_for_update(live: &Object, new: &Object, cx: &Context<'_>) -> Managers {
    let of_live = || Managers::read(live.meta()).unwrap_or_default();
    if !cx.subresource.is_empty() {
        return of_live();
    }
    match new.meta().get("managedFields").and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => Managers::default(),
        Some([only]) if only.as_object().is_some_and(Map::is_empty) => Managers::default(),
        _ => Managers::read(new.meta()).filter(|managers| !managers.0.is_empty()).unwrap_or_else(of_live),
    }
}

fn write(managers: &Managers, object: &mut Object) {
    let entries = managers.write();
    if entries.is_empty() {
        object.meta_mut().remove("managedFields");
    } else {
        object.meta_mut().insert("managedFields".into(), entries.into());
    }
}

fn identity(name: &str, operation: Operation, cx: &Context<'_>) -> Manager {
    let api_version = if operation == Operation::Apply { String::new() } else { cx.gvk.api_version() };
    Manager { name: name.into(), operation, api_version, subresource: cx.subresource.into() }
}

/// Gives `manager` what changed, and takes it from the others.
fn follow(managers: &mut Managers, live: &Object, new: &Object, manager: &str, cx: &Context<'_>) {
    let mut changes = Changes::new(live, new, cx);
    let manager = identity(manager, Operation::Update, cx);
    for (other, version) in managers.versions() {
        let Some(change) = changes.within(&version) else {
            managers.0.remove(&other);
            continue;
        };
        if other != manager {
            managers.take(&other, &change.changed);
        }
        managers.take(&other, &change.removed);
    }
    let own = changes.own().changed.difference(&UNMANAGED);
    if !own.is_empty() {
        let managed = managers.0.entry(manager).or_insert_with(|| Managed {
            set: FieldSet::default(),
            api_version: cx.gvk.api_version(),
            time: None,
        });
        managed.set = std::mem::take(&mut managed.set).union(&own);
        managed.time = Some(cx.now);
    }
    managers.cap(MAX_UPDATERS);
}

fn members(value: &Value) -> &Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    value.as_object().unwrap_or(&NONE)
}

/// The object without its managed fields, which no configuration changes.
fn unmanaged_meta(object: &Object) -> Value {
    let mut object = object.clone();
    if object.meta().contains_key("managedFields") {
        object.meta_mut().remove("managedFields");
    }
    object.into_value()
}

/// Applies a configuration as it was sent: fields it sets become `manager`'s, fields the manager no longer sets go.
///
/// For a create, `live` is what [`empty`] gives. The result still has to be decoded and defaulted by the kind's schema; if nothing
/// changed it is the live object. Fields of others are only overwritten with `force`.
pub fn apply(live: &Object, config: &Value, manager: &str, force: bool, cx: &Context<'_>) -> Result<Object, Error> {
    check_config(config, cx)?;
    let mut managers = Managers::read(live.meta()).unwrap_or_default();
    if managers.0.is_empty() {
        follow(&mut managers, &empty(cx), live, BEFORE_FIRST_APPLY, cx);
    }
    let mut object = match apply_once(live, config, manager, force, &managers, cx) {
        Err(Error::Conflicts(conflicts)) if manager == "kubectl" => {
            let allowed = last_applied_fields(live, cx);
            let left: Vec<_> = conflicts.into_iter().filter(|(_, path)| !allowed.contains(path)).collect();
            if !left.is_empty() {
                return Err(Error::Conflicts(left));
            }
            apply_once(live, config, manager, true, &managers, cx)?
        }
        result => result?,
    };
    if manager == "kubectl" && live.annotation(LAST_APPLIED).is_some() {
        object.set_annotation(LAST_APPLIED, &last_applied(config));
    }
    Ok(object)
}

fn check_config(config: &Value, cx: &Context<'_>) -> Result<(), Error> {
    let text = |pointer: &str| config.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let gvk =
        GroupVersionKind::from_api_version(text("/apiVersion"), text("/kind")).map_err(|error| Error::BadRequest(error.to_string()))?;
    if gvk != *cx.gvk {
        return Err(Error::BadRequest(format!("invalid object type: {gvk}")));
    }
    if config.pointer("/metadata/managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(Error::BadRequest("metadata.managedFields must be nil".into()));
    }
    let errors = walk::validate(Type::of(cx.schema), config);
    let list = match &errors[..] {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    let place = format!("{}/{}; {gvk}", text("/metadata/namespace"), text("/metadata/name"));
    Err(Error::Typed(format!("failed to create typed patch object ({place}): {list}")))
}

fn apply_once(live: &Object, config: &Value, manager: &str, force: bool, managers: &Managers, cx: &Context<'_>) -> Result<Object, Error> {
    let ty = Type::of(cx.schema);
    let mut managers = managers.clone();
    let manager = identity(manager, Operation::Apply, cx);
    let live_value = unmanaged_meta(live);
    let merged = merge::merge(ty, &live_value, config);

    let last = managers.0.get(&manager).cloned();
    let last_set = last.as_ref().map(|managed| managed.set.clone()).unwrap_or_default();
    let set = walk::fields(ty, config).recursive_difference(cx.ignored);
    managers.0.insert(manager.clone(), Managed { set, api_version: cx.gvk.api_version(), time: Some(cx.now) });
    let pruned = prune(ty, merged, &managers, &last_set);
    if pruned == live_value
        && let Some(managed) = managers.0.get_mut(&manager)
    {
        // Nothing was changed, so there is no time at which it was.
        managed.time = last.and_then(|managed| managed.time);
    }

    let mut object = Object::from_value(pruned).unwrap_or_default();
    let before = Object::from_value(live_value).unwrap_or_default();
    let conflicts = take_over(&mut managers, &manager, &mut Changes::new(&before, &object, cx), force);
    if !conflicts.is_empty() {
        return Err(Error::Conflicts(conflicts));
    }
    managers.take(&manager, &UNMANAGED);
    write(&managers, &mut object);
    Ok(object)
}

/// Takes changed fields from other managers; without `force`, tells which those are instead.
fn take_over(managers: &mut Managers, manager: &Manager, changes: &mut Changes<'_>, force: bool) -> Vec<(String, String)> {
    let mut conflicts = Vec::new();
    let mut kept = managers.clone();
    for (other, version) in managers.versions().into_iter().filter(|(other, _)| other != manager) {
        let Some(change) = changes.within(&version) else {
            kept.0.remove(&other);
            continue;
        };
        let taken = managers.0.get(&other).map(|managed| managed.set.intersection(&change.changed)).unwrap_or_default();
        conflicts.extend(taken.paths().iter().map(|path| (other.describe(), set::print(path))));
        kept.take(&other, &change.changed);
        kept.take(&other, &change.removed);
    }
    if !force && !conflicts.is_empty() {
        return conflicts;
    }
    *managers = kept;
    Vec::new()
}

/// Removes what the manager applied last time and does not any more, unless somebody else manages it.
fn prune(ty: Type<'_>, merged: Value, managers: &Managers, last: &FieldSet) -> Value {
    if last.is_empty() {
        return merged;
    }
    let named = |set: &FieldSet| walk::with_named_fields(ty, set);
    let last = named(last);
    let merged_set = named(&walk::fields(ty, &merged));

    let pruned = walk::remove(ty, &merged, &last);
    let owned = managers.0.values().fold(FieldSet::default(), |all, managed| all.union(&managed.set));
    let kept = named(&walk::fields(ty, &pruned)).union(&named(&owned));
    let pruned = walk::remove(ty, &merged, &merged_set.difference(&kept));

    let pruned_set = named(&walk::fields(ty, &pruned));
    walk::remove(ty, &merged, &merged_set.difference(&pruned_set).intersection(&last))
}

#[cfg(test)]
mod tests;
