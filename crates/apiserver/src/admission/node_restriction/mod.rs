//! A node changes its own objects only, and of those only what is a node's to change.
//!
//! The Node authorizer decides by the request line; this plugin looks at the objects. Texts are upstream's.

mod node;
mod pod;

use apimachinery::{Object, status::Status};
use async_trait::async_trait;
use serde_json::Value;

use super::{Admission, Attributes, Operation};
use crate::authz::node::identity;
use crate::loopback::Loopback;
use crate::request::RequestContext;

const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Upstream's plugin of the same name.
pub(crate) struct NodeRestriction {
    api: Loopback,
}

/// Admitted, or the reason of the refusal.
type Verdict = Result<(), String>;

impl NodeRestriction {
    pub(crate) fn new(api: Loopback) -> Self {
        Self { api }
    }

    async fn check(&self, node: &str, attributes: &Attributes) -> Result<(), Status> {
        let refuse = |reason: String| attributes.forbidden(reason);
        let named = (attributes.resource.group.as_str(), attributes.resource.plural.as_str(), attributes.subresource.as_str());
        match named {
            ("", "pods", "") => self.pod(node, attributes).await,
            ("", "pods", "status") => pod::status(node, attributes).map_err(refuse),
            ("", "pods", "eviction") => self.eviction(node, attributes).await,
            ("", "pods", sub) => Err(refuse(format!("unexpected pod subresource {sub:?}, only 'status' and 'eviction' are allowed"))),
            ("", "nodes", _) => node::check(node, attributes).map_err(refuse),
            ("", "persistentvolumeclaims", "status") => claim_status(attributes).map_err(refuse),
            ("", "persistentvolumeclaims", _) => Err(refuse("may only update PVC status".to_owned())),
            ("", "serviceaccounts", "token") if attributes.operation == Operation::Create => self.token(node, attributes).await,
            ("coordination.k8s.io", "leases", _) => lease(node, attributes).map_err(refuse),
            ("storage.k8s.io", "csinodes", _) => csi_node(node, attributes).map_err(refuse),
            ("resource.k8s.io", "resourceslices", _) => slice(node, attributes).map_err(refuse),
            _ => Ok(()),
        }
    }

    async fn find_pod(&self, namespace: &str, name: &str) -> Result<Object, Status> {
        self.api.namespaced("v1", "pods", namespace).get(name).await
    }

    async fn pod(&self, node: &str, attributes: &Attributes) -> Result<(), Status> {
        let refuse = |reason: String| attributes.forbidden(reason);
        match attributes.operation {
            Operation::Create => {
                let own = self.api.api("v1", "nodes").get_opt(node).await?;
                pod::create(node, own.as_ref().map(Object::uid), attributes).map_err(refuse)
            }
            Operation::Delete => {
                let existing = match &attributes.old_object {
                    Some(existing) => existing.clone(),
                    None => self.find_pod(&attributes.namespace, &attributes.name).await?,
                };
                if existing.str_at("/spec/nodeName") == node {
                    return Ok(());
                }
                Err(refuse(format!("node {node:?} can only delete pods with spec.nodeName set to itself")))
            }
            operation => {
                Err(refuse(format!("unexpected operation {:?}, node {node:?} can only create and delete mirror pods", operation.as_str())))
            }
        }
    }

    async fn eviction(&self, node: &str, attributes: &Attributes) -> Result<(), Status> {
        let in_body = attributes.object.as_ref().map(Object::name).unwrap_or_default();
        let name = if attributes.name.is_empty() { in_body } else { &attributes.name };
        let existing = self.find_pod(&attributes.namespace, name).await?;
        if existing.str_at("/spec/nodeName") == node {
            return Ok(());
        }
        Err(attributes.forbidden(format!("node {node} can only evict pods with spec.nodeName set to itself")))
    }

    async fn token(&self, node: &str, attributes: &Attributes) -> Result<(), Status> {
        let refuse = |reason: &str| attributes.forbidden(reason);
        let Some(request) = &attributes.object else { return Ok(()) };
        let bound = |field: &str| request.str_at(&format!("/spec/boundObjectRef/{field}"));
        if bound("apiVersion") != "v1" || bound("kind") != "Pod" || bound("name").is_empty() {
            return Err(refuse("node requested token not bound to a pod"));
        }
        if bound("uid").is_empty() {
            return Err(refuse("node requested token with a pod binding without a uid"));
        }
        let existing = self.find_pod(&attributes.namespace, bound("name")).await?;
        pod::token(node, request, &existing).map_err(|reason| refuse(&reason))
    }
}

