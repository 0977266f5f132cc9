//! The pods and claims of a StatefulSet, each with a name of its own. Pure.

use std::sync::Arc;

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume},
};

use crate::pod_control::from_template;

pub(super) const REVISION: &str = "controller-revision-hash";
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

pub(super) fn name(set: &StatefulSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}

/// The ordinal a pod's name ends with, if it is one of `set`'s names.
pub(super) fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    pod.metadata.name.as_deref()?.strip_prefix(name(set))?.strip_prefix('-')?.parse().ok()
}

/// The ordinals that should exist.
pub(super) fn ordinals(set: &StatefulSet) -> std::ops::Range<i32> {
    let spec = set.spec.clone().unwrap_or_default();
    let start = spec.ordinals.and_then(|ordinals| ordinals.start).unwrap_or(0);
    start..start.saturating_add(spec.replicas.unwrap_or(1))
}

/// The revision a pod was made of.
pub(super) fn revision(pod: &Pod) -> &str {
    let labels = pod.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(REVISION)).map(String::as_str).unwrap_or_default()
}

/// The pod of that ordinal, of a revision and its template.
pub(super) fn pod(set: &StatefulSet, template: &PodTemplateSpec, revision: &str, ordinal: i32) -> Pod {
    let mut pod = from_template(set, Some(template));
    let name = format!("{}-{ordinal}", name(set));
    pod.metadata.name = Some(name.clone());
    pod.metadata.namespace.clone_from(&set.metadata.namespace);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_NAME.into(), name.clone());
    labels.insert(POD_INDEX.into(), ordinal.to_string());
    labels.insert(REVISION.into(), revision.into());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    spec.subdomain = set.spec.as_ref().and_then(|spec| spec.service_name.clone()).filter(|service| !service.is_empty());
    let claims = claims(set, ordinal);
    let mut volumes: Vec<Volume> = claims
        .iter()
        .map(|(template, claim)| Volume {
            name: template.clone(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.metadata.name.clone().unwrap_or_default(),
                ..PersistentVolumeClaimVolumeSource::default()
            }),
            ..Volume::default()
        })
        .collect();
    // A claim takes the place of a volume of the same name.
    let others = spec.volumes.take().unwrap_or_default().into_iter();
    volumes.extend(others.filter(|volume| !claims.iter().any(|(template, _)| *template == volume.name)));
    spec.volumes = Some(volumes).filter(|volumes| !volumes.is_empty());
    pod
}

/// The claims of the pod of that ordinal, with the names of their templates.
pub(super) fn claims(set: &StatefulSet, ordinal: i32) -> Vec<(String, PersistentVolumeClaim)> {
    let spec = set.spec.clone().unwrap_or_default();
    let templates = spec.volume_claim_templates.unwrap_or_default().into_iter();
    let made = templates.map(|mut claim| {
        let template = claim.metadata.name.clone().unwrap_or_default();
        claim.metadata.name = Some(format!("{template}-{}-{ordinal}", name(set)));
        claim.metadata.namespace.clone_from(&set.metadata.namespace);
        let labels = claim.metadata.labels.get_or_insert_default();
        labels.extend(spec.selector.match_labels.clone().unwrap_or_default());
        claim.status = None;
        (template, claim)
    });
    made.collect()
}

/// The pods of `set` among `pods`, by ordinal.
pub(super) fn by_ordinal(set: &StatefulSet, pods: &[Arc<Pod>]) -> Vec<(i32, Arc<Pod>)> {
    let mut sorted: Vec<_> = pods.iter().filter_map(|pod| Some((ordinal(set, pod)?, Arc::clone(pod)))).collect();
    sorted.sort_by_key(|(ordinal, _)| *ordinal);
    sorted
}
