//! ControllerRevisions: the templates a StatefulSet or DaemonSet has had.

use std::sync::Arc;

use anyhow::Context as _;
use client::retry;
use k8s_openapi::{
    Resource as Typed,
    api::{apps::v1::ControllerRevision, core::v1::PodTemplateSpec},
    apimachinery::pkg::runtime::RawExtension,
};
use kube::{
    Api, Resource,
    api::{DeleteParams, ObjectMeta, PostParams},
};
use serde_json::{Value, json};

use crate::owner;

/// The patch that brings a template back, which is what a revision stores.
pub(crate) fn patch(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

/// The patch as Go writes it: sorted, compact, and with the characters escaped that HTML minds.
pub(crate) fn raw(patch: &Value) -> String {
    let mut text = String::new();
    for character in patch.to_string().chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", u32::from(character))),
            other => text.push(other),
        }
    }
    text
}

/// The template a revision stores.
pub(crate) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.pointer("/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

/// A revision of `owner` with this template and number, under `name`.
pub(crate) fn new<O: Typed + Resource>(owner: &O, template: &PodTemplateSpec, number: i64, name: String) -> ControllerRevision {
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: owner.meta().namespace.clone(),
            labels: template.metadata.as_ref().and_then(|meta| meta.labels.clone()),
            annotations: owner.meta().annotations.clone().map(|mut annotations| {
                annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
                annotations
            }),
            owner_references: Some(vec![owner::reference(owner)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(patch(template))),
        revision: number,
    }
}

/// What to do so that the newest revision is the one of the present template.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// It is.
    Current(Arc<ControllerRevision>),
    /// An older one has the template: it becomes the newest.
    Renumber(Arc<ControllerRevision>, i64),
    /// None has it: one of this number is to be made.
    Create(i64),
}

/// Compares the revisions there are with the present template. Pure.
pub(crate) fn plan(revisions: &[Arc<ControllerRevision>], present: &PodTemplateSpec) -> Step {
    let data = patch(present);
    let newest = revisions.iter().max_by_key(|revision| revision.revision);
    let next = newest.map_or(1, |newest| newest.revision + 1);
    let same = |revision: &&Arc<ControllerRevision>| revision.data.as_ref().is_some_and(|stored| stored.0 == data);
    match revisions.iter().filter(same).max_by_key(|revision| revision.revision) {
        Some(equal) if Some(equal) == newest => Step::Current(Arc::clone(equal)),
        Some(equal) => Step::Renumber(Arc::clone(equal), next),
        None => Step::Create(next),
    }
}

/// Takes the step; the newest revision. `make` names a new one by how often its name was taken.
pub(crate) async fn apply(
    api: &Api<ControllerRevision>,
    step: Step,
    mut make: impl FnMut(i64, i32) -> ControllerRevision,
) -> anyhow::Result<Arc<ControllerRevision>> {
    match step {
        Step::Current(revision) => Ok(revision),
        Step::Renumber(revision, number) => {
            let mut renumbered = revision.as_ref().clone();
            renumbered.revision = number;
            let name = revision.metadata.name.clone().unwrap_or_default();
            Ok(Arc::new(api.replace(&name, &PostParams::default(), &renumbered).await.context("renumber revision")?))
        }
        Step::Create(number) => {
            for collisions in 0..10 {
                let wanted = make(number, collisions);
                let error = match api.create(&PostParams::default(), &wanted).await {
                    Ok(created) => return Ok(Arc::new(created)),
                    Err(error) if retry::is_already_exists(&error) => error,
                    Err(error) => return Err(error).context("create revision"),
                };
                let name = wanted.metadata.name.clone().unwrap_or_default();
                // Our own, which the cache has not shown yet.
                if let Some(existing) = retry::optional(api.get(&name).await)?
                    && existing.data == wanted.data
                {
                    return Ok(Arc::new(existing));
                }
                tracing::debug!(%error, "revision name is taken");
            }
            anyhow::bail!("ten names for a new revision are taken")
        }
    }
}

/// Deletes the oldest revisions nobody uses beyond `limit`.
pub(crate) async fn truncate(
    api: &Api<ControllerRevision>,
    revisions: &[Arc<ControllerRevision>],
    used: impl Fn(&ControllerRevision) -> bool,
    limit: i32,
) -> kube::Result<()> {
    let mut unused: Vec<_> = revisions.iter().filter(|revision| !used(revision)).collect();
    unused.sort_by_key(|revision| revision.revision);
    let excess = unused.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    for revision in unused.into_iter().take(excess) {
        let name = revision.metadata.name.as_deref().unwrap_or_default();
        retry::optional(api.delete(name, &DeleteParams::default()).await)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::PodTemplateSpec};
    use serde_json::json;

    use super::{Step, new, patch, plan, raw};
    use crate::template_hash::revision_hash;

    fn template(image: &str) -> PodTemplateSpec {
        serde_json::from_value(json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "containers": [{
                    "image": image, "imagePullPolicy": "IfNotPresent", "name": "c", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    "volumeMounts": [{"mountPath": "/d", "name": "data"}],
                }],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "golden-none",
                "securityContext": {}, "terminationGracePeriodSeconds": 30,
            },
        }))
        .unwrap()
    }

    #[test]
    fn names_a_revision_as_upstream_does() {
        assert_eq!(revision_hash(&raw(&patch(&template("img:1"))), Some(0)), "86d54d46dc");
    }

    #[test]
    fn escapes_what_go_escapes() {
        assert_eq!(raw(&json!({"a": "<&>"})), r#"{"a":"\u003c\u0026\u003e"}"#);
    }

    #[test]
    fn a_template_seen_before_is_renumbered_and_not_made_again() {
        let set = StatefulSet::default();
        let old = Arc::new(new(&set, &template("v1"), 1, "s-1".into()));
        let newer = Arc::new(new(&set, &template("v2"), 2, "s-2".into()));
        let revisions = [old.clone(), newer.clone()];
        assert_eq!(plan(&revisions, &template("v2")), Step::Current(newer));
        assert_eq!(plan(&revisions, &template("v1")), Step::Renumber(old, 3));
        assert_eq!(plan(&revisions, &template("v3")), Step::Create(3));
    }
}
