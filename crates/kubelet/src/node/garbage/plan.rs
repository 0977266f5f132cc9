//! Which dead containers and sandboxes of pods that are still there have to go. Pure.
//!
//! The rules are those of upstream's container garbage collection (`pkg/kubelet/kuberuntime/kuberuntime_gc.go`): of each
//! container of a pod the newest dead ones stay, for `kubectl logs --previous` and the last state; a dead sandbox goes once it
//! is empty, unless it is its pod's newest.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::cri::{labels, v1};

/// How much of what is dead stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GarbagePolicy {
    /// A container that was created less than this ago stays (`--minimum-container-ttl-duration`).
    pub(crate) min_age: SignedDuration,
    /// So many of each container of a pod stay; `None`: all (`--maximum-dead-containers-per-container`).
    pub(crate) per_container: Option<usize>,
    /// So many of the whole node stay; `None`: all (`--maximum-dead-containers`).
    pub(crate) per_node: Option<usize>,
}

impl Default for GarbagePolicy {
    /// Upstream's.
    fn default() -> Self {
        Self { min_age: SignedDuration::ZERO, per_container: Some(1), per_node: None }
    }
}

/// The containers that have to go, of the pods that `lives` says are there.
pub(crate) fn containers(
    all: &[v1::Container],
    lives: impl Fn(&str) -> bool,
    policy: GarbagePolicy,
    now: Timestamp,
) -> Vec<&v1::Container> {
    let mut units = Units::of(all, lives, now.saturating_sub(policy.min_age).unwrap_or(Timestamp::MIN));
    let mut doomed = policy.per_container.map_or_else(Vec::new, |most| units.leave(most));
    if let Some(most) = policy.per_node.filter(|most| units.count() > *most) {
        // First an equal share for everybody, one at least; then the oldest go, whosever they are.
        let share = (most / units.0.len()).max(1);
        doomed.extend(units.leave(share));
        let mut rest: Vec<_> = units.0.into_values().flatten().collect();
        rest.sort_by_key(newest_first);
        doomed.extend(rest.into_iter().skip(most));
    }
    doomed
}

/// Dead containers by pod and name, newest first.
struct Units<'a>(BTreeMap<(&'a str, &'a str), Vec<&'a v1::Container>>);

impl<'a> Units<'a> {
    fn of(all: &'a [v1::Container], lives: impl Fn(&str) -> bool, newest: Timestamp) -> Self {
        let mut units = BTreeMap::<_, Vec<_>>::new();
        let running = v1::ContainerState::ContainerRunning as i32;
        let old = |container: &&v1::Container| i128::from(container.created_at) <= newest.as_nanosecond();
        for container in all.iter().filter(|container| container.state != running).filter(old) {
            let label = |key| container.labels.get(key).map(String::as_str);
            if let (Some(uid), Some(name)) = (label(labels::POD_UID), label(labels::CONTAINER_NAME))
                && lives(uid)
            {
                units.entry((uid, name)).or_default().push(container);
            }
        }
        units.values_mut().for_each(|unit| unit.sort_by_key(newest_first));
        Self(units)
    }

    fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Takes out all but the newest `most` of each.
    fn leave(&mut self, most: usize) -> Vec<&'a v1::Container> {
        self.0.values_mut().flat_map(|unit| unit.split_off(unit.len().min(most))).collect()
    }
}

fn newest_first(container: &&v1::Container) -> std::cmp::Reverse<i64> {
    std::cmp::Reverse(container.created_at)
}

