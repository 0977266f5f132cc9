//! Carries pod statuses to the API server, the latest one only, and the final delete of a pod that has ended.
//!
//! Workers hand over and go on; each pod with something to be written has a turn of its own, which ends when nothing is left.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use component::backoff::Backoff;
use futures::{StreamExt, stream::FuturesUnordered};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use crate::pod::facts;

/// Writes under way at once.
const PARALLEL: usize = 8;
/// Longest time for one write.
const DEADLINE: Duration = Duration::from_secs(30);
/// First and longest wait after a write that failed.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// What is to be written for one pod.
#[derive(Clone)]
struct Pending {
    namespace: String,
    name: String,
    status: Option<Arc<PodStatus>>,
    delete: bool,
}

#[derive(Default)]
struct State {
    pending: BTreeMap<String, Pending>,
    /// What the API server has, by uid.
    written: HashMap<String, Written>,
}

/// A status that the API server has.
struct Written {
    status: Arc<PodStatus>,
    /// Version of the object that holds it, if known.
    version: Option<u64>,
}

/// Statuses of one node's pods.
#[derive(Default)]
pub(crate) struct Statuses {
    state: Mutex<State>,
    news: Notify,
}

impl Statuses {
    /// Hands over the pod's current status.
    pub(crate) fn set(&self, pod: &Pod, status: &PodStatus) {
        let uid = facts::uid(pod).to_owned();
        let mut state = self.state.lock();
        if let Some(known) = &pod.status {
            state
                .written
                .entry(uid.clone())
                .or_insert_with(|| Written { status: Arc::new(known.clone()), version: version(pod) })
                .learn(pod);
        }
        let unchanged = match state.pending.get(&uid).and_then(|p| p.status.as_deref()) {
            Some(pending) => pending == status,
            None => state.written.get(&uid).is_some_and(|written| covers(&written.status, status)),
        };
        if unchanged {
            return;
        }
        let pending = state.pending.entry(uid).or_insert_with(|| pending(pod));
        pending.status = Some(Arc::new(status.clone()));
        drop(state);
        self.news.notify_one();
    }

    /// Hands over the end of the pod: after its last status its object may go.
    pub(crate) fn delete(&self, pod: &Pod) {
        let uid = facts::uid(pod).to_owned();
        self.state.lock().pending.entry(uid).or_insert_with(|| pending(pod)).delete = true;
        self.news.notify_one();
    }

    /// Forgets a pod whose object is gone.
    pub(crate) fn forget(&self, uid: &str) {
        let mut state = self.state.lock();
        state.pending.remove(uid);
        state.written.remove(uid);
    }

    /// The last status known to have reached the API server.
    pub(crate) fn written(&self, uid: &str) -> Option<Arc<PodStatus>> {
        self.state.lock().written.get(uid).map(|written| Arc::clone(&written.status))
    }

    /// Writes for ever.
    pub(crate) async fn run(&self, client: &Client) {
        let (places, mut turns, mut busy) = (Semaphore::new(PARALLEL), FuturesUnordered::new(), BTreeSet::new());
        loop {
            let waiting: Vec<String> = self.state.lock().pending.keys().filter(|uid| !busy.contains(*uid)).cloned().collect();
            for uid in waiting {
                busy.insert(uid.clone());
                turns.push(self.turn(client, uid, &places));
            }
            tokio::select! {
                Some(uid) = turns.next() => drop(busy.remove(&uid)),
                () = self.news.notified() => {}
            }
        }
    }

    /// Writes for one pod until nothing is left, and returns its uid.
    async fn turn(&self, client: &Client, uid: String, places: &Semaphore) -> String {
        let mut backoff = Backoff::new(RETRY.0, RETRY.1);
        loop {
            let place = places.acquire().await;
            let Some(pending) = self.state.lock().pending.get(&uid).cloned() else { return uid };
            let wrote = self.write(client, &uid, pending).await;
            drop(place);
            if wrote {
                backoff.reset();
            } else {
                backoff.wait().await;
            }
        }
    }

