//! Every pod runs as a service account of its namespace, and finds a token for it in its containers.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{Object, gvk::GroupResource, status::Status};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Admission, Attributes, Operation};
use crate::informer::{Cache, feed};
use crate::loopback::Loopback;
use crate::registry::meta::generated_name;
use crate::request::RequestContext;

const DEFAULT: &str = "default";
const MIRROR: &str = "kubernetes.io/config.mirror";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
/// An hour and some: kubelets renew tokens that live for an hour, and this one must be told apart.
const TOKEN_SECONDS: i64 = 3607;
/// The default account of a new namespace is made by a controller: it is waited for so often …
const ATTEMPTS: u32 = 10;
/// … with at least this pause.
const PAUSE: Duration = Duration::from_millis(100);

/// Upstream's plugin of the same name.
pub(crate) struct ServiceAccount {
    api: Loopback,
    accounts: Arc<Cache<Account>>,
}

/// What an account gives its pods.
#[derive(Clone, Debug, Default, PartialEq)]
struct Account {
    automount: Option<bool>,
    pull_secrets: Vec<Value>,
}

impl Account {
    fn of(object: &Object) -> Self {
        let pull_secrets = object.pointer("/imagePullSecrets").and_then(Value::as_array).cloned().unwrap_or_default();
        Self { automount: object.pointer("/automountServiceAccountToken").and_then(Value::as_bool), pull_secrets }
    }
}

impl ServiceAccount {
    pub(crate) fn new(api: Loopback) -> Self {
        Self { api, accounts: Cache::new(|object| Some(Account::of(&object))) }
    }

    /// Follows service accounts; runs until dropped.
    pub(crate) async fn run(&self, api: &Loopback) {
        feed(api.api("v1", "serviceaccounts"), self.accounts.clone()).await;
    }

    async fn account(&self, namespace: &str, name: &str) -> Result<Account, Status> {
        let attempts = if name == DEFAULT { ATTEMPTS } else { 1 };
        for attempt in 1..=attempts {
            if let Some(known) = self.accounts.get(namespace, name) {
                return Ok((*known).clone());
            }
            if let Some(found) = self.api.namespaced("v1", "serviceaccounts", namespace).get_opt(name).await? {
                return Ok(Account::of(&found));
            }
            if attempt < attempts {
                tokio::time::sleep(PAUSE.mul_f64(rand::random_range(1.0..2.0))).await;
            }
        }
        Err(Status::not_found(&GroupResource::new("", "serviceaccount"), name))
    }
}

#[async_trait]
impl Admission for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    async fn admit(&self, _ctx: &RequestContext, attributes: &mut Attributes) -> Result<(), Status> {
        let Some(pod) = attributes.object.as_ref().filter(|_| attributes.is("", "pods")) else { return Ok(()) };
        if pod.annotation(MIRROR).is_some() {
            return check_mirror(pod).map_err(|reason| attributes.forbidden(reason));
        }
        let name = match pod.str_at("/spec/serviceAccountName") {
            "" => DEFAULT.to_owned(),
            given => given.to_owned(),
        };
        let looked_up = |status: Status| {
            let message = format!("error looking up service account {}/{name}: {}", attributes.namespace, status.message);
            attributes.forbidden(message)
        };
        let account = self.account(&attributes.namespace, &name).await.map_err(looked_up)?;
        if let Some(spec) = attributes.object.as_mut().and_then(|pod| pod.pointer_mut("/spec")) {
            serve(spec, &name, &account, || generated_name(VOLUME_PREFIX));
        }
        Ok(())
    }

    async fn validate(&self, _ctx: &RequestContext, attributes: &Attributes) -> Result<(), Status> {
        match attributes.object.as_ref().filter(|_| attributes.is("", "pods")) {
            Some(pod) if pod.annotation(MIRROR).is_some() => check_mirror(pod).map_err(|reason| attributes.forbidden(reason)),
            Some(pod) if pod.str_at("/spec/serviceAccountName").is_empty() => {
                Err(attributes.forbidden("no service account was set for the pod"))
            }
            _ => Ok(()),
        }
    }
}

/// Mirror pods are a node's word: they may not carry anything that opens the API.
fn check_mirror(pod: &Object) -> Result<(), &'static str> {
    let spec = pod.pointer("/spec").unwrap_or(&Value::Null);
    if !pod.str_at("/spec/serviceAccountName").is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    if names_secret(spec) {
        return Err("a mirror pod may not reference secrets");
    }
    let mut sources = items(spec, "volumes").filter_map(|volume| volume.pointer("/projected/sources")?.as_array()).flatten();
    if sources.any(|source| source.get("serviceAccountToken").is_some_and(|token| !token.is_null())) {
        return Err("a mirror pod may not use service account token projections");
    }
    Ok(())
}

/// Whether a pod names a secret anywhere.
pub(super) fn names_secret(value: &Value) -> bool {
    const NAMES: [&str; 6] = ["secret", "secretRef", "secretKeyRef", "imagePullSecrets", "nodePublishSecretRef", "secretName"];
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            (NAMES.contains(&name.as_str()) && !empty) || names_secret(value)
        }),
        Value::Array(items) => items.iter().any(names_secret),
        _ => false,
    }
}

