//! What the status of a definition is to say. Pure.

use std::collections::BTreeSet;

use apimachinery::{
    Object,
    field::{self, ErrorList, Path},
    go,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::registry::{
    apiextensions::{
        approval::{self, Approval},
        definition::{set_condition, violations},
        view::{Definition, text, texts},
    },
    edit::ensure_object,
};

/// Names that definitions of one group hold.
#[derive(Debug, Default)]
pub(super) struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    /// Of these accepted names.
    pub(super) fn of<'a>(accepted: impl Iterator<Item = &'a Value>) -> Self {
        let mut taken = Self::default();
        for names in accepted {
            let resources = [text(names, "plural"), text(names, "singular")].into_iter().chain(texts(names, "shortNames"));
            taken.resources.extend(resources.filter(|name| !name.is_empty()).map(str::to_owned));
            let kinds = [text(names, "kind"), text(names, "listKind")].into_iter();
            taken.kinds.extend(kinds.filter(|name| !name.is_empty()).map(str::to_owned));
        }
        taken
    }
}

/// The names that can be accepted, and the last conflict among the others: its reason and message.
struct Names {
    accepted: Map<String, Value>,
    conflict: Option<(&'static str, String)>,
}

impl Names {
    /// Takes a name, unless another definition has it.
    fn take(&mut self, field: &str, wanted: &Value, taken: &BTreeSet<String>, reason: &'static str) {
        let name = text(wanted, field);
        if name != self.accepted.get(field).and_then(Value::as_str).unwrap_or_default() && taken.contains(name) {
            self.conflict = Some((reason, in_use(name)));
        } else if !name.is_empty() || self.accepted.contains_key(field) {
            self.accepted.insert(field.into(), name.into());
        }
    }

