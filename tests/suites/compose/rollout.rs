//! A rollout that is disturbed halfway, and all that must hold then.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tests::{Compose, within};

use crate::pods;

const REPLICAS: usize = 4;
/// What the strategy allows beyond the replicas.
const SURGE: usize = 1;
const STRATEGY: &str = "minReadySeconds: 1\n  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 1}}";

/// From the moment all parts run again until all is as it should be.
const CONVERGES: Duration = Duration::from_secs(60);

/// A Deployment that is rolled out round after round, and one that nobody touches.
pub(crate) struct Rollout<'a> {
    cluster: &'a Compose,
    round: usize,
    bystanders: BTreeMap<String, String>,
    /// The new pods that were seen ready in this round, with their containers.
    finished: BTreeMap<String, String>,
}

impl<'a> Rollout<'a> {
    /// Both Deployments, ready.
    pub(crate) fn new(cluster: &'a Compose) -> Self {
        cluster.apply(&pods::deployment("shop", REPLICAS, STRATEGY, ""));
        cluster.apply(&pods::deployment("bystander", 2, "", ""));
        let ready = |app, count| within(CONVERGES, "the Deployments are ready", || pods::all_ready(cluster, app, count));
        ready("shop", REPLICAS);
        let bystanders = pods::containers(&ready("bystander", 2));
        Self { cluster, round: 0, bystanders, finished: BTreeMap::new() }
    }

    /// Begins the next round, and returns in its middle: some new pods are ready, not all of them.
    pub(crate) fn begin(&mut self) {
        self.round += 1;
        self.finished.clear();
        self.cluster.kubectl(&["set", "env", "deployment/shop", &format!("ROUND={}", self.round)]).ok();
        within(CONVERGES, "the rollout has finished its first step", || {
            self.look()?;
            if self.finished.is_empty() { Err("no new pod is ready".to_owned()) } else { Ok(()) }
        });
        assert!(self.finished.len() < REPLICAS, "the rollout is over before it could be disturbed");
        assert!(self.finished.values().all(|container| container.ends_with("restarted 0 times")), "{:?}", self.finished);
    }

    /// Looks at the pods: whatever happens, there are never more than allowed, and what has become ready stays as it is.
    pub(crate) fn look(&mut self) -> Result<Vec<Value>, String> {
        let pods = pods::of(self.cluster, "shop")?;
        let staying = pods.iter().filter(|pod| !pods::is_terminating(pod)).count();
        assert!(staying <= REPLICAS + SURGE, "round {}: too many pods: {}", self.round, pods::summary(&pods));
        let new: Vec<_> = pods.iter().filter(|pod| self.is_new(pod)).cloned().collect();
        let now = pods::containers(&new);
        for (uid, container) in &self.finished {
            assert_eq!(now.get(uid), Some(container), "round {}: a finished pod changed: {}", self.round, pods::summary(&pods));
        }
        let ready: Vec<_> = new.into_iter().filter(pods::is_ready).collect();
        self.finished.extend(pods::containers(&ready));
        Ok(pods)
    }

    fn is_new(&self, pod: &Value) -> bool {
        let (env, round) = (pod["spec"]["containers"][0]["env"].as_array(), self.round.to_string());
        env.is_some_and(|env| env.iter().any(|variable| variable["name"] == "ROUND" && variable["value"] == *round))
    }

    /// Waits until the rollout is over and everything is exactly as if nothing had happened.
    pub(crate) fn converges(&mut self) {
        within(CONVERGES, "the rollout converges", || {
            let pods = self.look()?;
            let complete = pods.len() == REPLICAS && pods.iter().all(|pod| self.is_new(pod) && pods::is_ready(pod));
            if complete { Ok(()) } else { Err(pods::summary(&pods)) }
        });
        within(CONVERGES, "the Deployment says so", || self.says_so());
        for name in ["node-1", "node-2"] {
            within(CONVERGES, "nodes run what they should", || pods::runs_no_others(self.cluster, name));
        }
        self.cluster.wait_for_nodes();
        let bystanders = within(CONVERGES, "the bystanders are ready", || pods::all_ready(self.cluster, "bystander", 2));
        assert_eq!(pods::containers(&bystanders), self.bystanders, "round {}: a bystander changed", self.round);
    }

    fn says_so(&self) -> Result<(), String> {
        let deployment = self.cluster.get(&["deployment", "shop"]).ok_or("no answer")?;
        let status = &deployment["status"];
        let counts = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
        let counted = counts.iter().all(|count| status[count] == REPLICAS);
        let seen = status["observedGeneration"] == deployment["metadata"]["generation"];
        let sets = self.cluster.list(&["replicasets", "-l", "app=shop"])?;
        let active: Vec<_> = sets.iter().filter(|set| set["spec"]["replicas"] != 0).collect();
        let one = active.len() == 1 && active[0]["spec"]["replicas"] == REPLICAS;
        if counted && seen && one { Ok(()) } else { Err(format!("{status} {active:?}")) }
    }
}
