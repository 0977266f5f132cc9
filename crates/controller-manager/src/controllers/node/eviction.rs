//! Deletes pods from nodes whose NoExecute taints they do not tolerate, or no longer.

use std::{collections::HashMap, sync::Arc, time::Duration};

use client::{
    Key,
    informer::{Change, Informer},
    queue::{self, Outcome, Queue},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::{
    api::core::v1::{Node, Pod, Taint, Toleration},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Resource as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use super::{BY_NODE, node_of, taints::NO_EXECUTE};
use crate::{context::Context, placement::tolerates};

struct Controller {
    context: Context,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    queue: Queue<Key>,
    /// Since when a pod (by UID) has stood on a tainted node, as seen here.
    since: Mutex<HashMap<String, Instant>>,
}

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    async move {
        let controller = Arc::new(Controller {
            nodes: context.informers.of(),
            pods: context.informers.of::<Pod>().with_index(BY_NODE, node_of),
            queue: context.queue("noexec_taint_pod"),
            since: Mutex::default(),
            context,
        });
        controller.listen();
        controller.nodes.synced().await;
        controller.pods.synced().await;
        let (queue, shutdown) = (controller.queue.clone(), controller.context.shutdown.clone());
        queue::work(queue, 8, shutdown, move |key| Arc::clone(&controller).reconcile(key)).await;
    }
    .boxed()
}

impl Controller {
    fn listen(self: &Arc<Self>) {
        let controller = Arc::clone(self);
        self.pods.on_change(move |change| {
            let pod = change.object();
            match change {
                Change::Deleted(_) => drop(controller.since.lock().remove(pod.metadata.uid.as_deref().unwrap_or_default())),
                Change::Updated { old, new } if node_of(old) == node_of(new) && tolerations(old) == tolerations(new) => {}
                _ if node_of(pod).is_empty() => {}
                _ => controller.queue.add(Key::of(&pod.metadata)),
            }
        });
        let controller = Arc::clone(self);
        self.nodes.on_change(move |change| {
            let unchanged = match &change {
                Change::Added(node) => no_execute(node).is_empty(),
                Change::Updated { old, new } => no_execute(old) == no_execute(new),
                Change::Deleted(_) => false,
            };
            if unchanged {
                return;
            }
            let name = change.object().metadata.name.clone().unwrap_or_default();
            for pod in controller.pods.by_index(BY_NODE, &name) {
                controller.queue.add(Key::of(&pod.metadata));
            }
        });
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> anyhow::Result<Outcome> {
        let Some(pod) = self.pods.get(&key) else { return Ok(Outcome::Done) };
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let node = node_of(&pod).first().and_then(|name| self.nodes.get(&Key::cluster(name)));
        let taints = node.map(|node| no_execute(&node)).unwrap_or_default();
        if taints.is_empty() || pod.metadata.deletion_timestamp.is_some() {
            let waited = self.since.lock().remove(&uid).is_some();
            if waited && pod.metadata.deletion_timestamp.is_none() {
                let message = format!("Cancelling deletion of Pod {key}");
                self.context.recorder.normal(&pod.object_ref(&()), "TaintManagerEviction", message);
            }
            return Ok(Outcome::Done);
        }
        match plan(&taints, tolerations(&pod)) {
            Verdict::Stay => {
                self.since.lock().remove(&uid);
                Ok(Outcome::Done)
            }
            Verdict::GoAfter(delay) => {
                let waited = self.waited(&uid, Instant::now());
                if let Some(left) = left(delay, waited) {
                    return Ok(Outcome::After(left));
                }
                let settled = self.settle(&pod, &key, waited).await;
                if settled.as_ref().is_err_and(is_unanswered) {
                    // While nobody could be asked, nobody could have taken the taint away either.
                    self.since.lock().insert(uid, Instant::now());
                }
                Ok(settled?)
            }
        }
    }

    /// How long the pod has stood on a tainted node.
    fn waited(&self, uid: &str, now: Instant) -> Duration {
        now.duration_since(*self.since.lock().entry(uid.to_owned()).or_insert(now))
    }

    /// Evicts a pod whose time is over, unless its node as the API server has it says otherwise: the cache may lag behind.
    async fn settle(&self, pod: &Pod, key: &Key, waited: Duration) -> kube::Result<Outcome> {
        let nodes: Api<Node> = Api::all(self.context.client.clone());
        let name = node_of(pod).pop().unwrap_or_default();
        // Without its node a pod is the pod garbage collector's.
        let Some(node) = retry::optional(nodes.get(&name).await)? else { return Ok(Outcome::Done) };
        let Verdict::GoAfter(delay) = plan(&no_execute(&node), tolerations(pod)) else { return Ok(Outcome::Done) };
        if let Some(left) = left(delay, waited) {
            return Ok(Outcome::After(left));
        }
        self.evict(pod, key).await?;
        self.since.lock().remove(pod.metadata.uid.as_deref().unwrap_or_default());
        Ok(Outcome::Done)
    }

    async fn evict(&self, pod: &Pod, key: &Key) -> kube::Result<()> {
        let message = format!("Marking for deletion Pod {key}");
        self.context.recorder.normal(&pod.object_ref(&()), "TaintManagerEviction", message);
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), &key.namespace);
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": Time(component::clock::now()),
        });
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
        let marked = api.patch_status(&key.name, &PatchParams::default(), &Patch::Strategic(patch)).await;
        if retry::optional(marked)?.is_none() {
            return Ok(());
        }
        let preconditions = Preconditions { uid: pod.metadata.uid.clone(), ..Preconditions::default() };
        retry::optional(api.delete(&key.name, &DeleteParams::default().preconditions(preconditions)).await)?;
        Ok(())
    }
}