/// The sandboxes that have to go, of the pods that `lives` says are there; `containers` are all there are.
pub(crate) fn sandboxes<'a>(
    all: &'a [v1::PodSandbox],
    containers: &[v1::Container],
    lives: impl Fn(&str) -> bool,
) -> Vec<&'a v1::PodSandbox> {
    let used: BTreeSet<&str> = containers.iter().map(|container| container.pod_sandbox_id.as_str()).collect();
    let ready = v1::PodSandboxState::SandboxReady as i32;
    let mut pods = BTreeMap::<&str, Vec<&v1::PodSandbox>>::new();
    for sandbox in all {
        if let Some(uid) = sandbox.labels.get(labels::POD_UID).filter(|uid| lives(uid)) {
            pods.entry(uid).or_default().push(sandbox);
        }
    }
    let mut doomed = vec![];
    for mut pod in pods.into_values() {
        pod.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.created_at));
        // The newest tells how often the pod was begun anew.
        doomed.extend(pod.into_iter().skip(1).filter(|sandbox| sandbox.state != ready && !used.contains(sandbox.id.as_str())));
    }
    doomed
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const RUNNING: v1::ContainerState = v1::ContainerState::ContainerRunning;
    const EXITED: v1::ContainerState = v1::ContainerState::ContainerExited;
    const UNKNOWN: v1::ContainerState = v1::ContainerState::ContainerUnknown;
    const READY: v1::PodSandboxState = v1::PodSandboxState::SandboxReady;
    const DEAD: v1::PodSandboxState = v1::PodSandboxState::SandboxNotready;

    fn label(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A container named after its pod, its name and the second it was created in, in the sandbox of that second.
    fn container(pod: &str, name: &str, created: i64, state: v1::ContainerState) -> v1::Container {
        v1::Container {
            id: format!("{pod}/{name}/{created}"),
            pod_sandbox_id: format!("{pod}/{created}"),
            created_at: created * 1_000_000_000,
            state: state as i32,
            labels: label(&[(labels::POD_UID, pod), (labels::CONTAINER_NAME, name)]),
            ..Default::default()
        }
    }

    fn sandbox(pod: &str, created: i64, state: v1::PodSandboxState) -> v1::PodSandbox {
        v1::PodSandbox {
            id: format!("{pod}/{created}"),
            created_at: created * 1_000_000_000,
            state: state as i32,
            labels: label(&[(labels::POD_UID, pod)]),
            ..Default::default()
        }
    }

    /// What goes at second 100, oldest last within a pod's container.
    fn goes(all: &[v1::Container], policy: GarbagePolicy) -> Vec<&str> {
        containers(all, |uid| uid != "gone", policy, second(100)).into_iter().map(|container| container.id.as_str()).collect()
    }

    #[test]
    fn the_newest_dead_one_of_each_container_stays() {
        let all = [
            container("web", "main", 1, EXITED),
            container("web", "main", 3, EXITED),
            container("web", "main", 2, EXITED),
            container("web", "main", 4, RUNNING),
            container("web", "side", 1, EXITED),
            container("shop", "main", 1, EXITED),
        ];
        assert_eq!(goes(&all, GarbagePolicy::default()), ["web/main/2", "web/main/1"]);
    }

    #[test]
    fn a_container_of_unknown_state_counts_as_dead() {
        let all = [container("web", "main", 1, UNKNOWN), container("web", "main", 2, UNKNOWN)];
        assert_eq!(goes(&all, GarbagePolicy::default()), ["web/main/1"]);
    }

    #[test]
    fn the_young_stay_and_do_not_count() {
        let all = [container("web", "main", 70, EXITED), container("web", "main", 80, EXITED), container("web", "main", 95, EXITED)];
        let policy = GarbagePolicy { min_age: SignedDuration::from_secs(10), ..GarbagePolicy::default() };
        assert_eq!(goes(&all, policy), ["web/main/70"]);
    }

    #[test]
    fn limits_may_be_none_or_nothing() {
        let all = [container("web", "main", 1, EXITED), container("web", "main", 2, EXITED), container("web", "main", 3, RUNNING)];
        assert!(goes(&all, GarbagePolicy { per_container: None, ..GarbagePolicy::default() }).is_empty());
        assert_eq!(goes(&all, GarbagePolicy { per_container: Some(0), ..GarbagePolicy::default() }), ["web/main/2", "web/main/1"]);
    }

    #[test]
    fn a_limit_of_the_node_is_shared_and_then_takes_the_oldest() {
        let mut all: Vec<_> = (1..=4).map(|created| container("a", "main", created, EXITED)).collect();
        all.extend([container("b", "main", 5, EXITED), container("c", "main", 6, EXITED)]);
        let policy = |most| GarbagePolicy { per_container: None, per_node: Some(most), ..GarbagePolicy::default() };
        assert!(goes(&all, policy(6)).is_empty());
        // Two each, which is enough.
        assert_eq!(goes(&all, policy(5)), ["a/main/3", "a/main/2", "a/main/1"]);
        // One each, and one of those too.
        assert_eq!(goes(&all, policy(2)), ["a/main/3", "a/main/2", "a/main/1", "a/main/4"]);
        assert!(goes(&[], policy(0)).is_empty());
    }

    #[test]
    fn pods_that_are_gone_and_strangers_are_others_business() {
        let stranger = v1::Container { labels: HashMap::new(), ..container("x", "main", 1, EXITED) };
        let all = [container("gone", "main", 1, EXITED), container("gone", "main", 2, EXITED), stranger];
        assert!(goes(&all, GarbagePolicy { per_container: Some(0), ..GarbagePolicy::default() }).is_empty());
        let foreign = v1::PodSandbox { labels: HashMap::new(), ..sandbox("x", 1, DEAD) };
        let all = [sandbox("gone", 1, DEAD), sandbox("gone", 2, DEAD), foreign];
        assert!(sandboxes(&all, &[], |uid| uid != "gone").is_empty());
    }

    #[test]
    fn a_dead_sandbox_goes_when_it_is_empty_and_not_the_newest() {
        let all = [
            sandbox("web", 1, DEAD),
            sandbox("web", 2, DEAD),
            sandbox("web", 3, READY),
            sandbox("web", 4, READY),
            sandbox("done", 1, DEAD),
            sandbox("done", 2, DEAD),
        ];
        let containers = [container("web", "main", 2, EXITED), container("web", "main", 4, RUNNING)];
        let gone: Vec<_> = sandboxes(&all, &containers, |_| true).into_iter().map(|sandbox| sandbox.id.as_str()).collect();
        assert_eq!(gone, ["done/1", "web/1"]);
    }
}
