//! Fills ClusterRoles that have an aggregation rule with the rules of those it selects.

use std::sync::Arc;

use client::{
    Key,
    informer::{Informer, matches},
    queue::{self, Outcome},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::{Api, Client, api::PostParams};

use crate::context::Context;

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    async move {
        let roles: Informer<ClusterRole> = context.informers.of();
        let queue = context.queue("ClusterRoleAggregator");
        let (sink, cache) = (queue.clone(), roles.clone());
        // Any role may be selected by, or no longer selected by, any aggregated one.
        roles.on_change(move |_| {
            for role in cache.list().iter().filter(|role| role.aggregation_rule.is_some()) {
                sink.add(Key::of(&role.metadata));
            }
        });
        roles.synced().await;
        queue::work(queue, 5, context.shutdown, move |key: Key| reconcile(context.client.clone(), roles.clone(), key)).await;
    }
    .boxed()
}

async fn reconcile(client: Client, roles: Informer<ClusterRole>, key: Key) -> anyhow::Result<Outcome> {
    let Some(role) = roles.get(&key) else { return Ok(Outcome::Done) };
    let Some(rules) = plan(&role, &roles.list()) else { return Ok(Outcome::Done) };
    let mut wanted = role.as_ref().clone();
    wanted.rules = Some(rules);
    let api: Api<ClusterRole> = Api::all(client);
    retry::optional(api.replace(&key.name, &PostParams::default(), &wanted).await)?;
    Ok(Outcome::Done)
}

/// The rules that `role` is to have, if it has others: those of all roles any of its selectors matches, by name of role.
fn plan(role: &ClusterRole, all: &[Arc<ClusterRole>]) -> Option<Vec<PolicyRule>> {
    let selectors = role.aggregation_rule.as_ref()?.cluster_role_selectors.as_deref().unwrap_or_default();
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in selectors {
        let selected =
            all.iter().filter(|other| other.metadata.name != role.metadata.name && matches(Some(selector), other.metadata.labels.as_ref()));
        for rule in selected.flat_map(|other| other.rules.iter().flatten()) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    (role.rules.as_deref().unwrap_or_default() != rules).then_some(rules)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::rbac::v1::ClusterRole;
    use serde_json::{Value, json};

    use super::plan;

    fn role(name: &str, body: &Value) -> Arc<ClusterRole> {
        let mut value = json!({"metadata": {"name": name, "labels": {"to": "edit"}}});
        value.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn rules(resource: &str) -> Value {
        json!([{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}])
    }

    #[test]
    fn collects_each_rule_once_and_never_its_own() {
        let aggregated = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "edit"}}]}, "rules": rules("own")});
        let edit = role("edit", &aggregated);
        let all = [
            role("a", &json!({"rules": rules("pods")})),
            edit.clone(),
            role("x", &json!({"rules": rules("pods")})),
            role("y", &json!({"rules": rules("secrets")})),
        ];
        let planned = plan(&edit, &all).unwrap();
        assert_eq!(serde_json::to_value(&planned).unwrap(), json!([rules("pods")[0], rules("secrets")[0]]));
        let mut done = edit.as_ref().clone();
        done.rules = Some(planned);
        assert_eq!(plan(&done, &all), None);
    }

    #[test]
    fn leaves_plain_roles_alone() {
        let plain = role("plain", &json!({"rules": rules("pods")}));
        assert_eq!(plan(&plain, std::slice::from_ref(&plain)), None);
    }
}
