//! `ObjectMeta` rules every kind shares: what the server fills in, and what it refuses (upstream's
//! `apimachinery/pkg/api/validation`).

mod rules;

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
    names,
};
use serde_json::Value;

pub(crate) use rules::{MAX_MANAGER, STANDARD_FINALIZERS, manager};

use super::{Generation, Resource, edit};
use rules::{annotations, finalizers, labels, managers, not_negative, owners, unqualified_finalizers};

/// Longest name made from generateName, without its random end.
const MAX_GENERATED_BASE: usize = 58;
/// Letters of a random end: no vowels, so that no words appear; nothing easily mistaken.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Fills what the server alone decides at creation.
pub(crate) fn fill_system_fields(obj: &mut Object, now: jiff::Timestamp) {
    let meta = obj.meta_mut();
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        meta.remove(field);
    }
    obj.set_creation_timestamp(Some(now));
    obj.set_uid(&uuid::Uuid::new_v4().to_string());
    if obj.name().is_empty() && !obj.generate_name().is_empty() {
        let name = generated_name(obj.generate_name());
        obj.set_name(&name);
    }
}

/// `generateName` with five random letters.
pub(crate) fn generated_name(base: &str) -> String {
    let mut name: String = base.chars().take(MAX_GENERATED_BASE).collect();
    name.extend((0..5).map(|_| char::from(ALPHABET[rand::random_range(0..ALPHABET.len())])));
    name
}

/// Sets the generation of a new or changed object.
pub(crate) fn set_generation(rule: Generation, obj: &mut Object, old: Option<&Object>) {
    let differs = |old: &Object| match rule {
        Generation::Never => false,
        Generation::Fields(fields) | Generation::Later(fields) => fields.iter().any(|f| part(obj, f) != part(old, f)),
        Generation::AllButMetadata => !same_content(obj, old),
    };
    let generation = match old {
        _ if rule == Generation::Never => return,
        None => i64::from(!matches!(rule, Generation::Later(_))),
        Some(old) if differs(old) => old.generation() + 1,
        Some(old) => old.generation(),
    };
    if generation == 0 {
        obj.meta_mut().remove("generation");
    } else {
        obj.set_generation(generation);
    }
}

/// Whether two objects differ in metadata at most.
fn same_content(a: &Object, b: &Object) -> bool {
    let within = |a: &Object, b: &Object| a.0.iter().all(|(key, value)| key == "metadata" || b.0.get(key) == Some(value));
    within(a, b) && within(b, a)
}

/// The value at a dotted path of plain names.
fn part<'a>(obj: &'a Object, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let first = obj.0.get(names.next().unwrap_or_default());
    names.fold(first, |value, name| value?.get(name))
}

/// Drops repeated owner references (same uid and everything else), keeping the first. Answers the warning that tells so;
/// `admitted`: whether admission may have brought them in.
pub(crate) fn dedup_owners(obj: &mut Object, admitted: bool) -> Option<String> {
    if !obj.meta().contains_key("ownerReferences") {
        return None;
    }
    let Some(Value::Array(owners)) = obj.meta_mut().get_mut("ownerReferences") else { return None };
    let (mut seen, mut repeated) = (Vec::new(), Vec::new());
    owners.retain(|owner| {
        let fresh = !seen.contains(owner);
        if fresh {
            seen.push(owner.clone());
        } else {
            repeated.push(owner.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned());
        }
        fresh
    });
    let when = if admitted { " after mutating admission happens" } else { "" };
    (!repeated.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such \
             requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        )
    })
}

/// Checks the metadata of an object that is to be stored under `resource`'s rules.
pub(crate) fn validate(resource: &Resource, obj: &Object) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("metadata");
    let complain = |errors: &mut ErrorList, field: &str, value: &str, texts: Vec<String>| {
        errors.extend(texts.into_iter().map(|t| Error::invalid(&path.child(field), value, t)));
    };
    if !obj.generate_name().is_empty() {
        complain(&mut errors, "generateName", obj.generate_name(), resource.strategy.validate_name(obj.generate_name(), true));
    }
    if obj.name().is_empty() {
        errors.push(Error::required(&path.child("name"), "name or generateName is required"));
    } else {
        complain(&mut errors, "name", obj.name(), resource.strategy.validate_name(obj.name(), false));
    }
    match (resource.namespaced, obj.namespace()) {
        (true, "") => errors.push(Error::required(&path.child("namespace"), "")),
        (true, ns) => complain(&mut errors, "namespace", ns, names::is_dns1123_label(ns)),
        (false, "") => {}
        (false, _) => errors.push(Error::forbidden(&path.child("namespace"), "not allowed on this type")),
    }
    if obj.generation() < 0 {
        errors.push(not_negative(&path.child("generation"), obj.generation()));
    }
    errors.extend(labels(obj, &path.child("labels")));
    errors.extend(annotations(obj, &path.child("annotations")));
    errors.extend(owners(obj, &path.child("ownerReferences")));
    errors.extend(finalizers(obj, &path.child("finalizers")));
    errors.extend(managers(obj, &path.child("managedFields")));
    if resource.strategy.wants_qualified_finalizers() {
        errors.extend(unqualified_finalizers(obj, &path.child("finalizers")));
    }
    errors
}