    fn take_short_names(&mut self, wanted: &Value, taken: &BTreeSet<String>) {
        let own = short_names(&self.accepted);
        let foreign = texts(wanted, "shortNames").into_iter().filter(|name| !own.iter().any(|own| own == name));
        let conflicts: Vec<String> = foreign.filter(|name| taken.contains(*name)).map(in_use).collect();
        match conflicts.as_slice() {
            [] => copy(&mut self.accepted, wanted, "shortNames"),
            [one] => self.conflict = Some(("ShortNamesConflict", one.clone())),
            many => self.conflict = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
        }
    }
}

fn short_names(names: &Map<String, Value>) -> Vec<String> {
    names.get("shortNames").and_then(Value::as_array).into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn in_use(name: &str) -> String {
    format!("{} is already in use", go::quote(name))
}

fn copy(to: &mut Map<String, Value>, from: &Value, field: &str) {
    match from.get(field) {
        Some(value) => drop(to.insert(field.into(), value.clone())),
        None => drop(to.remove(field)),
    }
}

/// The definition with its names accepted as far as they are free; `None` if that changes nothing.
pub(super) fn accept(definition: &Object, taken: &Taken, now: Timestamp) -> Option<Object> {
    let view = Definition(definition);
    let wanted = view.names();
    let accepted = view.accepted().as_object().cloned().unwrap_or_default();
    let mut names = Names { accepted, conflict: None };
    names.take("plural", wanted, &taken.resources, "PluralConflict");
    names.take("singular", wanted, &taken.resources, "SingularConflict");
    names.take_short_names(wanted, &taken.resources);
    names.take("kind", wanted, &taken.kinds, "KindConflict");
    names.take("listKind", wanted, &taken.kinds, "ListKindConflict");
    copy(&mut names.accepted, wanted, "categories");
    let free = names.conflict.is_none();
    let (reason, message) = names.conflict.unwrap_or(("NoConflicts", "no conflicts found".into()));
    let mut conditions = vec![condition("NamesAccepted", free, reason, &message)];
    if !view.is("Established") && free {
        conditions.push(condition("Established", false, "Installing", "the initial names have been accepted"));
    } else if view.condition("Established").is_none() {
        conditions.push(condition("Established", false, "NotAccepted", "not all names are accepted"));
    }
    changed(definition, Some(names.accepted), conditions, now)
}

/// The definition with what follows from its names: established, and how its schemas and its group stand; `None` if that changes
/// nothing.
pub(super) fn conclude(definition: &Object, now: Timestamp) -> Option<Object> {
    let view = Definition(definition);
    let mut conditions = Vec::new();
    if view.is("NamesAccepted") && !view.is("Established") {
        conditions.push(condition("Established", true, "InitialNamesAccepted", "the initial names have been accepted"));
    }
    conditions.extend(approval_condition(definition));
    let structure = structure_condition(view);
    let outdated = structure.is_none() && view.condition("NonStructuralSchema").is_some();
    conditions.extend(structure);
    let mut definition = definition.clone();
    if outdated && let Some(Value::Array(list)) = definition.pointer_mut("/status/conditions") {
        list.retain(|condition| text(condition, "type") != "NonStructuralSchema");
        return changed(&definition, None, conditions, now).or(Some(definition));
    }
    changed(&definition, None, conditions, now)
}

/// The definition with other conditions.
pub(super) fn with_condition(definition: &Object, condition: Value, now: Timestamp) -> Object {
    let mut out = definition.clone();
    set_condition(ensure_object(&mut out.0, "status"), condition, Some(now));
    out
}

/// A condition without its time.
pub(super) fn condition(kind: &str, status: bool, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": if status { "True" } else { "False" }, "reason": reason, "message": message})
}

fn changed(definition: &Object, accepted: Option<Map<String, Value>>, conditions: Vec<Value>, now: Timestamp) -> Option<Object> {
    let mut out = definition.clone();
    let status = ensure_object(&mut out.0, "status");
    if let Some(accepted) = accepted {
        status.insert("acceptedNames".into(), Value::Object(accepted));
    }
    conditions.into_iter().for_each(|condition| set_condition(status, condition, Some(now)));
    (out != *definition).then_some(out)
}

fn approval_condition(definition: &Object) -> Option<Value> {
    if !approval::is_protected(Definition(definition).group()) {
        return None;
    }
    let (state, message) = approval::state(definition);
    let reason = match state {
        Approval::Invalid => "InvalidAnnotation",
        Approval::Missing => "MissingAnnotation",
        Approval::Approved => "ApprovedAnnotation",
        Approval::Bypassed => "UnapprovedAnnotation",
    };
    Some(condition("KubernetesAPIApprovalPolicyConformant", state == Approval::Approved, reason, &message))
}

/// Schemas stored long ago may not be structural.
fn structure_condition(view: Definition<'_>) -> Option<Value> {
    let spec = Path::new("spec");
    let mut errors = ErrorList::new();
    if view.spec().get("preserveUnknownFields") == Some(&Value::Bool(true)) {
        errors.push(field::Error::invalid(&spec.child("preserveUnknownFields"), true, "must be false"));
    }
    for (at, version) in view.versions().iter().enumerate() {
        let Some(schema) = version.pointer("/schema/openAPIV3Schema") else { continue };
        let path = spec.child("versions").index(at).child("schema").child("openAPIV3Schema");
        match violations(schema, &path) {
            Ok(found) => errors.extend(found),
            Err(why) => {
                let message = format!("failed to check validation schema for version {}: {why}", text(version, "name"));
                let unknown = json!({"type": "NonStructuralSchema", "status": "Unknown", "reason": "StructuralError", "message": message});
                return Some(unknown);
            }
        }
    }
    (!errors.is_empty()).then(|| condition("NonStructuralSchema", true, "Violations", &field::aggregate(&errors)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(plural: &str, kind: &str, status: Value) -> Object {
        let names = json!({"plural": plural, "singular": plural.trim_end_matches('s'), "kind": kind, "listKind": format!("{kind}List")});
        let spec = json!({"group": "example.com", "names": names, "scope": "Namespaced", "versions": []});
        Object::from_value(json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": spec, "status": status})).unwrap()
    }

    fn reason<'a>(definition: &'a Object, kind: &str) -> (&'a str, &'a str) {
        let condition = Definition(definition).condition(kind).unwrap();
        (text(condition, "status"), text(condition, "reason"))
    }

    #[test]
    fn free_names_are_accepted_and_then_established() {
        let new = definition("ws", "W", json!({"acceptedNames": {"plural": "", "kind": ""}, "conditions": null}));
        let accepted = accept(&new, &Taken::default(), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(Definition(&accepted).accepted(), Definition(&accepted).names());
        assert_eq!(reason(&accepted, "NamesAccepted"), ("True", "NoConflicts"));
        assert_eq!(reason(&accepted, "Established"), ("False", "Installing"));
        assert!(accept(&accepted, &Taken::default(), Timestamp::UNIX_EPOCH).is_none());
        let established = conclude(&accepted, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(reason(&established, "Established"), ("True", "InitialNamesAccepted"));
        assert!(conclude(&established, Timestamp::UNIX_EPOCH).is_none());
    }

    #[test]
    fn names_of_others_are_not_accepted_and_the_last_conflict_is_told() {
        let new = definition("vs", "W", json!({"acceptedNames": {"plural": "", "kind": ""}}));
        let first = definition("ws", "W", Value::Null);
        let taken = Taken::of([Definition(&first).names()].into_iter());
        let refused = accept(&new, &taken, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(Definition(&refused).accepted(), &json!({"kind": "", "plural": "vs", "singular": "v"}));
        assert_eq!(reason(&refused, "NamesAccepted"), ("False", "ListKindConflict"));
        assert_eq!(reason(&refused, "Established"), ("False", "NotAccepted"));
        assert!(accept(&refused, &taken, Timestamp::UNIX_EPOCH).is_none(), "what cannot change is not written again");
        assert!(conclude(&refused, Timestamp::UNIX_EPOCH).is_none());
        let freed = accept(&refused, &Taken::default(), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(reason(&freed, "NamesAccepted"), ("True", "NoConflicts"));
    }

    #[test]
    fn an_established_definition_stays_so_when_a_new_short_name_is_taken() {
        let mut own = definition("ws", "W", Value::Null);
        own.0.insert("status".into(), json!({"acceptedNames": Definition(&own).names()}));
        let own = conclude(&accept(&own, &Taken::default(), Timestamp::UNIX_EPOCH).unwrap(), Timestamp::UNIX_EPOCH).unwrap();
        let mut greedy = own.clone();
        greedy.pointer_mut("/spec/names").unwrap()["shortNames"] = json!(["x", "y"]);
        let taken = Taken::of([json!({"shortNames": ["x", "y"]})].iter());
        let refused = accept(&greedy, &taken, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(reason(&refused, "NamesAccepted"), ("False", "ShortNamesConflict"));
        assert_eq!(reason(&refused, "Established").0, "True");
        let message = text(Definition(&refused).condition("NamesAccepted").unwrap(), "message");
        assert_eq!(message, "[\"x\" is already in use, \"y\" is already in use]");
    }

    #[test]
    fn protected_groups_say_how_they_were_approved() {
        let mut definition = definition("ws", "W", json!({}));
        definition.pointer_mut("/spec").unwrap()["group"] = "x.k8s.io".into();
        let concluded = conclude(&definition, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(reason(&concluded, "KubernetesAPIApprovalPolicyConformant"), ("False", "MissingAnnotation"));
    }
}