    /// True when nothing of this is left to be done.
    async fn write(&self, client: &Client, uid: &str, pending: Pending) -> bool {
        let api: Api<Pod> = Api::namespaced(client.clone(), &pending.namespace);
        match tokio::time::timeout(DEADLINE, self.write_once(&api, uid, &pending)).await {
            Ok(Ok(())) => {
                self.done(uid, &pending);
                true
            }
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                // Gone, or another pod of the same name.
                self.forget(uid);
                true
            }
            Ok(Err(error)) if refused(&error) => {
                // The next change of the pod, or its worker's next look, makes another try.
                tracing::warn!(pod = %format!("{}/{}", pending.namespace, pending.name), error = crate::text::api_error(&error), "pod status refused");
                self.state.lock().pending.remove(uid);
                true
            }
            Ok(Err(error)) => {
                tracing::warn!(pod = %format!("{}/{}", pending.namespace, pending.name), error = crate::text::api_error(&error), "write pod status");
                false
            }
            Err(_) => {
                tracing::warn!(pod = %format!("{}/{}", pending.namespace, pending.name), "writing the pod status took too long");
                false
            }
        }
    }

    async fn write_once(&self, api: &Api<Pod>, uid: &str, pending: &Pending) -> kube::Result<()> {
        if let Some(status) = &pending.status {
            let old = self.written(uid).unwrap_or_default();
            let patch = Patch::Strategic(patch(uid, &old, status).map_err(kube::Error::SerdeError)?);
            let object = api.patch_status(&pending.name, &PatchParams::default(), &patch).await?;
            self.state.lock().written.insert(uid.to_owned(), Written { status: status.clone(), version: version(&object) });
        }
        if pending.delete {
            let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
            let params = DeleteParams { grace_period_seconds: Some(0), preconditions: Some(preconditions), ..Default::default() };
            api.delete(&pending.name, &params).await?;
        }
        Ok(())
    }

    /// Takes the entry out, unless something newer was handed over meanwhile.
    fn done(&self, uid: &str, wrote: &Pending) {
        let mut state = self.state.lock();
        if wrote.delete {
            state.pending.remove(uid);
            state.written.remove(uid);
            return;
        }
        let newer = state
            .pending
            .get(uid)
            .is_some_and(|now| now.delete || !matches!((&now.status, &wrote.status), (Some(a), Some(b)) if Arc::ptr_eq(a, b)));
        if !newer {
            state.pending.remove(uid);
        }
    }
}

impl Written {
    /// Takes in a later pod in which somebody else turned a condition: the node lifecycle controller does while it does not
    /// hear of the node.
    fn learn(&mut self, pod: &Pod) {
        let Some(now) = pod.status.as_ref().and_then(|status| status.conditions.as_ref()) else { return };
        let ours = self.status.conditions.as_deref().unwrap_or_default();
        let turned = ours.iter().any(|c| now.iter().any(|other| other.type_ == c.type_ && other.status != c.status));
        if turned && version(pod) > self.version {
            self.status = Arc::new(PodStatus { conditions: Some(now.clone()), ..(*self.status).clone() });
            self.version = version(pod);
        }
    }
}

/// The version of an object; such numbers grow.
fn version(pod: &Pod) -> Option<u64> {
    pod.metadata.resource_version.as_deref()?.parse().ok()
}

/// Whether the API server will not have it, however often it is asked.
fn refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 403 | 422))
}

fn pending(pod: &Pod) -> Pending {
    Pending { namespace: facts::namespace(pod).to_owned(), name: facts::name(pod).to_owned(), status: None, delete: false }
}

/// Whether what the API server has says all that `status` says; conditions others set do not count.
fn covers(written: &PodStatus, status: &PodStatus) -> bool {
    let theirs = written.conditions.as_deref().unwrap_or_default();
    let ours = status.conditions.as_deref().unwrap_or_default();
    let rest = |status: &PodStatus| PodStatus { conditions: None, ..status.clone() };
    ours.iter().all(|c| theirs.contains(c)) && rest(written) == rest(status)
}