/// Checks the metadata of a resource inside of a custom resource; `obj` holds nothing else.
pub(crate) fn validate_embedded(obj: &Object, path: &Path) -> ErrorList {
    validate_common(obj, path)
}

/// What holds for the metadata of any object, whatever its kind asks of names and finalizers.
fn validate_common(obj: &Object, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let complain = |errors: &mut ErrorList, field: &str, value: &str, texts: Vec<String>| {
        errors.extend(texts.into_iter().map(|t| Error::invalid(&path.child(field), value, t)));
    };
    if !obj.generate_name().is_empty() {
        complain(&mut errors, "generateName", obj.generate_name(), names::is_path_segment_name(obj.generate_name()));
    }
    if !obj.name().is_empty() {
        complain(&mut errors, "name", obj.name(), names::is_path_segment_name(obj.name()));
    }
    if !obj.namespace().is_empty() {
        complain(&mut errors, "namespace", obj.namespace(), names::is_dns1123_label(obj.namespace()));
    }
    if obj.generation() < 0 {
        errors.push(not_negative(&path.child("generation"), obj.generation()));
    }
    errors.extend(labels(obj, &path.child("labels")));
    errors.extend(annotations(obj, &path.child("annotations")));
    errors.extend(owners(obj, &path.child("ownerReferences")));
    errors.extend(finalizers(obj, &path.child("finalizers")));
    errors.extend(managers(obj, &path.child("managedFields")));
    errors
}

/// Takes over from `old` what a client may leave out of an update, and what no update changes, whatever it says.
pub(crate) fn carry_over(obj: &mut Object, old: &Object) {
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let ours = matches!(field, "creationTimestamp" | "deletionTimestamp");
        if (ours || obj.meta().get(field).is_none_or(Value::is_null))
            && let Some(value) = old.meta().get(field)
        {
            obj.meta_mut().insert(field.into(), value.clone());
        }
    }
}

/// What `metadata` stands for where it is kept as a whole: all that users set.
const SET_BY_USERS: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];

/// Takes metadata back from `old`; see [`Strategy::kept_by_status`](super::Strategy::kept_by_status).
pub(crate) fn keep(obj: &mut Object, old: &Object, fields: &[&str]) {
    for field in fields {
        match field.strip_prefix("metadata.") {
            Some(name) => edit::copy(obj.meta_mut(), old.meta(), name),
            None => SET_BY_USERS.iter().for_each(|name| edit::copy(obj.meta_mut(), old.meta(), name)),
        }
    }
}

/// Checks changed metadata. Upstream does so in the generic store and again in the kind's own rules; clients see the causes of both.
pub(crate) fn validate_update(obj: &Object, old: &Object, qualified_finalizers: bool) -> ErrorList {
    let path = Path::new("metadata");
    let mut errors = validate_common(obj, &path);
    let changes = changes(obj, old, &path);
    errors.extend(changes.clone());
    errors.extend(changes);
    if qualified_finalizers {
        errors.extend(unqualified_finalizers(obj, &path.child("finalizers")));
    }
    errors
}

/// Checks how metadata changed.
fn changes(obj: &Object, old: &Object, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if old.deletion_timestamp().is_some() {
        let added: Vec<_> = obj.finalizers().into_iter().filter(|f| !old.finalizers().contains(f)).collect();
        if !added.is_empty() {
            let list = added.iter().map(|f| format!("{f:?}")).collect::<Vec<_>>().join(", ");
            let text = format!("no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}");
            errors.push(Error::forbidden(&path.child("finalizers"), text));
        }
    }
    if obj.resource_version().is_empty() {
        errors.push(Error::invalid(&path.child("resourceVersion"), obj.resource_version(), "must be specified for an update"));
    }
    if obj.generation() < old.generation() {
        errors.push(Error::invalid(&path.child("generation"), obj.generation(), "must not be decremented"));
    }
    for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let value = |o: &Object| o.meta().get(field).cloned().unwrap_or(Value::Null);
        if value(obj) != value(old) {
            errors.push(Error::invalid(&path.child(field), value(obj), "field is immutable"));
        }
    }
    errors.extend(labels(obj, &path.child("labels")));
    errors.extend(annotations(obj, &path.child("annotations")));
    errors.extend(owners(obj, &path.child("ownerReferences")));
    errors
}

#[cfg(test)]
mod tests;
