//! Which objects the pods of each node need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::Object;
use parking_lot::RwLock;
use serde_json::Value;

use crate::informer::Sink;
use crate::storage::Key;

/// Kinds of objects a node may be related to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Pod,
    Secret,
    ConfigMap,
    Claim,
    Volume,
    ServiceAccount,
    ResourceClaim,
    Attachment,
}

type Vertex = (Kind, Key);

/// Objects, and the nodes they are related to.
#[derive(Default)]
pub(crate) struct Graph(RwLock<State>);

#[derive(Default)]
struct State {
    /// How many pods of each node need the object.
    nodes: BTreeMap<Vertex, BTreeMap<String, usize>>,
    /// What each pod needs, to take it back.
    pods: BTreeMap<Key, (String, BTreeSet<Vertex>)>,
    /// The claim each volume is bound to, and secrets its driver needs.
    volumes: BTreeMap<Key, (Key, BTreeSet<Key>)>,
    /// The node of each attachment.
    attachments: BTreeMap<Key, String>,
}

impl Graph {
    /// Whether a pod on `node` needs the object.
    pub(super) fn relates(&self, node: &str, kind: Kind, namespace: &str, name: &str) -> bool {
        let (state, key) = (self.0.read(), Key::new(namespace, name));
        match kind {
            Kind::Attachment => state.attachments.get(&key).is_some_and(|of| of == node),
            Kind::Volume => state.volumes.get(&key).is_some_and(|(claim, _)| state.needed(node, &(Kind::Claim, claim.clone()))),
            Kind::Secret => state.needed(node, &(kind, key.clone())) || state.needed_by_volume(node, &key),
            _ => state.needed(node, &(kind, key)),
        }
    }

    pub(crate) fn pods(self: Arc<Self>) -> Arc<dyn Sink> {
        Arc::new(Pods(self))
    }

    pub(crate) fn volumes(self: Arc<Self>) -> Arc<dyn Sink> {
        Arc::new(Volumes(self))
    }

    pub(crate) fn attachments(self: Arc<Self>) -> Arc<dyn Sink> {
        Arc::new(Attachments(self))
    }
}

impl State {
    fn needed(&self, node: &str, vertex: &Vertex) -> bool {
        self.nodes.get(vertex).is_some_and(|nodes| nodes.contains_key(node))
    }

    fn needed_by_volume(&self, node: &str, secret: &Key) -> bool {
        let claims = self.volumes.values().filter(|(_, secrets)| secrets.contains(secret)).map(|(claim, _)| claim);
        claims.into_iter().any(|claim| self.needed(node, &(Kind::Claim, claim.clone())))
    }

    fn add_pod(&mut self, pod: &Object) {
        let key = key(pod);
        self.remove_pod(&key);
        let node = pod.str_at("/spec/nodeName");
        if node.is_empty() {
            return;
        }
        let needs = needs(pod);
        for vertex in &needs {
            *self.nodes.entry(vertex.clone()).or_default().entry(node.to_owned()).or_default() += 1;
        }
        self.pods.insert(key, (node.to_owned(), needs));
    }

    fn remove_pod(&mut self, key: &Key) {
        let Some((node, needs)) = self.pods.remove(key) else { return };
        for vertex in needs {
            let Some(nodes) = self.nodes.get_mut(&vertex) else { continue };
            if let Some(count) = nodes.get_mut(&node) {
                *count -= 1;
                if *count == 0 {
                    nodes.remove(&node);
                }
            }
            if nodes.is_empty() {
                self.nodes.remove(&vertex);
            }
        }
    }

    fn add_volume(&mut self, volume: &Object) {
        let claim = Key::new(volume.str_at("/spec/claimRef/namespace"), volume.str_at("/spec/claimRef/name"));
        let drivers = volume.pointer("/spec").and_then(Value::as_object).into_iter().flat_map(|spec| spec.values());
        let references = drivers.flat_map(|driver| {
            ["secretRef", "nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"].map(|field| driver.get(field))
        });
        let secret = |reference: &Value| {
            let text = |field| reference.get(field).and_then(Value::as_str);
            Some(Key::new(text("namespace").unwrap_or(&claim.namespace), text("name")?))
        };
        let secrets = references.flatten().filter_map(secret).collect();
        self.volumes.insert(key(volume), (claim, secrets));
    }
}

fn key(object: &Object) -> Key {
    Key::new(object.namespace(), object.name())
}

