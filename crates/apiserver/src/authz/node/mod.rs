//! The Node authorizer: a kubelet may read what the pods on its node need, and act on its own objects only.

mod graph;

use std::sync::Arc;

use apimachinery::selector::field;
use async_trait::async_trait;
use k8s_openapi::api::rbac::v1::PolicyRule;

pub(crate) use graph::Graph;
use graph::Kind;

use super::rbac::{allows, node_rules};
use super::{Attributes, Authorizer, Decision};
use crate::informer::feed;
use crate::loopback::Loopback;
use crate::request::{RequestInfo, UserInfo};

const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Decides the requests of nodes; has no opinion on others'.
pub(crate) struct NodeAuthorizer {
    graph: Arc<Graph>,
    rules: Vec<PolicyRule>,
}

/// Allowed, or why not.
type Verdict = Result<(), String>;

impl Default for NodeAuthorizer {
    fn default() -> Self {
        Self { graph: Arc::default(), rules: node_rules() }
    }
}

impl NodeAuthorizer {
    /// Follows pods and volumes through the API; runs until dropped.
    pub(crate) async fn run(self: Arc<Self>, api: Loopback) {
        tokio::join!(
            feed(api.api("v1", "pods"), self.graph.clone().pods()),
            feed(api.api("v1", "persistentvolumes"), self.graph.clone().volumes()),
            feed(api.api("storage.k8s.io/v1", "volumeattachments"), self.graph.clone().attachments()),
        );
    }

    fn decide(&self, node: &str, info: &RequestInfo) -> Decision {
        let verdict = match (info.group.as_str(), info.resource.as_str()) {
            _ if !info.is_resource => None,
            ("", "secrets") => Some(self.read(node, Kind::Secret, info)),
            ("", "configmaps") => Some(self.read(node, Kind::ConfigMap, info)),
            ("", "persistentvolumeclaims") if info.subresource == "status" => Some(self.claim_status(node, info)),
            ("", "persistentvolumeclaims") => Some(self.get(node, Kind::Claim, info)),
            ("", "persistentvolumes") => Some(self.get(node, Kind::Volume, info)),
            ("", "serviceaccounts") => Some(self.account(node, info)),
            ("", "nodes") => Some(own_node(node, info)),
            ("", "pods") => Some(self.pod(node, info)),
            ("storage.k8s.io", "volumeattachments") => Some(self.get(node, Kind::Attachment, info)),
            ("storage.k8s.io", "csinodes") => Some(csi_node(node, info)),
            ("coordination.k8s.io", "leases") => Some(lease(node, info)),
            ("resource.k8s.io", "resourceclaims") => Some(self.get(node, Kind::ResourceClaim, info)),
            ("resource.k8s.io", "resourceslices") => Some(slices(node, info)),
            _ => None,
        };
        match verdict {
            Some(Ok(())) => Decision::Allow(String::new()),
            Some(Err(reason)) => Decision::NoOpinion(reason),
            None if self.rules.iter().any(|rule| allows(rule, info)) => Decision::Allow(String::new()),
            None => Decision::NoOpinion(String::new()),
        }
    }

    fn related(&self, node: &str, kind: Kind, info: &RequestInfo) -> Verdict {
        if info.name.is_empty() {
            return Err("No Object name found".to_owned());
        }
        if self.graph.relates(node, kind, &info.namespace, &info.name) {
            return Ok(());
        }
        Err(format!("no relationship found between node '{node}' and this object"))
    }

    fn get(&self, node: &str, kind: Kind, info: &RequestInfo) -> Verdict {
        only(info.verb == "get", "can only get individual resources of this type")?;
        only(info.subresource.is_empty(), "cannot get subresource")?;
        self.related(node, kind, info)
    }

    fn read(&self, node: &str, kind: Kind, info: &RequestInfo) -> Verdict {
        only(matches!(info.verb, "get" | "list" | "watch"), "can only read resources of this type")?;
        only(info.subresource.is_empty(), "cannot read subresource")?;
        only(!info.namespace.is_empty(), "can only read namespaced object of this type")?;
        self.related(node, kind, info)
    }

    fn claim_status(&self, node: &str, info: &RequestInfo) -> Verdict {
        only(matches!(info.verb, "update" | "patch"), "can only get/update/patch this type")?;
        self.related(node, Kind::Claim, info)
    }

