//! The ReplicaSet of the current template: finding it, making it, numbering it. Pure.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use kube::api::ObjectMeta;

use super::{
    conditions, limits,
    plan::{Action, Plan},
    sets,
};
use crate::{owner, template_hash::template_hash};

/// Index of the oldest ReplicaSet with the deployment's template; `sets` are sorted by age.
pub(super) fn find_new(deployment: &Deployment, sets: &[ReplicaSet]) -> Option<usize> {
    let template = &deployment.spec.as_ref()?.template;
    let template_of = |set: &ReplicaSet| set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    sets.iter().position(|set| sets::same_template(&template_of(set), template))
}

impl Plan {
    /// Numbers the new ReplicaSet after all old ones, and creates it if `create` and there is none.
    pub(super) fn sync_revision(&mut self, create: bool) {
        let old = self.old();
        let latest = old.iter().map(|index| sets::revision(&self.sets[*index].metadata)).max().unwrap_or(0);
        match self.new {
            Some(index) => self.adopt_revision(index, latest + 1),
            None if create => self.create_new(latest + 1),
            None => {}
        }
    }

    fn adopt_revision(&mut self, index: usize, revision: i64) {
        let min_ready = self.deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
        let set = &mut self.sets[index];
        let annotated = sets::set_new_annotations(set, &self.deployment, revision, true);
        let spec = set.spec.get_or_insert_default();
        if annotated || spec.min_ready_seconds.unwrap_or(0) != min_ready.unwrap_or(0) {
            spec.min_ready_seconds = min_ready;
            self.actions.push(Action::UpdateSet(Box::new(set.clone())));
        }
        let revision = sets::annotation(&set.metadata, sets::REVISION).unwrap_or_default().to_owned();
        let name = sets::name(set).to_owned();
        self.number(revision);
        if limits::progress_deadline(&self.deployment).is_some() && conditions::get(&self.deployment, conditions::PROGRESSING).is_none() {
            let message = format!("Found new replica set \"{name}\"");
            self.set_progressing("True", "FoundNewReplicaSet", message);
        }
    }

    fn create_new(&mut self, revision: i64) {
        let mut set = new_set(&self.deployment);
        let name = sets::name(&set).to_owned();
        self.sets.push(set.clone());
        let index = self.sets.len() - 1;
        self.new = Some(index);
        let replicas = self.new_replicas();
        set.spec.get_or_insert_default().replicas = Some(replicas);
        sets::set_new_annotations(&mut set, &self.deployment, revision, false);
        self.sets[index] = set.clone();
        self.actions.push(Action::CreateSet(Box::new(set)));
        if replicas > 0 {
            let message = format!("Scaled up replica set {name} from 0 to {replicas}");
            self.actions.push(Action::Normal("ScalingReplicaSet", message));
        }
        self.number(revision.to_string());
        if limits::progress_deadline(&self.deployment).is_some() {
            let message = format!("Created new replica set \"{name}\"");
            self.set_progressing("True", "NewReplicaSetCreated", message);
        }
    }

    fn number(&mut self, revision: String) {
        self.deployment.metadata.annotations.get_or_insert_default().insert(sets::REVISION.into(), revision);
    }

    /// How many replicas the new ReplicaSet may have at once.
    pub(super) fn new_replicas(&self) -> i32 {
        let wanted = limits::replicas(&self.deployment);
        let Some(new) = self.new else { return wanted };
        if !limits::is_rolling(&self.deployment) {
            return wanted;
        }
        let current = sets::replicas(&self.sets[new]);
        let all: Vec<usize> = (0..self.sets.len()).collect();
        let room = wanted.saturating_add(limits::max_surge(&self.deployment)) - self.total(&all);
        if room <= 0 { current } else { current + room.min(wanted - current) }
    }
}

/// The ReplicaSet of the deployment's template, with no replicas yet.
pub(super) fn new_set(deployment: &Deployment) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count);
    let hash = template_hash(&spec.template, collisions);
    let mut template = spec.template;
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(sets::HASH.into(), hash.clone());
    let labels = labels.clone();
    let mut selector = spec.selector;
    selector.match_labels.get_or_insert_default().insert(sets::HASH.into(), hash.clone());
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.metadata.name.as_deref().unwrap_or_default())),
            namespace: deployment.metadata.namespace.clone(),
            owner_references: Some(vec![owner::reference(deployment)]),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec { replicas: Some(0), min_ready_seconds: spec.min_ready_seconds, selector, template: Some(template) }),
        status: None,
    }
}