/// Everything a pod needs, itself included.
fn needs(pod: &Object) -> BTreeSet<Vertex> {
    let mut needs = BTreeSet::from([(Kind::Pod, key(pod))]);
    // Mirror pods come from the node itself: what they name must not open anything.
    if pod.annotation("kubernetes.io/config.mirror").is_some() {
        return needs;
    }
    let spec = pod.pointer("/spec").unwrap_or(&Value::Null);
    let mut add = |kind, name: Option<&Value>| {
        if let Some(name) = name.and_then(Value::as_str).filter(|name| !name.is_empty()) {
            needs.insert((kind, Key::new(pod.namespace(), name)));
        }
    };
    add(Kind::ServiceAccount, spec.get("serviceAccountName"));
    items(spec, "imagePullSecrets").for_each(|secret| add(Kind::Secret, secret.get("name")));
    for container in ["containers", "initContainers", "ephemeralContainers"].iter().flat_map(|field| items(spec, field)) {
        for from in items(container, "envFrom") {
            add(Kind::Secret, from.pointer("/secretRef/name"));
            add(Kind::ConfigMap, from.pointer("/configMapRef/name"));
        }
        for env in items(container, "env") {
            add(Kind::Secret, env.pointer("/valueFrom/secretKeyRef/name"));
            add(Kind::ConfigMap, env.pointer("/valueFrom/configMapKeyRef/name"));
        }
    }
    for volume in items(spec, "volumes") {
        add(Kind::Secret, volume.pointer("/secret/secretName"));
        add(Kind::ConfigMap, volume.pointer("/configMap/name"));
        add(Kind::Claim, volume.pointer("/persistentVolumeClaim/claimName"));
        if let (Some(_), Some(name)) = (volume.get("ephemeral"), volume.get("name").and_then(Value::as_str)) {
            add(Kind::Claim, Some(&format!("{}-{name}", pod.name()).into()));
        }
        for source in volume.get("projected").into_iter().flat_map(|projected| items(projected, "sources")) {
            add(Kind::Secret, source.pointer("/secret/name"));
            add(Kind::ConfigMap, source.pointer("/configMap/name"));
        }
        let drivers = volume.as_object().into_iter().flat_map(|volume| volume.values());
        for driver in drivers {
            add(Kind::Secret, driver.pointer("/secretRef/name"));
            add(Kind::Secret, driver.pointer("/nodePublishSecretRef/name"));
        }
    }
    items(spec, "resourceClaims").for_each(|claim| add(Kind::ResourceClaim, claim.get("resourceClaimName")));
    let statuses = pod.pointer("/status/resourceClaimStatuses").and_then(Value::as_array).into_iter().flatten();
    statuses.for_each(|claim| add(Kind::ResourceClaim, claim.get("resourceClaimName")));
    needs
}

fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

struct Pods(Arc<Graph>);

impl Sink for Pods {
    fn replace(&self, objects: Vec<Object>) {
        let mut state = self.0.0.write();
        state.nodes.clear();
        state.pods.clear();
        objects.iter().for_each(|pod| state.add_pod(pod));
    }

    fn upsert(&self, object: Object) {
        self.0.0.write().add_pod(&object);
    }

    fn remove(&self, object: &Object) {
        self.0.0.write().remove_pod(&key(object));
    }
}

struct Volumes(Arc<Graph>);

impl Sink for Volumes {
    fn replace(&self, objects: Vec<Object>) {
        let mut state = self.0.0.write();
        state.volumes.clear();
        objects.iter().for_each(|volume| state.add_volume(volume));
    }

    fn upsert(&self, object: Object) {
        self.0.0.write().add_volume(&object);
    }

    fn remove(&self, object: &Object) {
        self.0.0.write().volumes.remove(&key(object));
    }
}

struct Attachments(Arc<Graph>);

impl Sink for Attachments {
    fn replace(&self, objects: Vec<Object>) {
        let attachments = objects.iter().map(|object| (key(object), object.str_at("/spec/nodeName").to_owned()));
        self.0.0.write().attachments = attachments.collect();
    }

    fn upsert(&self, object: Object) {
        let node = object.str_at("/spec/nodeName").to_owned();
        self.0.0.write().attachments.insert(key(&object), node);
    }

    fn remove(&self, object: &Object) {
        self.0.0.write().attachments.remove(&key(object));
    }
}