fn claim_status(attributes: &Attributes) -> Verdict {
    if attributes.operation != Operation::Update {
        return Err(format!("unexpected operation {:?}", attributes.operation.as_str()));
    }
    let frame = |object: &Option<Object>| {
        let mut object = object.clone().unwrap_or_default();
        object.0.remove("status");
        object.meta_mut().remove("managedFields");
        object.meta_mut().remove("resourceVersion");
        object
    };
    if frame(&attributes.object) == frame(&attributes.old_object) {
        return Ok(());
    }
    Err("node is not allowed to update fields other than status.quantity and status.conditions".to_owned())
}

/// The name in the request, or in the object where the request has none.
fn name(attributes: &Attributes) -> &str {
    match (attributes.name.as_str(), &attributes.object) {
        ("", Some(object)) => object.name(),
        (name, _) => name,
    }
}

fn lease(node: &str, attributes: &Attributes) -> Verdict {
    if attributes.namespace != LEASE_NAMESPACE {
        return Err(format!("can only access leases in the {LEASE_NAMESPACE:?} system namespace"));
    }
    let own = attributes.operation != Operation::Create || name(attributes) == node;
    if own { Ok(()) } else { Err("can only access node lease with the same name as the requesting node".to_owned()) }
}

fn csi_node(node: &str, attributes: &Attributes) -> Verdict {
    let own = attributes.operation != Operation::Create || name(attributes) == node;
    if own { Ok(()) } else { Err("can only access CSINode with the same name as the requesting node".to_owned()) }
}

fn slice(node: &str, attributes: &Attributes) -> Verdict {
    let object = attributes.object.as_ref().or(attributes.old_object.as_ref());
    let of = object.and_then(|slice| slice.pointer("/spec/nodeName")).and_then(Value::as_str).unwrap_or_default();
    if of == node { Ok(()) } else { Err("can only access ResourceSlices with the same node name as the requesting node".to_owned()) }
}

#[async_trait]
impl Admission for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation != Operation::Connect
    }

    async fn admit(&self, ctx: &RequestContext, attributes: &mut Attributes) -> Result<(), Status> {
        match identity(&ctx.user) {
            None => Ok(()),
            Some("") => Err(attributes.forbidden(format!("could not determine node from user {:?}", ctx.user.name))),
            Some(node) => self.check(node, attributes).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test::{attributes, context};
    use super::*;

    async fn refusal(node: &str, mut question: Attributes) -> String {
        let plugin = NodeRestriction::new(Loopback::default());
        plugin.admit(&context(node), &mut question).await.map_or_else(|status| status.message, |()| String::new())
    }

    #[tokio::test]
    async fn others_than_nodes_are_not_restricted() {
        let question = attributes("", "nodes", Operation::Update, "", "b", Some(json!({})), Some(json!({})));
        assert_eq!(refusal("", question).await, "");
    }

    #[tokio::test]
    async fn a_node_changes_no_other_node() {
        let question = |name: &str| attributes("", "nodes/status", Operation::Update, "", name, Some(json!({})), Some(json!({})));
        assert_eq!(refusal("a", question("a")).await, "");
        assert_eq!(refusal("a", question("b")).await, r#"nodes "b" is forbidden: node "a" is not allowed to modify node "b""#);
    }

    #[tokio::test]
    async fn a_node_deletes_its_own_pods_only() {
        let pod = |node: &str| Some(json!({"spec": {"nodeName": node}}));
        let question = |node: &str| attributes("", "pods", Operation::Delete, "n", "p", None, pod(node));
        assert_eq!(refusal("a", question("a")).await, "");
        let text = r#"pods "p" is forbidden: node "a" can only delete pods with spec.nodeName set to itself"#;
        assert_eq!(refusal("a", question("b")).await, text);
    }

    #[tokio::test]
    async fn a_node_asks_for_bound_tokens_only() {
        let question =
            |spec: Value| attributes("", "serviceaccounts/token", Operation::Create, "n", "s", Some(json!({"spec": spec})), None);
        let text = r#"serviceaccounts "s" is forbidden: node requested token not bound to a pod"#;
        assert_eq!(refusal("a", question(json!({}))).await, text);
        let unidentified = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}});
        assert!(refusal("a", question(unidentified)).await.ends_with("node requested token with a pod binding without a uid"));
    }

    #[tokio::test]
    async fn a_node_keeps_its_own_lease() {
        let question = |namespace: &str, name: &str| {
            attributes("coordination.k8s.io", "leases", Operation::Create, namespace, name, Some(json!({})), None)
        };
        assert_eq!(refusal("a", question("kube-node-lease", "a")).await, "");
        assert_ne!(refusal("a", question("kube-node-lease", "b")).await, "");
        assert_ne!(refusal("a", question("default", "a")).await, "");
    }
}
