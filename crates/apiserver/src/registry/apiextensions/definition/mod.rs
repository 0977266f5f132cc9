//! CustomResourceDefinitions: defaults, what the server keeps in their status, validation, deletion.

mod conversion;
mod defaults;
mod internal;
mod names;
mod open_api;
mod selectable;
mod spec;
mod structural;
#[cfg(test)]
mod tests;

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
    names as rules,
    schema::is_known_format,
    time,
};
use serde_json::{Value, json};

use super::{
    approval::{self, ANNOTATION, Approval},
    view::{CLEANUP, Definition, flag, text},
};
use crate::{
    registry::{
        Generation, Strategy,
        check::At,
        edit::{default_to, default_zero, ensure_object, object_at},
        strategy::SPEC,
    },
    request::RequestContext,
};

pub(crate) use structural::violations;

/// The rules of definitions.
pub(crate) struct Definitions;

impl Strategy for Definitions {
    fn default(&self, obj: &mut Object) {
        let spec = ensure_object(&mut obj.0, "spec");
        let names = ensure_object(spec, "names");
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !kind.is_empty() {
            default_zero(names, "singular", kind.to_lowercase());
            default_zero(names, "listKind", format!("{kind}List"));
        }
        default_to(spec, "conversion", json!({"strategy": "None"}));
        if let Some(service) = object_at(spec, &["conversion", "webhook", "clientConfig", "service"]) {
            default_to(service, "port", 443);
        }
        let storage = Definition(obj).storage_version().to_owned();
        if !storage.is_empty() {
            default_zero(ensure_object(&mut obj.0, "status"), "storedVersions", json!([storage]));
        }
    }

    fn prepare_for_create(&self, _ctx: &RequestContext, obj: &mut Object) {
        add_storage_version(obj);
    }

    fn prepare_for_update(&self, _ctx: &RequestContext, obj: &mut Object, _old: &Object) {
        add_storage_version(obj);
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        validate(obj, None)
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        validate(obj, Some(old))
    }

    fn validate_status_update(&self, _ctx: &RequestContext, obj: &Object, _old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        names::check(&At::field(obj, "status").get("acceptedNames"), &mut errs);
        errs
    }

    fn warnings_on_create(&self, _ctx: &RequestContext, obj: &Object) -> Vec<String> {
        format_warnings(obj, None)
    }

    fn warnings_on_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> Vec<String> {
        format_warnings(obj, Some(old))
    }

    fn generation(&self) -> Generation {
        SPEC
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn wants_qualified_finalizers(&self) -> bool {
        false
    }

    fn deletion_finalizer(&self) -> Option<&'static str> {
        Some(CLEANUP)
    }

    fn mark_deleted(&self, obj: &mut Object) {
        let at = obj.deletion_timestamp();
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        let condition = json!({"type": "Terminating", "status": "True", "reason": "InstanceDeletionPending", "message": message});
        set_condition(ensure_object(&mut obj.0, "status"), condition, at);
    }
}

/// Sets a condition of a status; the time of its last transition changes with its status only.
pub(crate) fn set_condition(status: &mut serde_json::Map<String, Value>, mut condition: Value, now: Option<jiff::Timestamp>) {
    let kind = text(&condition, "type").to_owned();
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else { return };
    let at = list.iter().position(|other| text(other, "type") == kind);
    let same = at.map(|at| &list[at]).filter(|old| text(old, "status") == text(&condition, "status"));
    let since = same.and_then(|old| old.get("lastTransitionTime")).filter(|since| !since.is_null()).cloned();
    condition["lastTransitionTime"] = since.or_else(|| now.map(|now| time::format_rfc3339_seconds(now).into())).unwrap_or_default();
    match at {
        Some(at) => list[at] = condition,
        None => list.push(condition),
    }
}

