//! Creates and deletes pods on behalf of a controller object, and tells of it by events.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use client::{Key, events::Recorder, expectations::Expectations, informer::Change, retry};
use futures::future::join_all;
use k8s_openapi::{
    Resource as Typed,
    api::core::v1::{Pod, PodTemplateSpec},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ObjectMeta, PostParams, Preconditions},
};

use crate::{context::Context, owner, template_hash::ALPHABET};

/// Pods created at first; each batch that succeeds entirely is followed by one twice as large.
const FIRST_BATCH: usize = 1;
/// For so long a create whose answer was lost is sent again: an API server that died has been started again by then.
const LOST: Duration = Duration::from_secs(30);
/// Between two attempts: twice as long each time, up to the second.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];
/// Longest part of a generated name before its random end, and the letters of that: as the API server makes them.
const GENERATED: [usize; 2] = [58, 5];

/// The pods of one controller's objects. It remembers what was done to them until the cache has shown it: who counts them
/// before would do it again.
pub(crate) struct PodControl {
    client: Client,
    recorder: Recorder,
    expectations: Expectations,
}

impl PodControl {
    pub(crate) fn new(context: &Context) -> Self {
        Self { client: context.client.clone(), recorder: context.recorder.clone(), expectations: Expectations::new() }
    }

    /// Whether the cache has shown all that was done to the pods of `key`.
    pub(crate) fn is_settled(&self, key: &Key) -> bool {
        self.expectations.satisfied(key, Instant::now())
    }

    /// Forgets what was done for an object that is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.expectations.remove(key);
    }

    /// Takes in a change of a pod of `key`. One that is being deleted counts as gone, long before it is.
    pub(crate) fn observe(&self, key: &Key, change: &Change<'_, Pod>) {
        let meta = &change.object().metadata;
        if meta.deletion_timestamp.is_some() || matches!(change, Change::Deleted(_)) {
            self.expectations.deletion_observed(key, meta.uid.as_deref().unwrap_or_default());
        } else if matches!(change, Change::Added(_)) {
            self.expectations.creation_observed(key);
        }
    }

    /// Creates `pods` in growing batches and stops at the first batch with a failure: what is refused once (a quota, say) is
    /// refused a thousand times.
    ///
    /// # Errors
    /// The first refusal.
    pub(crate) async fn create_all<O>(&self, owner: &O, key: &Key, pods: &[Pod]) -> anyhow::Result<()>
    where
        O: Typed + Resource<DynamicType = ()> + fmt::Debug,
    {
        if pods.is_empty() {
            return Ok(());
        }
        self.expectations.expect_creations(key, pods.len(), Instant::now());
        let (mut created, mut batch) = (0, FIRST_BATCH.min(pods.len()));
        while batch > 0 {
            let results = join_all(pods[created..created + batch].iter().map(|pod| self.create(owner, &key.namespace, pod))).await;
            created += results.iter().filter(|result| result.is_ok()).count();
            if let Some(error) = results.into_iter().find_map(Result::err) {
                // What was not created will not be seen either.
                self.expectations.creations_observed(key, pods.len() - created);
                // A namespace on its way out takes no pods, and the owner goes with it.
                anyhow::ensure!(retry::is_namespace_terminating(&error), message(&error));
                return Ok(());
            }
            batch = (batch * 2).min(pods.len() - created);
        }
        Ok(())
    }

    /// Creates one pod.
    async fn create<O>(&self, owner: &O, namespace: &str, pod: &Pod) -> kube::Result<Pod>
    where
        O: Typed + Resource<DynamicType = ()> + fmt::Debug,
    {
        let result = create_once(&Api::namespaced(self.client.clone(), namespace), pod).await;
        let about = owner.object_ref(&());
        match &result {
            Ok(pod) => {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                self.recorder.normal(&about, "SuccessfulCreate", format!("Created pod: {name}"));
            }
            Err(error) if retry::is_namespace_terminating(error) => {}
            Err(error) => self.recorder.warning(&about, "FailedCreate", format!("Error creating: {}", message(error))),
        }
        result
    }

    /// Deletes all of `doomed` at once.
    ///
    /// # Errors
    /// The first refusal.
    pub(crate) async fn delete_all<O>(&self, owner: &O, key: &Key, doomed: &[Arc<Pod>]) -> anyhow::Result<()>
    where
        O: Typed + Resource<DynamicType = ()> + fmt::Debug,
    {
        if doomed.is_empty() {
            return Ok(());
        }
        let uids = doomed.iter().filter_map(|pod| pod.metadata.uid.clone());
        self.expectations.expect_deletions(key, uids, Instant::now());
        let results = join_all(doomed.iter().map(|pod| self.delete(owner, &key.namespace, pod))).await;
        let mut outcome = Ok(());
        for (pod, result) in doomed.iter().zip(results) {
            if let Err(error) = result {
                // It will not be seen to go.
                self.expectations.deletion_observed(key, pod.metadata.uid.as_deref().unwrap_or_default());
                if !retry::is_not_found(&error) && outcome.is_ok() {
                    outcome = Err(anyhow::anyhow!(message(&error)));
                }
            }
        }
        outcome
    }

    /// Deletes one pod; fails with "not found" when it is gone already.
    async fn delete<O>(&self, owner: &O, namespace: &str, pod: &Pod) -> kube::Result<()>
    where
        O: Typed + Resource<DynamicType = ()> + fmt::Debug,
    {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let preconditions = Preconditions { uid: pod.metadata.uid.clone(), ..Preconditions::default() };
        let result = pods.delete(name, &DeleteParams::default().preconditions(preconditions)).await;
        let about = owner.object_ref(&());
        match &result {
            Ok(_) => self.recorder.normal(&about, "SuccessfulDelete", format!("Deleted pod: {name}")),
            // Gone, or another pod has its name by now.
            Err(error) if retry::is_not_found(error) || retry::is_conflict(error) => {}
            Err(error) => self.recorder.warning(&about, "FailedDelete", format!("Error deleting: {}", message(error))),
        }
        result.map(drop)
    }
}