/// The strategic merge patch from `old` to `new`: conditions merge by type, addresses by value.
fn patch(uid: &str, old: &PodStatus, new: &PodStatus) -> Result<Value, serde_json::Error> {
    let (before, mut after) = (serde_json::to_value(old)?, serde_json::to_value(new)?);
    if let (Some(before), Some(after)) = (before.as_object(), after.as_object_mut()) {
        for key in before.keys().filter(|key| *key != "conditions" && *key != "nominatedNodeName") {
            after.entry(key.clone()).or_insert(Value::Null);
        }
        clear_conditions(before.get("conditions"), after.get_mut("conditions"));
        for key in ["podIPs", "hostIPs"] {
            remove_stale(before.get(key), after.get_mut(key));
        }
        after.retain(|key, value| key == "conditions" || before.get(key) != Some(value));
    }
    Ok(json!({"metadata": {"uid": uid}, "status": after}))
}

/// Conditions merge field by field: what one no longer says must be taken back.
fn clear_conditions(before: Option<&Value>, after: Option<&mut Value>) {
    let Some(before) = before.and_then(Value::as_array) else { return };
    for condition in after.and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(old) = before.iter().find(|old| old["type"] == condition["type"]).and_then(Value::as_object) else { continue };
        let Some(condition) = condition.as_object_mut() else { continue };
        for key in old.keys() {
            condition.entry(key.clone()).or_insert(Value::Null);
        }
    }
}

/// Lists that merge by `ip` need a directive for each address that is no more.
fn remove_stale(before: Option<&Value>, after: Option<&mut Value>) {
    let (Some(before), Some(after)) = (before.and_then(Value::as_array), after.and_then(Value::as_array_mut)) else { return };
    let stale: Vec<Value> = before
        .iter()
        .filter(|entry| !after.iter().any(|a| a["ip"] == entry["ip"]))
        .map(|entry| json!({"$patch": "delete", "ip": entry["ip"]}))
        .collect();
    after.extend(stale);
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodIP;

    use super::*;

    fn status(phase: &str, ip: Option<&str>) -> PodStatus {
        PodStatus {
            phase: Some(phase.into()),
            pod_ip: ip.map(Into::into),
            pod_ips: ip.map(|ip| vec![PodIP { ip: ip.into() }]),
            ..Default::default()
        }
    }

    #[test]
    fn the_patch_holds_changes_only_and_removes_stale_addresses() {
        let (old, new) = (status("Running", Some("10.0.0.1")), status("Running", Some("10.0.0.2")));
        let patch = patch("u", &old, &new).unwrap();
        let expected = json!({"metadata": {"uid": "u"}, "status": {
            "podIP": "10.0.0.2",
            "podIPs": [{"ip": "10.0.0.2"}, {"$patch": "delete", "ip": "10.0.0.1"}],
        }});
        assert_eq!(patch, expected);
    }

    #[test]
    fn a_condition_that_somebody_else_turned_is_written_again() {
        let ready = |status: &str| -> PodStatus {
            serde_json::from_value(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": status}]})).unwrap()
        };
        let unready = |version: &str| -> Pod {
            let metadata = json!({"uid": "u", "resourceVersion": version});
            serde_json::from_value(json!({"metadata": metadata, "status": ready("False")})).unwrap()
        };
        let statuses = Statuses::default();
        let written = Written { status: Arc::new(ready("True")), version: Some(7) };
        statuses.state.lock().written.insert("u".into(), written);
        statuses.set(&unready("5"), &ready("True"));
        assert!(statuses.state.lock().pending.is_empty(), "what was written has not come back yet");
        statuses.set(&unready("9"), &ready("True"));
        assert!(statuses.state.lock().pending.contains_key("u"));
    }

    #[test]
    fn a_condition_takes_back_its_reason() {
        let ready = |value: Value| -> PodStatus { serde_json::from_value(json!({"conditions": [value]})).unwrap() };
        let old = ready(json!({"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "no"}));
        let patch = patch("u", &old, &ready(json!({"type": "Ready", "status": "True"}))).unwrap();
        let expected = json!([{"type": "Ready", "status": "True", "reason": null, "message": null}]);
        assert_eq!(patch["status"]["conditions"], expected);
    }

    #[test]
    fn what_is_no_more_becomes_null() {
        let old = PodStatus { reason: Some("Evicted".into()), ..status("Failed", None) };
        let patch = patch("u", &old, &status("Failed", None)).unwrap();
        assert_eq!(patch["status"], json!({"reason": null}));
    }
}