/// Objects will be stored in the storage version from now on: the status remembers that.
fn add_storage_version(obj: &mut Object) {
    let storage = Definition(obj).storage_version().to_owned();
    if storage.is_empty() || Definition(obj).stored_versions().contains(&storage.as_str()) {
        return;
    }
    let status = ensure_object(&mut obj.0, "status");
    match status.get_mut("storedVersions").and_then(Value::as_array_mut) {
        Some(stored) => stored.push(storage.into()),
        None => drop(status.insert("storedVersions".into(), json!([storage]))),
    }
}

fn validate(obj: &Object, old: Option<&Object>) -> ErrorList {
    let mut errs = ErrorList::new();
    let definition = Definition(obj);
    let wanted = format!("{}.{}", definition.plural(), definition.group());
    if old.is_none() && obj.name() != wanted {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errs.push(Error::invalid(&Path::new("metadata").child("name"), obj.name(), detail));
    }
    spec::check(definition, old.map(Definition), &mut errs);
    names::check(&At::field(obj, "status").get("acceptedNames"), &mut errs);
    stored_versions(definition, &mut errs);
    approved(obj, old, &mut errs);
    let preserve = At::field(obj, "spec").get("preserveUnknownFields");
    if preserve.is_true() && !old.is_some_and(|old| flag(Definition(old).spec(), "preserveUnknownFields")) {
        let instead = "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errs.push(preserve.invalid(format!("cannot set to true, {instead}")));
    }
    errs
}

/// Every version objects may be stored in must go on being known.
fn stored_versions(definition: Definition<'_>, errs: &mut ErrorList) {
    let at = At::field(definition.0, "status").get("storedVersions");
    let stored = definition.stored_versions();
    if stored.is_empty() {
        return errs.push(Error::invalid(&at.path, Value::Null, "must have at least one stored version"));
    }
    let known: Vec<&str> = definition.versions().iter().map(|version| text(version, "name")).collect();
    for version in definition.versions().iter().filter(|version| flag(version, "storage")) {
        let name = text(version, "name");
        if !stored.contains(&name) {
            errs.push(at.invalid(format!("must have the storage version {name}")));
        }
    }
    for (index, name) in stored.iter().enumerate().filter(|(_, name)| !known.contains(name)) {
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage \
             migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errs.push(Error::invalid(&at.path.index(index), *name, detail));
    }
}

fn approved(obj: &Object, old: Option<&Object>, errs: &mut ErrorList) {
    let (state, reason) = approval::state(obj);
    if !approval::is_protected(Definition(obj).group()) || old.is_some_and(|old| approval::state(old).0 == state) {
        return;
    }
    let path = Path::new("metadata").child("annotations").key(ANNOTATION);
    match state {
        Approval::Missing => errs.push(Error::required(&path, reason)),
        Approval::Invalid => errs.push(Error::invalid(&path, obj.annotation(ANNOTATION).unwrap_or_default(), reason)),
        Approval::Approved | Approval::Bypassed => {}
    }
}

/// Formats that will not be checked, but for those that were there before.
fn format_warnings(obj: &Object, old: Option<&Object>) -> Vec<String> {
    let before = old.map(|old| unknown_formats(Definition(old))).unwrap_or_default();
    let new = unknown_formats(Definition(obj)).into_iter().filter(|format| !before.contains(format));
    new.map(|format| format!("unrecognized format {}", apimachinery::go::quote(&format))).collect()
}

fn unknown_formats(definition: Definition<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for version in definition.versions() {
        if let Some(schema) = version.pointer("/schema/openAPIV3Schema") {
            internal::visit(schema, &mut |schema| {
                let format = text(schema, "format");
                if !format.is_empty() && !is_known_format(format, text(schema, "type")) && !found.iter().any(|known| known == format) {
                    found.push(format.to_owned());
                }
            });
        }
    }
    found
}

/// What is wrong with a text as a label of DNS, as one message.
fn label_errors(text: &str) -> Option<String> {
    let errors = rules::is_dns1035_label(text);
    (!errors.is_empty()).then(|| errors.join(","))
}