/// Creates one pod under a name chosen here, so that a request whose answer was lost can be sent again: that the name is taken
/// then means that it had arrived. Taken for a failure it would leave a pod too many, which the cache shows too late.
async fn create_once(pods: &Api<Pod>, pod: &Pod) -> kube::Result<Pod> {
    let (mut named, mut lost, mut pause) = (with_name(pod), false, PAUSES[0]);
    let began = Instant::now();
    loop {
        match pods.create(&PostParams::default(), &named).await {
            Err(error) if retry::is_already_exists(&error) && lost => {
                let found = pods.get(named.metadata.name.as_deref().unwrap_or_default()).await?;
                let own = owner::controller_of(&found.metadata) == owner::controller_of(&named.metadata);
                return if own { Ok(found) } else { Err(error) };
            }
            Err(error) if retry::is_already_exists(&error) && pod.metadata.name.is_none() && began.elapsed() < LOST => {
                named = with_name(pod);
            }
            Err(error) if retry::may_have_happened(&error) && began.elapsed() < LOST => {
                lost = true;
                tokio::time::sleep(retry::jitter(pause, 0.5)).await;
                pause = (pause * 2).min(PAUSES[1]);
            }
            result => return result,
        }
    }
}

/// The same with a name, made from `generateName` as the API server does it.
fn with_name(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    let meta = &mut pod.metadata;
    if let (None, Some(base)) = (&meta.name, &meta.generate_name) {
        let end = (0..GENERATED[1]).map(|_| char::from(ALPHABET[rand::random_range(0..ALPHABET.len())]));
        meta.name = Some(base.chars().take(GENERATED[0]).chain(end).collect());
    }
    pod
}

/// The server's own words for a refusal, without the client's around them.
pub(crate) fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// The pod a template describes, named after and controlled by `owner`.
pub(crate) fn from_template<O>(owner: &O, template: Option<&PodTemplateSpec>) -> Pod
where
    O: Typed + Resource,
{
    let template = template.cloned().unwrap_or_default();
    let meta = template.metadata.unwrap_or_default();
    let name = owner.meta().name.as_deref().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owner::reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use client::events::Recorder;
    use http::{Method, Request, Response};
    use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
    use kube::{Client, client::Body};
    use serde_json::{Value, json};

    use super::*;

    /// An API server that keeps pods and loses its first answer to a POST, and what it keeps.
    fn server() -> (Client, Arc<Mutex<Vec<Value>>>) {
        let kept = Arc::new(Mutex::new(Vec::<Value>::new()));
        let shared = Arc::clone(&kept);
        let service = tower::service_fn(move |request: Request<Body>| {
            let kept = Arc::clone(&shared);
            async move {
                let (parts, body) = request.into_parts();
                let posted = body.collect_bytes().await?;
                let mut kept = kept.lock().unwrap();
                let answer = |code: u16, body: &Value| -> Result<_, tower::BoxError> {
                    Ok(Response::builder().status(code).body(Body::from(body.to_string().into_bytes()))?)
                };
                if parts.method == Method::GET {
                    return answer(200, &kept[0]);
                }
                let pod: Value = serde_json::from_slice(&posted)?;
                if kept.iter().any(|other| other["metadata"]["name"] == pod["metadata"]["name"]) {
                    return answer(
                        409,
                        &json!({"kind": "Status", "status": "Failure", "reason": "AlreadyExists", "code": 409, "message": ""}),
                    );
                }
                kept.push(pod.clone());
                if kept.len() == 1 { Err("connection reset".into()) } else { answer(201, &pod) }
            }
        });
        (Client::new(service, "default"), kept)
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_whose_creation_was_not_confirmed_is_not_created_twice() {
        let (client, kept) = server();
        let control = PodControl { client, recorder: Recorder::fake().0, expectations: Expectations::new() };
        let mut set = ReplicaSet::default();
        (set.metadata.name, set.metadata.uid) = (Some("web".to_owned()), Some("1".to_owned()));
        let key = Key::new("default", "web");
        control.create_all(&set, &key, &vec![from_template(&set, None); 2]).await.unwrap();
        let names: Vec<_> = kept.lock().unwrap().iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        assert!(names.len() == 2 && names.iter().all(|name| name.len() == 9 && name.starts_with("web-")), "{names:?}");
        assert!(!control.is_settled(&key), "both are still to be seen");
    }

    #[test]
    fn a_name_that_is_given_stays_and_a_long_one_is_cut() {
        let mut pod = Pod::default();
        pod.metadata.generate_name = Some("a".repeat(80));
        assert_eq!(with_name(&pod).metadata.name.unwrap().len(), 63);
        pod.metadata.name = Some("given".to_owned());
        assert_eq!(with_name(&pod).metadata.name.as_deref(), Some("given"));
    }
}