    fn account(&self, node: &str, info: &RequestInfo) -> Verdict {
        match (info.verb, info.subresource.as_str()) {
            ("create", "token") | ("get", "") => self.related(node, Kind::ServiceAccount, info),
            _ => Err("can only get individual resources of this type, or create tokens for them".to_owned()),
        }
    }

    fn pod(&self, node: &str, info: &RequestInfo) -> Verdict {
        match (info.subresource.as_str(), info.verb) {
            ("", "get") => self.related(node, Kind::Pod, info),
            ("", "list" | "watch") if selects_node(&info.field_selector, node) => Ok(()),
            ("", "list" | "watch") if !info.name.is_empty() => self.related(node, Kind::Pod, info),
            ("", "list" | "watch") => Err("can only list/watch pods with spec.nodeName field selector".to_owned()),
            // Which pods is for the NodeRestriction plugin, which sees them.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => Err(String::new()),
        }
    }
}

fn only(holds: bool, otherwise: &str) -> Verdict {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

/// Own node object; writes are looked at once more by the NodeRestriction plugin.
fn own_node(node: &str, info: &RequestInfo) -> Verdict {
    match (info.subresource.as_str(), info.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
        ("", "get" | "list" | "watch") if info.name == node => Ok(()),
        ("", "get" | "list" | "watch") if info.name.is_empty() => {
            Err(format!("node '{node}' cannot read all nodes, only its own Node object"))
        }
        ("", "get" | "list" | "watch") => Err(format!("node '{node}' cannot read '{}', only its own Node object", info.name)),
        _ => Err(String::new()),
    }
}

fn csi_node(node: &str, info: &RequestInfo) -> Verdict {
    let verbs = matches!(info.verb, "get" | "create" | "update" | "patch" | "delete");
    only(verbs, "can only get, create, update, patch, or delete a CSINode")?;
    only(info.subresource.is_empty(), "cannot authorize CSINode subresources")?;
    only(info.verb == "create" || info.name == node, "can only access CSINode with the same name as the requesting node")
}

fn lease(node: &str, info: &RequestInfo) -> Verdict {
    let verbs = matches!(info.verb, "get" | "create" | "update" | "patch" | "delete");
    only(verbs, "can only get, create, update, patch, or delete a node lease")?;
    only(info.namespace == LEASE_NAMESPACE, &format!("can only access leases in the {LEASE_NAMESPACE:?} system namespace"))?;
    only(info.verb == "create" || info.name == node, "can only access node lease with the same name as the requesting node")
}

fn slices(node: &str, info: &RequestInfo) -> Verdict {
    only(info.subresource.is_empty(), "cannot authorize ResourceSlice subresources")?;
    match info.verb {
        "get" | "create" | "update" | "patch" | "delete" => Ok(()),
        "list" | "watch" | "deletecollection" if selects_node(&info.field_selector, node) => Ok(()),
        "list" | "watch" | "deletecollection" => {
            Err("can only list/watch/deletecollection resourceslices with nodeName field selector".to_owned())
        }
        _ => Err("only the following verbs are allowed for a ResourceSlice: [get create update patch delete list watch deletecollection]"
            .to_owned()),
    }
}

/// Whether the field selector pins `spec.nodeName` to this node.
fn selects_node(selector: &str, node: &str) -> bool {
    field::Selector::parse(selector).is_ok_and(|selector| selector.exact_match("spec.nodeName") == Some(node))
}

/// The node a user is: `Some("")` is a member of the nodes' group without a node's name.
pub(crate) fn identity(user: &UserInfo) -> Option<&str> {
    if !user.in_group("system:nodes") {
        return None;
    }
    user.name.strip_prefix("system:node:")
}

#[async_trait]
impl Authorizer for NodeAuthorizer {
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        match identity(attributes.user) {
            None => Decision::NoOpinion(String::new()),
            Some("") => Decision::NoOpinion(format!("unknown node for user {:?}", attributes.user.name)),
            Some(node) => self.decide(node, attributes.info),
        }
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::Object;
    use serde_json::json;

    use super::*;

    fn authorizer() -> NodeAuthorizer {
        let authorizer = NodeAuthorizer::default();
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {
                "nodeName": "mine", "serviceAccountName": "s", "imagePullSecrets": [{"name": "pull"}],
                "containers": [{"name": "c", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}}], "envFrom": [{"configMapRef": {"name": "from"}}]}],
                "volumes": [
                    {"name": "a", "secret": {"secretName": "mounted"}}, {"name": "b", "persistentVolumeClaim": {"claimName": "claim"}},
                    {"name": "c", "projected": {"sources": [{"configMap": {"name": "projected"}}]}},
                ],
            },
        });
        authorizer.graph.clone().pods().upsert(Object::from_value(pod).unwrap());
        let volume = json!({"metadata": {"name": "volume"}, "spec": {"claimRef": {"namespace": "n", "name": "claim"}}});
        authorizer.graph.clone().volumes().upsert(Object::from_value(volume).unwrap());
        authorizer
    }

    fn decide(node: &str, method: http::Method, url: &str) -> Decision {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        authorizer().decide(node, &RequestInfo::parse(&method, path, query))
    }

    #[test]
    fn a_node_reads_what_its_pods_need_and_nothing_else() {
        for (path, allowed) in [
            ("secrets/mounted", true),
            ("secrets/env", true),
            ("secrets/pull", true),
            ("secrets/other", false),
            ("configmaps/from", true),
            ("configmaps/projected", true),
            ("configmaps", false),
            ("persistentvolumeclaims/claim", true),
            ("serviceaccounts/s", true),
            ("pods/p", true),
            ("pods/q", false),
        ] {
            let url = format!("/api/v1/namespaces/n/{path}");
            assert_eq!(decide("mine", http::Method::GET, &url).is_allowed(), allowed, "{path}");
            assert!(!decide("other", http::Method::GET, &url).is_allowed(), "{path} of another node");
        }
        assert!(decide("mine", http::Method::GET, "/api/v1/persistentvolumes/volume").is_allowed());
        let reason = "no relationship found between node 'other' and this object".to_owned();
        assert_eq!(decide("other", http::Method::GET, "/api/v1/namespaces/n/secrets/env"), Decision::NoOpinion(reason));
    }

    #[test]
    fn a_pod_that_is_gone_relates_nothing() {
        let authorizer = authorizer();
        let pod = json!({"metadata": {"name": "p", "namespace": "n"}});
        authorizer.graph.clone().pods().remove(&Object::from_value(pod).unwrap());
        let info = RequestInfo::parse(&http::Method::GET, "/api/v1/namespaces/n/secrets/env", "");
        assert!(!authorizer.decide("mine", &info).is_allowed());
    }

    #[test]
    fn a_node_reads_itself_and_its_own_pods() {
        let get = || http::Method::GET;
        assert!(decide("mine", get(), "/api/v1/nodes/mine").is_allowed());
        assert!(decide("mine", get(), "/api/v1/nodes?watch=1&fieldSelector=metadata.name%3Dmine").is_allowed());
        assert!(!decide("mine", get(), "/api/v1/nodes").is_allowed());
        assert!(!decide("mine", get(), "/api/v1/nodes/other").is_allowed());
        assert!(decide("mine", get(), "/api/v1/pods?fieldSelector=spec.nodeName%3Dmine").is_allowed());
        assert!(!decide("mine", get(), "/api/v1/pods?fieldSelector=spec.nodeName%3Dother").is_allowed());
        assert!(!decide("mine", get(), "/api/v1/pods").is_allowed());
    }

    #[test]
    fn a_node_writes_its_own_lease_and_events_and_asks_tokens_of_its_accounts() {
        assert!(decide("mine", http::Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/mine").is_allowed());
        assert!(!decide("mine", http::Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/other").is_allowed());
        assert!(!decide("mine", http::Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/default/leases/mine").is_allowed());
        assert!(decide("mine", http::Method::POST, "/api/v1/namespaces/n/events").is_allowed());
        assert!(decide("mine", http::Method::POST, "/api/v1/namespaces/n/serviceaccounts/s/token").is_allowed());
        assert!(!decide("mine", http::Method::POST, "/api/v1/namespaces/n/serviceaccounts/default/token").is_allowed());
        assert!(!decide("mine", http::Method::DELETE, "/api/v1/nodes/mine").is_allowed());
    }

    #[test]
    fn a_node_is_known_by_name_and_group() {
        assert_eq!(identity(&UserInfo::new("system:node:a", &["system:nodes"])), Some("a"));
        assert_eq!(identity(&UserInfo::new("system:node:a", &[])), None);
        assert_eq!(identity(&UserInfo::new("a", &["system:nodes"])), None);
    }
}
