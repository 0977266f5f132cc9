use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

prop_compose! {
    fn configs()(
        labels in prop::collection::btree_map("[a-c]", "[0-1]", 0..3),
        containers in prop::collection::btree_map("[a-d]", ("[i-k]", prop::collection::btree_map("[A-B]", "[0-1]", 0..2)), 0..4),
        finalizers in prop::collection::btree_set("[x-z]", 0..3),
    ) -> Value {
        config(&labels, &containers, &finalizers)
    }
}

type Containers = BTreeMap<String, (String, BTreeMap<String, String>)>;

/// A configuration that leaves out what is empty: an empty map or list is a field of its own.
fn config(labels: &BTreeMap<String, String>, containers: &Containers, finalizers: &BTreeSet<String>) -> Value {
    let containers: Vec<Value> = containers
        .iter()
        .map(|(name, (image, env))| {
            let mut item = json!({"name": name, "image": image});
            if !env.is_empty() {
                item["env"] = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
            }
            item
        })
        .collect();
    let mut out = json!({});
    if !labels.is_empty() {
        out["metadata"]["labels"] = json!(labels);
    }
    if !finalizers.is_empty() {
        out["metadata"]["finalizers"] = json!(finalizers);
    }
    if !containers.is_empty() {
        out["spec"] = json!({"containers": containers});
    }
    out
}

/// The object without what managers and the server add.
fn shape(object: &Object) -> Value {
    let mut object = object.clone();
    object.meta_mut().remove("managedFields");
    let mut value = object.into_value();
    Kind::new().schema.fold_empty_lists(&mut value);
    value
}

proptest! {
    #[test]
    fn applying_the_same_again_changes_nothing(config in configs()) {
        let kind = Kind::new();
        let once = kind.applied(None, config.clone(), "m", false).unwrap();
        let twice = kind.applied(Some(&once), config, "m", false).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_sole_managers_last_configuration_is_what_remains(first in configs(), second in configs()) {
        let kind = Kind::new();
        let live = kind.applied(None, first, "m", false).unwrap();
        let live = kind.applied(Some(&live), second.clone(), "m", false).unwrap();
        let fresh = kind.applied(None, second, "m", false).unwrap();
        prop_assert_eq!(shape(&live), shape(&fresh));
        prop_assert_eq!(fields(&live), fields(&fresh));
    }

    #[test]
    fn what_another_manager_applied_survives(mine in configs(), theirs in configs()) {
        let kind = Kind::new();
        let live = kind.applied(None, theirs.clone(), "them", false).unwrap();
        let live = kind.applied(Some(&live), mine, "me", true).unwrap();
        let names = |object: &Value| -> BTreeSet<String> {
            let items = object.pointer("/spec/containers").and_then(Value::as_array).cloned().unwrap_or_default();
            items.iter().filter_map(|item| item["name"].as_str().map(str::to_owned)).collect()
        };
        prop_assert!(names(&live.value()).is_superset(&names(&theirs)));
    }
}

/// Sets of fields, also such that no object has.
fn sets() -> impl Strategy<Value = FieldSet> {
    let element = prop_oneof![
        "[a-c]".prop_map(PathElement::Field),
        "[a-b]".prop_map(|name| PathElement::Key(json!({"name": name}).to_string())),
        "[x-y]".prop_map(|value| PathElement::Value(json!(value).to_string())),
        (0i64..2).prop_map(PathElement::Index),
    ];
    prop::collection::vec(prop::collection::vec(element, 1..4), 0..6).prop_map(|paths| {
        let mut set = FieldSet::default();
        paths.into_iter().for_each(|path| set.insert(path));
        set
    })
}

proptest! {
    #[test]
    fn sets_of_fields_are_sets(a in sets(), b in sets()) {
        prop_assert_eq!(a.clone().union(&b), b.clone().union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert_eq!(a.clone().union(&b).difference(&b), a.difference(&b));
        prop_assert!(a.difference(&a).is_empty() && a.recursive_difference(&a).is_empty());
        prop_assert_eq!(a.within(&b).union(&a.recursive_difference(&b)), a);
    }

    #[test]
    fn a_set_of_fields_comes_back_from_fields_v1(set in sets()) {
        prop_assert_eq!(FieldSet::from_value(&set.to_value()), Some(set));
    }

    #[test]
    fn any_json_is_a_set_of_fields_or_refused(value in crate::arbitrary::json()) {
        if let Some(set) = FieldSet::from_value(&value) {
            prop_assert_eq!(FieldSet::from_value(&set.to_value()), Some(set));
        }
    }

    #[test]
    fn an_update_by_another_keeps_what_stays_applied(config in configs(), label in "[d-f]") {
        let kind = Kind::new();
        let live = kind.applied(None, config.clone(), "m", false).unwrap();
        // Where nobody manages anything, nobody comes to by an update.
        prop_assume!(fields(&live) != json!({}));
        let mut changed = live.value();
        changed["metadata"]["labels"][label.as_str()] = "u".into();
        let live = kind.updated(Some(&live), changed, "u");
        let again = kind.applied(Some(&live), config, "m", false).unwrap();
        prop_assert!(same_but_for_times(&again, &live), "{}\n{}", again.value(), live.value());
    }

    #[test]
    fn who_gives_everything_up_leaves_what_others_applied(mine in configs(), theirs in configs()) {
        let kind = Kind::new();
        let before = kind.applied(None, theirs.clone(), "them", false).unwrap();
        let both = kind.applied(Some(&before), mine, "me", true).unwrap();
        let after = kind.applied(Some(&both), json!({}), "me", true).unwrap();
        prop_assert!(fields(&after).get("me").is_none());
        let again = kind.applied(Some(&after), theirs, "them", true).unwrap();
        prop_assert_eq!(shape(&again), shape(&before));
    }

    #[test]
    fn any_json_is_applied_or_refused(live in crate::arbitrary::json(), config in crate::arbitrary::json(), force in any::<bool>()) {
        let kind = Kind::new();
        let decoded = kind.schema.decode_value(&live).ok().and_then(|decoded| Object::from_value(decoded.value).ok());
        let live = decoded.unwrap_or_else(|| empty(&kind.context()));
        let typed = if let Value::Object(_) = config { with_type(config) } else { config };
        let _ = apply(&live, &typed, "m", force, &kind.context());
        let mut new = live.clone();
        update(&empty(&kind.context()), &mut new, "u", &kind.context());
    }
}
