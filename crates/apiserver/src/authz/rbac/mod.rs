//! Role-based access control: roles grant rules, bindings give roles to subjects.

mod escalation;
mod guard;
mod policy;
mod rule;
mod visit;

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef};

use escalation::confirm_no_escalation;
pub(crate) use escalation::covered;
pub(crate) use guard::EscalationGuard;
pub(crate) use policy::{bootstrap_objects, node_rules};
pub(crate) use rule::allows;

use super::{Attributes, Authorizer, Decision};
use crate::informer::{Cache, Sink, feed};
use crate::loopback::Loopback;
use crate::request::UserInfo;

const GROUP_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// All roles and bindings, kept up to date.
pub(crate) struct Rbac {
    roles: Arc<Cache<Role>>,
    cluster_roles: Arc<Cache<ClusterRole>>,
    role_bindings: Arc<Cache<RoleBinding>>,
    cluster_role_bindings: Arc<Cache<ClusterRoleBinding>>,
}

impl Default for Rbac {
    fn default() -> Self {
        Self {
            roles: Cache::new(|object| object.typed().ok()),
            cluster_roles: Cache::new(|object| object.typed().ok()),
            role_bindings: Cache::new(|object| object.typed().ok()),
            cluster_role_bindings: Cache::new(|object| object.typed().ok()),
        }
    }
}

impl Rbac {
    /// Follows roles and bindings through the API; runs until dropped.
    pub(crate) async fn run(self: Arc<Self>, api: Loopback) {
        let follow = |resource, sink: Arc<dyn Sink>| feed(api.api(GROUP_VERSION, resource), sink);
        tokio::join!(
            follow("roles", self.roles.clone()),
            follow("clusterroles", self.cluster_roles.clone()),
            follow("rolebindings", self.role_bindings.clone()),
            follow("clusterrolebindings", self.cluster_role_bindings.clone()),
        );
    }

    /// Whether the first lists are in.
    pub(crate) fn is_synced(&self) -> bool {
        self.roles.is_synced() && self.cluster_roles.is_synced() && self.role_bindings.is_synced() && self.cluster_role_bindings.is_synced()
    }

    /// The rules a role reference stands for.
    pub(crate) fn rules_of(&self, role: &RoleRef, namespace: &str) -> Result<Vec<PolicyRule>, String> {
        self.rules(role, namespace).map(|rules| rules.as_slice().to_vec())
    }

    /// All rules of a user in a namespace, and the problems met.
    pub(crate) fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        self.visit(user, namespace, &mut |_, found| {
            match found {
                Ok(granted) => rules.extend_from_slice(granted),
                Err(error) => errors.push(error),
            }
            false
        });
        (rules, errors)
    }

    /// Decides without waiting.
    pub(crate) fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let namespace = if attributes.info.is_resource { attributes.info.namespace.as_str() } else { "" };
        let (mut errors, mut allowed) = (Vec::new(), None);
        self.visit(attributes.user, namespace, &mut |grant, found| {
            match found {
                Ok(rules) if rules.iter().any(|rule| allows(rule, attributes.info)) => allowed = Some(grant.to_string()),
                Ok(_) => {}
                Err(error) => errors.push(error),
            }
            allowed.is_some()
        });
        if let Some(grant) = allowed {
            return Decision::Allow(format!("RBAC: allowed by {grant}"));
        }
        Decision::NoOpinion(if errors.is_empty() { String::new() } else { format!("RBAC: {}", aggregate(&errors)) })
    }
}

#[async_trait]
impl Authorizer for Rbac {
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        self.decide(attributes)
    }
}

/// Several errors as upstream prints them: one alone, more in brackets, each text once.
pub(crate) fn aggregate(errors: &[String]) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::Object;
    use serde_json::{Value, json};

    use super::*;
    use crate::request::RequestInfo;

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    fn rbac() -> Rbac {
        let rbac = Rbac::default();
        let rules = |resources: Value, verbs: Value| json!([{"apiGroups": [""], "resources": resources, "verbs": verbs}]);
        rbac.roles.upsert(object(json!({"metadata": {"name": "r", "namespace": "n"}, "rules": rules(json!(["pods"]), json!(["get"]))})));
        rbac.cluster_roles.upsert(object(json!({"metadata": {"name": "nodes"}, "rules": rules(json!(["nodes"]), json!(["list"]))})));
        let role = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        let bind = |name: &str, role: Value, subjects: Value| {
            object(json!({"metadata": {"name": name, "namespace": "n"}, "roleRef": role, "subjects": subjects}))
        };
        rbac.role_bindings.upsert(bind("b", role("Role", "r"), json!([{"kind": "User", "name": "alice"}])));
        rbac.role_bindings.upsert(bind("c", role("ClusterRole", "gone"), json!([{"kind": "User", "name": "bob"}])));
        rbac.role_bindings.upsert(bind("d", role("Role", "r"), json!([{"kind": "ServiceAccount", "name": "s"}])));
        let everybody =
            json!({"metadata": {"name": "e"}, "roleRef": role("ClusterRole", "nodes"), "subjects": [{"kind": "Group", "name": "crew"}]});
        rbac.cluster_role_bindings.upsert(object(everybody));
        rbac
    }

    fn decide(user: &UserInfo, path: &str) -> Decision {
        let info = RequestInfo::parse(&http::Method::GET, path, "");
        rbac().decide(&Attributes { user, info: &info })
    }

    #[test]
    fn a_binding_grants_in_its_namespace_only() {
        let alice = UserInfo::new("alice", &[]);
        let reason = r#"RBAC: allowed by RoleBinding "b/n" of Role "r" to User "alice""#;
        assert_eq!(decide(&alice, "/api/v1/namespaces/n/pods/p"), Decision::Allow(reason.into()));
        assert_eq!(decide(&alice, "/api/v1/namespaces/m/pods/p"), Decision::NoOpinion(String::new()));
        assert_eq!(decide(&alice, "/api/v1/namespaces/n/pods"), Decision::NoOpinion(String::new()));
    }

    #[test]
    fn a_missing_role_is_named() {
        let bob = UserInfo::new("bob", &[]);
        let reason = r#"RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#;
        assert_eq!(decide(&bob, "/api/v1/namespaces/n/pods/p"), Decision::NoOpinion(reason.into()));
    }

    #[test]
    fn an_account_without_namespace_is_one_of_the_bindings_namespace() {
        assert!(decide(&UserInfo::new("system:serviceaccount:n:s", &[]), "/api/v1/namespaces/n/pods/p").is_allowed());
        assert!(!decide(&UserInfo::new("system:serviceaccount:m:s", &[]), "/api/v1/namespaces/n/pods/p").is_allowed());
    }

    #[test]
    fn a_group_grants_cluster_wide() {
        assert!(decide(&UserInfo::new("x", &["crew"]), "/api/v1/nodes").is_allowed());
    }
}
