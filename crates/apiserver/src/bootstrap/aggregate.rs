//! Roles made of other roles: whenever cluster roles change, the rules of aggregating ones are put together anew.
//!
//! Upstream leaves this to a controller; its result and ours are the same, so both may run.

use std::sync::Arc;

use apimachinery::Object;
use apimachinery::selector::label;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use crate::informer::{Sink, feed};
use crate::loopback::Loopback;

/// Follows cluster roles; runs until dropped.
pub(super) async fn run(api: Loopback) {
    let roles = Arc::new(Roles::default());
    let cluster_roles = api.api("rbac.authorization.k8s.io/v1", "clusterroles");
    let work = async {
        loop {
            roles.changed.notified().await;
            let all = roles.all.lock().clone();
            for changed in all.iter().filter_map(|role| aggregated(role, &all)) {
                if let Err(status) = cluster_roles.update(&changed).await {
                    // A conflict means a newer state is on its way here, and with it another turn.
                    tracing::debug!(role = changed.name(), error = %status, "aggregating rules failed");
                }
            }
        }
    };
    tokio::join!(feed(cluster_roles.clone(), roles.clone()), work);
}

/// All cluster roles, in order of their names.
#[derive(Default)]
struct Roles {
    all: Mutex<Vec<Object>>,
    changed: Notify,
}

impl Roles {
    fn set(&self, change: impl FnOnce(&mut Vec<Object>)) {
        let mut all = self.all.lock();
        change(&mut all);
        all.sort_by(|a, b| a.name().cmp(b.name()));
        self.changed.notify_one();
    }
}

impl Sink for Roles {
    fn replace(&self, objects: Vec<Object>) {
        self.set(|all| *all = objects);
    }

    fn upsert(&self, object: Object) {
        self.set(|all| {
            all.retain(|other| other.name() != object.name());
            all.push(object);
        });
    }

    fn remove(&self, object: &Object) {
        self.set(|all| all.retain(|other| other.name() != object.name()));
    }
}

/// The role with its rules put together from `all`, if that changes anything.
fn aggregated(role: &Object, all: &[Object]) -> Option<Object> {
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors")?.as_array()?;
    let mut rules: Vec<Value> = Vec::new();
    for selector in selectors.iter().filter_map(|selector| label::Selector::from_label_selector(selector).ok()) {
        let parts = all.iter().filter(|part| part.name() != role.name() && selector.matches(&part.labels()));
        for rule in parts.filter_map(|part| part.pointer("/rules")?.as_array()).flatten() {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    let present = role.pointer("/rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if present == rules {
        return None;
    }
    let mut changed = role.clone();
    changed.0.insert("rules".into(), rules.into());
    Some(changed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_those_of_the_selected_roles_once_each() {
        let object = |value: Value| Object::from_value(value).unwrap();
        let selector = json!({"clusterRoleSelectors": [{"matchLabels": {"to": "view"}}]});
        let view = object(json!({"metadata": {"name": "view", "labels": {"to": "view"}}, "aggregationRule": selector, "rules": null}));
        let part = |name: &str, to: &str, verb: &str| {
            object(json!({"metadata": {"name": name, "labels": {"to": to}}, "rules": [{"verbs": [verb]}]}))
        };
        let all =
            [part("a", "view", "get"), part("b", "view", "get"), part("c", "view", "list"), part("d", "edit", "create"), view.clone()];
        let changed = aggregated(&view, &all).unwrap();
        assert_eq!(changed.pointer("/rules"), Some(&json!([{"verbs": ["get"]}, {"verbs": ["list"]}])));
        assert_eq!(aggregated(&changed, &all), None);
        assert_eq!(aggregated(&all[0], &all), None);
    }
}
