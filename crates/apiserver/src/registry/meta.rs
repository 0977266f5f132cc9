//! `ObjectMeta` rules every kind shares: what the server fills in, and what it refuses (upstream's
//! `apimachinery/pkg/api/validation`).

use apimachinery::{
    Object,
    field::{Error, ErrorKind, ErrorList, Path},
    names,
};
use serde_json::Value;

use super::{Generation, Resource};

/// Longest name made from generateName, without its random end.
const MAX_GENERATED_BASE: usize = 58;
/// Letters of a random end: no vowels, so that no words appear; nothing easily mistaken.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// All annotations together, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

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
        Generation::Fields(fields) => fields.iter().any(|f| part(obj, f) != part(old, f)),
        Generation::AllButMetadata => !same_content(obj, old),
    };
    let generation = match old {
        _ if rule == Generation::Never => return,
        None => 1,
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

/// Drops repeated owner references (same uid and everything else), keeping the first.
pub(crate) fn dedup_owners(obj: &mut Object) {
    if let Some(Value::Array(owners)) = obj.meta_mut().get_mut("ownerReferences") {
        let mut seen = Vec::new();
        owners.retain(|owner| {
            let fresh = !seen.contains(owner);
            seen.push(owner.clone());
            fresh
        });
    }
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
    errors.extend(finalizers(obj, &path.child("finalizers"), resource.strategy.wants_qualified_finalizers()));
    errors
}

/// Checks the metadata of a resource inside of a custom resource; `obj` holds nothing else.
pub(crate) fn validate_embedded(obj: &Object, path: &Path) -> ErrorList {
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
    errors.extend(finalizers(obj, &path.child("finalizers"), false));
    errors
}

fn not_negative(path: &Path, value: i64) -> Error {
    Error::invalid(path, value, "must be greater than or equal to 0")
}

fn labels(obj: &Object, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (key, value) in obj.labels() {
        errors.extend(names::is_qualified_name(&key).into_iter().map(|t| Error::invalid(path, key.as_str(), t)));
        errors.extend(names::is_valid_label_value(&value).into_iter().map(|t| Error::invalid(&path.key(&key), value.as_str(), t)));
    }
    errors
}

fn annotations(obj: &Object, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let annotations = obj.annotations();
    for key in annotations.keys() {
        let texts = names::is_qualified_name(&key.to_lowercase());
        errors.extend(texts.into_iter().map(|t| Error::invalid(path, key.as_str(), t)));
    }
    if annotations.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>() > MAX_ANNOTATIONS {
        errors.push(Error::too_long(path, "", MAX_ANNOTATIONS));
    }
    errors
}

fn owners(obj: &Object, path: &Path) -> ErrorList {
    let (mut errors, mut controller) = (ErrorList::new(), None::<String>);
    let owners = obj.owner_references();
    for owner in &owners {
        for (field, value, detail) in [
            ("apiVersion", &owner.api_version, "version must not be empty"),
            ("kind", &owner.kind, "must not be empty"),
            ("name", &owner.name, "must not be empty"),
            ("uid", &owner.uid, "must not be empty"),
        ] {
            if value.is_empty() {
                errors.push(Error::invalid(&path.child(field), "", detail));
            }
        }
        if owner.api_version == "v1" && owner.kind == "Event" {
            errors.push(invalid_owners(path, owner, "/v1, Kind=Event is disallowed from being an owner"));
        }
        if owner.controller == Some(true) {
            let name = format!("{}/{}", owner.kind, owner.name);
            if let Some(first) = &controller {
                let found = format!("Found \"true\" in references for {first} and {name}");
                errors.push(invalid_owners(path, &owners, &format!("Only one reference can have Controller set to true. {found}")));
            } else {
                controller = Some(name);
            }
        }
    }
    errors
}

/// "Invalid value" with the owners' fields in the order in which upstream declares them, which a JSON value does not keep.
fn invalid_owners(path: &Path, owners: &impl serde::Serialize, detail: &str) -> Error {
    let shown = serde_json::to_string(owners).unwrap_or_default();
    Error::new(ErrorKind::Invalid, path, None, format!("{shown}: {detail}"))
}

/// Finalizers that need no domain.
pub(crate) const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

fn finalizers(obj: &Object, path: &Path, qualified: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let list = obj.finalizers();
    for (at, finalizer) in list.iter().enumerate() {
        let texts = names::is_qualified_name(finalizer);
        let bad = !texts.is_empty();
        errors.extend(texts.into_iter().map(|t| Error::invalid(path, finalizer.as_str(), t)));
        if qualified && !bad && !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer.as_str()) {
            errors.push(Error::invalid(
                &path.index(at),
                finalizer.as_str(),
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
    let has = |name: &str| list.iter().any(|f| f == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.push(Error::invalid(path, list_value(&list), "finalizer orphan and foregroundDeletion cannot be both set"));
    }
    errors
}

fn list_value(list: &[String]) -> Value {
    list.iter().map(|s| Value::from(s.as_str())).collect()
}

/// Takes over from `old` what a client may leave out of an update.
pub(crate) fn carry_over(obj: &mut Object, old: &Object) {
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if obj.meta().get(field).is_none_or(Value::is_null)
            && let Some(value) = old.meta().get(field)
        {
            obj.meta_mut().insert(field.into(), value.clone());
        }
    }
}

/// Checks how metadata changed.
pub(crate) fn validate_update(obj: &Object, old: &Object) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("metadata");
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
mod tests {
    use super::*;
    use crate::registry::namespaced;
    use serde_json::json;

    fn object(meta: Value) -> Object {
        Object::from_value(json!({"metadata": meta})).unwrap()
    }

    fn texts(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_or_a_prefix_for_one_is_required() {
        let errors = validate(&namespaced("", "v1", "ConfigMap", "configmaps"), &object(json!({"namespace": "a"})));
        assert_eq!(texts(&errors), ["metadata.name: Required value: name or generateName is required"]);
    }

    #[test]
    fn generated_names_end_in_five_random_letters() {
        let name = generated_name(&"a".repeat(70));
        assert_eq!(name.len(), 63);
        assert!(generated_name("gen-").starts_with("gen-"));
    }

    #[test]
    fn generation_counts_up_with_the_spec_only() {
        let old = Object::from_value(json!({"metadata": {"generation": 2}, "spec": {"a": 1}, "status": {}})).unwrap();
        let mut new = old.clone();
        new.0.insert("status".into(), json!({"x": 1}));
        set_generation(Generation::Fields(&["spec"]), &mut new, Some(&old));
        assert_eq!(new.generation(), 2);
        new.0.insert("spec".into(), json!({"a": 2}));
        set_generation(Generation::Fields(&["spec"]), &mut new, Some(&old));
        assert_eq!(new.generation(), 3);
    }

    #[test]
    fn two_controllers_are_refused_and_shown_as_go_declares_them() {
        let owner = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": "u", "controller": true});
        let mut obj = object(json!({"name": "a", "namespace": "n", "ownerReferences": [owner("x"), owner("y")]}));
        let resource = namespaced("", "v1", "ConfigMap", "configmaps");
        let text = "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"x\",\"uid\":\"u\",\
                    \"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"y\",\"uid\":\"u\",\"controller\":true}]: \
                    Only one reference can have Controller set to true. Found \"true\" in references for ConfigMap/x and ConfigMap/y";
        assert_eq!(texts(&validate(&resource, &obj)), [text]);
        obj.meta_mut().insert("ownerReferences".into(), json!([{"apiVersion": "v1", "kind": "Event", "name": "", "uid": "u"}]));
        assert_eq!(validate(&resource, &obj).len(), 2);
    }

    #[test]
    fn a_changed_uid_is_refused_and_a_missing_one_carried_over() {
        let old = object(json!({"name": "a", "uid": "1", "resourceVersion": "5"}));
        let mut new = object(json!({"name": "a", "resourceVersion": "5"}));
        carry_over(&mut new, &old);
        assert!(validate_update(&new, &old).is_empty());
        new.set_uid("2");
        assert_eq!(texts(&validate_update(&new, &old)), ["metadata.uid: Invalid value: \"2\": field is immutable"]);
    }
}
