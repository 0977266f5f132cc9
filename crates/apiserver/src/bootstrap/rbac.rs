//! The bootstrap roles and bindings: made when missing, completed when something was taken from them.

use apimachinery::{Object, status::Status};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use crate::authz::rbac::{bootstrap_objects, covered};
use crate::loopback::{Api, Loopback};

const GROUP_VERSION: &str = "rbac.authorization.k8s.io/v1";
/// So many objects are looked at together.
const AT_ONCE: usize = 16;
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

pub(super) async fn reconcile(api: Loopback) -> Result<(), Status> {
    for (resource, objects) in bootstrap_objects() {
        let each = objects.into_iter().map(|wanted| {
            let api = match wanted.namespace() {
                "" => api.api(GROUP_VERSION, resource),
                namespace => api.namespaced(GROUP_VERSION, resource, namespace),
            };
            async move { reconcile_one(&api, &wanted).await }
        });
        stream::iter(each).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    }
    Ok(())
}

async fn reconcile_one(api: &Api, wanted: &Object) -> Result<(), Status> {
    let found = api.get_opt(wanted.name()).await?;
    match plan(wanted, found.as_ref()) {
        Action::Keep => Ok(()),
        Action::Create => super::ensure(api, wanted).await,
        Action::Update(changed) => api.update(&changed).await.map(drop),
        Action::Recreate => {
            let uid = found.as_ref().map(Object::uid).unwrap_or_default();
            api.delete(wanted.name(), &json!({"preconditions": {"uid": uid}})).await?;
            super::ensure(api, wanted).await
        }
    }
}

#[derive(Debug, PartialEq)]
enum Action {
    Keep,
    Create,
    Update(Object),
    /// A binding's role cannot be changed.
    Recreate,
}

/// What to do about one object. Rules and subjects beyond the wanted ones stay; an object whose autoupdate annotation is
/// `false` is its owner's business.
fn plan(wanted: &Object, found: Option<&Object>) -> Action {
    let Some(found) = found else { return Action::Create };
    if found.annotation(AUTOUPDATE) == Some("false") {
        return Action::Keep;
    }
    if wanted.pointer("/roleRef") != found.pointer("/roleRef") {
        return Action::Recreate;
    }
    let mut changed = found.clone();
    for (key, value) in wanted.labels() {
        changed.set_label(&key, &value);
    }
    for (key, value) in wanted.annotations().into_iter().filter(|(key, _)| found.annotation(key).is_none()) {
        changed.set_annotation(&key, &value);
    }
    // Aggregated rules are filled in by aggregation.
    match wanted.pointer("/aggregationRule") {
        Some(rule) => drop(changed.0.insert("aggregationRule".into(), rule.clone())),
        None => complete(&mut changed, wanted, "rules", covered),
    }
    complete(&mut changed, wanted, "subjects", |missing, present| present.contains(missing));
    if changed == *found { Action::Keep } else { Action::Update(changed) }
}

/// Adds the entries of a list that are missing.
fn complete(changed: &mut Object, wanted: &Object, field: &str, has: impl Fn(&Value, &[Value]) -> bool) {
    let list = |object: &Object| object.0.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let present = list(changed);
    let missing: Vec<Value> = list(wanted).into_iter().filter(|entry| !has(entry, &present)).collect();
    if !missing.is_empty() {
        changed.0.insert(field.to_owned(), present.into_iter().chain(missing).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(rules: Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "r", "annotations": {AUTOUPDATE: "true"}}, "rules": rules})).unwrap()
    }

    fn rule(verbs: &[&str]) -> Value {
        json!({"verbs": verbs, "apiGroups": [""], "resources": ["pods"]})
    }

    #[test]
    fn missing_rules_come_back_and_further_ones_stay() {
        let wanted = role(json!([rule(&["get"]), rule(&["list"])]));
        assert_eq!(plan(&wanted, None), Action::Create);
        assert_eq!(plan(&wanted, Some(&wanted)), Action::Keep);
        assert_eq!(plan(&wanted, Some(&role(json!([rule(&["*"])])))), Action::Keep);
        let Action::Update(changed) = plan(&wanted, Some(&role(json!([rule(&["get", "watch"])])))) else { panic!("no update") };
        assert_eq!(changed.pointer("/rules"), Some(&json!([rule(&["get", "watch"]), rule(&["list"])])));
    }

    #[test]
    fn a_role_that_must_not_be_updated_is_left_alone() {
        let mut found = role(json!([]));
        found.set_annotation(AUTOUPDATE, "false");
        assert_eq!(plan(&role(json!([rule(&["get"])])), Some(&found)), Action::Keep);
    }

    #[test]
    fn a_binding_to_another_role_is_made_anew() {
        let binding = |role: &str, subjects: Value| {
            Object::from_value(json!({"metadata": {"name": "b"}, "roleRef": {"name": role}, "subjects": subjects})).unwrap()
        };
        let user = |name: &str| json!({"kind": "User", "name": name});
        let wanted = binding("a", json!([user("x")]));
        assert_eq!(plan(&wanted, Some(&binding("b", json!([])))), Action::Recreate);
        let Action::Update(changed) = plan(&wanted, Some(&binding("a", json!([user("y")])))) else { panic!("no update") };
        assert_eq!(changed.pointer("/subjects"), Some(&json!([user("y"), user("x")])));
    }
}