fn no_execute(node: &Node) -> Vec<Taint> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.filter(|taint| taint.effect == NO_EXECUTE).cloned().collect()
}

/// Whether the call failed for lack of an answer, and not by one.
fn is_unanswered(error: &kube::Error) -> bool {
    !matches!(error, kube::Error::Api(status) if status.code < 500)
}

/// What is left of `delay`.
fn left(delay: Duration, waited: Duration) -> Option<Duration> {
    delay.checked_sub(waited).filter(|left| !left.is_zero())
}

fn tolerations(pod: &Pod) -> &[Toleration] {
    pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default()
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Stay,
    GoAfter(Duration),
}

/// How long a pod with `tolerations` may stay on a node with `taints`: the shortest of the tolerations it needs.
fn plan(taints: &[Taint], tolerations: &[Toleration]) -> Verdict {
    let mut shortest: Option<i64> = None;
    for taint in taints {
        let mut matching = tolerations.iter().filter(|toleration| tolerates(toleration, taint)).peekable();
        if matching.peek().is_none() {
            return Verdict::GoAfter(Duration::ZERO);
        }
        for seconds in matching.filter_map(|toleration| toleration.toleration_seconds) {
            shortest = Some(shortest.map_or(seconds, |shortest| shortest.min(seconds)));
        }
    }
    match shortest {
        None => Verdict::Stay,
        Some(seconds) => Verdict::GoAfter(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
    }
}

#[cfg(test)]
mod live_tests;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::{Verdict, plan};

    fn planned(tolerations: Value) -> Verdict {
        let taints = json!([
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
            {"key": "maintenance", "value": "now", "effect": "NoExecute"},
        ]);
        plan(&serde_json::from_value::<Vec<_>>(taints).unwrap(), &serde_json::from_value::<Vec<_>>(tolerations).unwrap())
    }

    #[test]
    fn a_pod_that_tolerates_everything_stays() {
        assert_eq!(planned(json!([{"operator": "Exists"}])), Verdict::Stay);
    }

    #[test]
    fn one_taint_not_tolerated_is_enough_to_go() {
        let one = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}]);
        assert_eq!(planned(one), Verdict::GoAfter(Duration::ZERO));
    }

    #[test]
    fn the_shortest_toleration_counts() {
        let both = json!([
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300},
            {"key": "maintenance", "value": "now", "effect": "NoExecute", "tolerationSeconds": 20},
        ]);
        assert_eq!(planned(both), Verdict::GoAfter(Duration::from_secs(20)));
    }

    #[test]
    fn a_toleration_of_another_value_does_not_count() {
        let other = json!([{"operator": "Exists", "key": "node.kubernetes.io/unreachable"}, {"key": "maintenance", "value": "later"}]);
        assert_eq!(planned(other), Verdict::GoAfter(Duration::ZERO));
    }
}
