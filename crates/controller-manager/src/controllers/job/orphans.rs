//! Releases the pods of jobs that are gone: nobody will count them, and their finalizer would keep them for ever.

use client::{
    Key,
    informer::{CONTROLLER_UID, Change, Informer},
    queue::{self, Outcome},
};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::Client;

use super::{is_tracked, release};
use crate::{context::Context, owner};

/// Listens from now on; works once it is awaited, and until shutdown.
pub(super) fn run(context: &Context, jobs: Informer<Job>, pods: Informer<Pod>) -> impl Future<Output = ()> + use<> {
    let (client, shutdown, queue) = (context.client.clone(), context.shutdown.clone(), context.queue("job_orphan_pod"));
    let (sink, known) = (queue.clone(), jobs.clone());
    pods.on_change(move |change| {
        let pod = change.object();
        if !matches!(change, Change::Deleted(_)) && is_orphan(pod, |key| uid(&known, key)) {
            sink.add(Key::of(&pod.metadata));
        }
    });
    let (sink, left) = (queue.clone(), pods.clone());
    jobs.on_change(move |change| {
        if let Change::Deleted(job) = change {
            for pod in left.by_index(CONTROLLER_UID, job.metadata.uid.as_deref().unwrap_or_default()) {
                sink.add(Key::of(&pod.metadata));
            }
        }
    });
    queue::work(queue, 1, shutdown, move |key| reconcile(client.clone(), jobs.clone(), pods.clone(), key))
}

async fn reconcile(client: Client, jobs: Informer<Job>, pods: Informer<Pod>, key: Key) -> anyhow::Result<Outcome> {
    if let Some(pod) = pods.get(&key).filter(|pod| is_orphan(pod, |key| uid(&jobs, key))) {
        release(&client, &pod).await?;
    }
    Ok(Outcome::Done)
}

fn uid(jobs: &Informer<Job>, key: &Key) -> Option<String> {
    jobs.get(key)?.metadata.uid.clone()
}

/// Whether the pod is tracked for a job that is not there any more; `job` gives the UID of the one of that key.
fn is_orphan(pod: &Pod, job: impl Fn(&Key) -> Option<String>) -> bool {
    let controller = owner::controller_of(&pod.metadata);
    is_tracked(pod)
        && match (controller, owner::key(&pod.metadata, "Job")) {
            (Some(reference), Some(key)) => job(&key).as_ref() != Some(&reference.uid),
            // Another kind's: it decides about its finalizers.
            (Some(_), None) => false,
            (None, _) => true,
        }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::is_orphan;
    use crate::controllers::job::FINALIZER;

    fn pod(owners: &Value, finalizers: &[&str]) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "a", "ownerReferences": owners, "finalizers": finalizers}}))
            .unwrap()
    }

    fn owned_by(kind: &str, uid: &str) -> Value {
        json!([{"apiVersion": "batch/v1", "kind": kind, "name": "j", "uid": uid, "controller": true}])
    }

    #[test]
    fn a_tracked_pod_is_orphaned_when_its_very_job_is_gone() {
        let there = |uid: &'static str| move |key: &client::Key| (key.name == "j").then(|| uid.to_owned());
        assert!(!is_orphan(&pod(&owned_by("Job", "1"), &[FINALIZER]), there("1")));
        assert!(is_orphan(&pod(&owned_by("Job", "1"), &[FINALIZER]), there("2")));
        assert!(is_orphan(&pod(&owned_by("Job", "1"), &[FINALIZER]), |_| None));
        assert!(is_orphan(&pod(&json!([]), &[FINALIZER]), |_| None));
    }

    #[test]
    fn pods_of_other_kinds_and_pods_not_tracked_are_left_alone() {
        assert!(!is_orphan(&pod(&owned_by("Workflow", "1"), &[FINALIZER]), |_| None));
        assert!(!is_orphan(&pod(&owned_by("Job", "1"), &["example.com/hold"]), |_| None));
    }
}
