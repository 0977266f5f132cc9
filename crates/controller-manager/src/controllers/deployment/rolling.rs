//! Both strategies: replacing pods a few at a time, and all at once. Pure.

use super::{conditions, limits, plan::Plan, sets};
use crate::pods;

impl Plan {
    /// One step of a rolling update: up with the new, or down with the old, never both in one sync.
    pub(super) fn roll(&mut self) {
        self.sync_revision(true);
        if self.scale_new() || self.scale_old() {
            return;
        }
        self.finish();
    }

    fn finish(&mut self) {
        let status = self.deployment.status.clone().unwrap_or_default();
        if conditions::is_complete(&self.deployment, &status) {
            self.clean_up();
        }
    }

    fn scale_new(&mut self) -> bool {
        let Some(new) = self.new else { return false };
        let (current, wanted) = (sets::replicas(&self.sets[new]), limits::replicas(&self.deployment));
        let target = if current > wanted { wanted } else { self.new_replicas() };
        current != target && self.scale(new, target)
    }

    /// Takes away old pods as far as `maxUnavailable` allows, those that never became available first.
    fn scale_old(&mut self) -> bool {
        let old = self.old_active();
        if old.is_empty() {
            return false;
        }
        let all: Vec<usize> = (0..self.sets.len()).collect();
        let new_unavailable = self.new.map_or(0, |new| sets::replicas(&self.sets[new]) - sets::available(&self.sets[new]));
        let most = self.total(&all) - self.min_available() - new_unavailable;
        if most <= 0 {
            return false;
        }
        let unhealthy = self.scale_down_unhealthy(&old, most);
        let healthy = self.scale_down_available(&old);
        unhealthy + healthy > 0
    }

    fn min_available(&self) -> i32 {
        limits::replicas(&self.deployment) - limits::max_unavailable(&self.deployment)
    }

    fn scale_down_unhealthy(&mut self, old: &[usize], most: i32) -> i32 {
        let mut done = 0;
        for index in old {
            let set = &self.sets[*index];
            let (replicas, available) = (sets::replicas(set), sets::available(set));
            let count = (most - done).min(replicas - available);
            if count > 0 {
                done += count;
                self.scale(*index, replicas - count);
            }
        }
        done
    }

    fn scale_down_available(&mut self, old: &[usize]) -> i32 {
        let available: i32 = self.sets.iter().map(sets::available).sum();
        let most = available - self.min_available();
        let mut done = 0;
        for index in old {
            let replicas = sets::replicas(&self.sets[*index]);
            let count = (most - done).min(replicas);
            if count > 0 {
                done += count;
                self.scale(*index, replicas - count);
            }
        }
        done
    }

    /// One step of a recreation: down with all old pods, and up with the new when the last of them is gone.
    pub(super) fn recreate(&mut self) {
        self.sync_revision(false);
        let old = self.old_active();
        let mut scaled = false;
        for index in old {
            scaled |= self.scale(index, 0);
        }
        if scaled || self.old_pods_run() {
            return;
        }
        if self.new.is_none() {
            self.sync_revision(true);
        }
        if let Some(new) = self.new {
            self.scale(new, limits::replicas(&self.deployment));
        }
        self.finish();
    }

    fn old_pods_run(&self) -> bool {
        let old = self.old();
        if old.iter().any(|index| sets::actual(&self.sets[*index]) > 0) {
            return true;
        }
        let new_uid = self.new.and_then(|new| self.sets[new].metadata.uid.as_deref());
        let others = self.pods.iter().filter(|(uid, _)| Some(uid.as_str()) != new_uid);
        others.flat_map(|(_, pods)| pods).any(|pod| !pods::is_finished(pod))
    }
}