pub(super) fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

/// Gives a pod its account's name, token and pull secrets.
fn serve(spec: &mut Value, name: &str, account: &Account, volume_name: impl FnOnce() -> String) {
    spec["serviceAccountName"] = name.into();
    spec["serviceAccount"] = name.into();
    let automount = spec.get("automountServiceAccountToken").and_then(Value::as_bool).or(account.automount);
    if automount.unwrap_or(true) {
        mount_token(spec, volume_name);
    }
    if items(spec, "imagePullSecrets").next().is_none() && !account.pull_secrets.is_empty() {
        spec["imagePullSecrets"] = account.pull_secrets.clone().into();
    }
}

fn mount_token(spec: &mut Value, volume_name: impl FnOnce() -> String) {
    let existing = items(spec, "volumes").filter_map(|volume| volume["name"].as_str()).find(|name| name.starts_with(VOLUME_PREFIX));
    let (name, known) = existing.map_or_else(|| (volume_name(), false), |name| (name.to_owned(), true));
    let mut mounted = false;
    for field in ["initContainers", "containers"] {
        for container in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            let has_one = items(container, "volumeMounts").any(|mount| mount["mountPath"] == MOUNT_PATH);
            if !has_one {
                push(container, "volumeMounts", json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}));
                mounted = true;
            }
        }
    }
    if mounted && !known {
        push(spec, "volumes", token_volume(&name));
    }
}

fn push(object: &mut Value, field: &str, item: Value) {
    match object.get_mut(field).and_then(Value::as_array_mut) {
        Some(list) => list.push(item),
        None => object[field] = json!([item]),
    }
}

fn token_volume(name: &str) -> Value {
    let namespace = json!({"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}});
    let sources = json!([
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]);
    json!({"name": name, "projected": {"defaultMode": 0o644, "sources": sources}})
}

#[cfg(test)]
mod tests {
    use super::super::test::{attributes, context};
    use super::*;
    use crate::informer::Sink as _;

    fn served(mut spec: Value, account: &Account) -> Value {
        serve(&mut spec, "s", account, || "kube-api-access-x".to_owned());
        spec
    }

    #[test]
    fn a_pod_gets_name_token_and_pull_secrets() {
        let account = Account { automount: None, pull_secrets: vec![json!({"name": "pull"})] };
        let spec = served(
            json!({"containers": [{"name": "c"}, {"name": "d", "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}]}),
            &account,
        );
        assert_eq!((&spec["serviceAccountName"], &spec["serviceAccount"]), (&json!("s"), &json!("s")));
        assert_eq!(
            spec["containers"][0]["volumeMounts"][0],
            json!({"name": "kube-api-access-x", "readOnly": true, "mountPath": MOUNT_PATH})
        );
        assert_eq!(spec["containers"][1]["volumeMounts"].as_array().unwrap().len(), 1);
        assert_eq!(
            spec["volumes"][0]["projected"]["sources"][0],
            json!({"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}})
        );
        assert_eq!(spec["imagePullSecrets"], json!([{"name": "pull"}]));
    }

    #[test]
    fn the_account_may_turn_mounting_off_and_the_pod_on_again() {
        let off = Account { automount: Some(false), ..Account::default() };
        assert_eq!(served(json!({"containers": [{}]}), &off).get("volumes"), None);
        assert!(served(json!({"containers": [{}], "automountServiceAccountToken": true}), &off).get("volumes").is_some());
    }

    #[tokio::test]
    async fn a_mirror_pod_may_not_reach_for_accounts_or_secrets() {
        let plugin = ServiceAccount::new(Loopback::default());
        for (spec, refusal) in [
            (json!({"serviceAccountName": "default"}), "a mirror pod may not reference service accounts"),
            (json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}), "a mirror pod may not reference secrets"),
            (
                json!({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}),
                "a mirror pod may not use service account token projections",
            ),
        ] {
            let pod = json!({"metadata": {"annotations": {MIRROR: "x"}}, "spec": spec});
            let mut create = attributes("", "pods", Operation::Create, "n", "p", Some(pod), None);
            let refused = plugin.admit(&context(""), &mut create).await.unwrap_err();
            assert_eq!(refused.message, format!("pods \"p\" is forbidden: {refusal}"));
        }
    }

    #[tokio::test]
    async fn the_default_account_is_taken_when_none_is_named() {
        let plugin = ServiceAccount::new(Loopback::default());
        let account = json!({"metadata": {"name": "default", "namespace": "n"}});
        plugin.accounts.upsert(Object::from_value(account).unwrap());
        let mut create = attributes("", "pods", Operation::Create, "n", "p", Some(json!({"spec": {"containers": []}})), None);
        plugin.admit(&context(""), &mut create).await.unwrap();
        assert_eq!(create.object.unwrap().str_at("/spec/serviceAccountName"), "default");
    }
}
