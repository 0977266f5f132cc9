//! What is read off a ReplicaSet of a Deployment, and the annotations a Deployment keeps on it. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::PodTemplateSpec,
};
use kube::api::ObjectMeta;

use super::limits;

/// Label that tells the pods of one template from those of another.
pub(super) const HASH: &str = "pod-template-hash";
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a Deployment that are its own business and not copied to its ReplicaSets.
const NOT_COPIED: [&str; 6] =
    ["kubectl.kubernetes.io/last-applied-configuration", REVISION, REVISION_HISTORY, DESIRED, MAX, "deprecated.deployment.rollback.to"];
/// The longest revision history kept on a ReplicaSet, in characters.
const MAX_HISTORY: usize = 2000;

/// `spec.replicas`.
pub(super) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0)
}

/// `status.availableReplicas`.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// `status.replicas`.
pub(super) fn actual(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |status| status.replicas)
}

/// The name.
pub(super) fn name(set: &ReplicaSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}

/// The annotation of that name.
pub(super) fn annotation<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.annotations.as_ref().and_then(|annotations| annotations.get(name)).map(String::as_str)
}

/// The revision recorded on an object, zero without one.
pub(super) fn revision(meta: &ObjectMeta) -> i64 {
    annotation(meta, REVISION).and_then(|revision| revision.parse().ok()).unwrap_or(0)
}

/// The number of replicas the Deployment asked for when it last scaled this ReplicaSet.
pub(super) fn desired(set: &ReplicaSet) -> Option<i32> {
    annotation(&set.metadata, DESIRED).and_then(|desired| desired.parse().ok())
}

/// The number of replicas the Deployment allowed in all when it last scaled this ReplicaSet.
pub(super) fn max(set: &ReplicaSet) -> Option<i32> {
    annotation(&set.metadata, MAX).and_then(|max| max.parse().ok())
}

/// Records on `set` how many replicas `deployment` asks for and allows; whether that changed anything.
pub(super) fn set_replicas_annotations(set: &mut ReplicaSet, deployment: &Deployment) -> bool {
    let desired = limits::replicas(deployment);
    let max = desired.saturating_add(limits::max_surge(deployment));
    let annotations = set.metadata.annotations.get_or_insert_default();
    let mut changed = put(annotations, DESIRED, desired.to_string());
    changed |= put(annotations, MAX, max.to_string());
    changed
}

/// Brings the annotations of the newest ReplicaSet up to date; whether that changed anything.
///
/// A set that had a revision before and gets a higher one is rolled back to: its earlier revisions are kept.
pub(super) fn set_new_annotations(set: &mut ReplicaSet, deployment: &Deployment, new_revision: i64, exists: bool) -> bool {
    let mut changed = copy_annotations(&mut set.metadata, deployment);
    let old = annotation(&set.metadata, REVISION).map(str::to_owned);
    if revision(&set.metadata) < new_revision {
        let annotations = set.metadata.annotations.get_or_insert_default();
        changed |= put(annotations, REVISION, new_revision.to_string());
        if let Some(old) = old.filter(|old| !old.is_empty()) {
            let history = annotations.get(REVISION_HISTORY).cloned().unwrap_or_default();
            put(annotations, REVISION_HISTORY, extended(&history, &old));
        }
    }
    if !exists {
        changed |= set_replicas_annotations(set, deployment);
    }
    changed
}

fn copy_annotations(meta: &mut ObjectMeta, deployment: &Deployment) -> bool {
    let source = deployment.metadata.annotations.iter().flatten();
    let copied = source.filter(|(name, _)| !NOT_COPIED.contains(&name.as_str()));
    let mut changed = false;
    for (name, value) in copied {
        changed |= put(meta.annotations.get_or_insert_default(), name, value.clone());
    }
    changed
}

/// The history with `revision` at its end; the oldest ones go when it gets too long.
fn extended(history: &str, revision: &str) -> String {
    let mut revisions: Vec<&str> = history.split(',').filter(|revision| !revision.is_empty()).collect();
    revisions.push(revision);
    while revisions.len() > 1 && revisions.join(",").len() > MAX_HISTORY {
        revisions.remove(0);
    }
    revisions.join(",")
}

fn put(annotations: &mut BTreeMap<String, String>, name: &str, value: String) -> bool {
    let old = annotations.insert(name.to_owned(), value);
    old.as_ref() != annotations.get(name)
}

/// Whether two templates describe the same pod, the hash label aside.
pub(super) fn same_template(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    let (a, b) = (without_hash(a), without_hash(b));
    a == b || normal(&a) == normal(&b)
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|meta| meta.labels.as_mut()) {
        labels.remove(HASH);
    }
    template
}

/// The template as JSON without empty lists and maps, which mean the same as absent ones.
fn normal(template: &PodTemplateSpec) -> Option<serde_json::Value> {
    let mut value = serde_json::to_value(template).ok()?;
    prune(&mut value);
    Some(value)
}

fn prune(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            // An empty object may say which kind of volume or probe it is, so only lists and known maps are dropped.
            fields.retain(|name, field| {
                let map = matches!(name.as_str(), "labels" | "annotations" | "nodeSelector" | "matchLabels" | "metadata");
                let empty_map = map && field.as_object().is_some_and(serde_json::Map::is_empty);
                !(field.is_null() || empty_map || field.as_array().is_some_and(Vec::is_empty))
            });
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    use serde_json::json;

    use super::{annotation, revision, same_template, set_new_annotations};

    fn deployment() -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"annotations": {
                "kubernetes.io/change-cause": "image v2",
                "deployment.kubernetes.io/revision": "3",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
            }},
            "spec": {"replicas": 4, "selector": {}, "template": {}},
        }))
        .unwrap()
    }

    #[test]
    fn a_new_set_gets_the_cause_the_revision_and_the_sizes() {
        let mut set = ReplicaSet::default();
        assert!(set_new_annotations(&mut set, &deployment(), 4, false));
        let annotations = serde_json::to_value(set.metadata.annotations).unwrap();
        let expected = json!({
            "deployment.kubernetes.io/desired-replicas": "4",
            "deployment.kubernetes.io/max-replicas": "5",
            "deployment.kubernetes.io/revision": "4",
            "kubernetes.io/change-cause": "image v2",
        });
        assert_eq!(annotations, expected);
    }

    #[test]
    fn a_set_rolled_back_to_keeps_its_earlier_revisions() {
        let mut set = ReplicaSet::default();
        for new_revision in [1, 3, 5] {
            set_new_annotations(&mut set, &deployment(), new_revision, true);
        }
        assert_eq!(revision(&set.metadata), 5);
        assert_eq!(annotation(&set.metadata, "deployment.kubernetes.io/revision-history"), Some("1,3"));
        assert!(!set_new_annotations(&mut set, &deployment(), 5, true));
    }

    #[test]
    fn templates_are_compared_without_their_hash() {
        let template = |labels: serde_json::Value| serde_json::from_value(json!({"metadata": {"labels": labels}})).unwrap();
        assert!(same_template(&template(json!({"a": "b"})), &template(json!({"a": "b", "pod-template-hash": "x"}))));
        assert!(!same_template(&template(json!({"a": "b"})), &template(json!({"a": "c"}))));
    }
}
