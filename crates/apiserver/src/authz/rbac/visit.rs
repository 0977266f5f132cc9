//! The rules that apply to a user, one binding after the other, without copies: every request asks for them.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role, RoleRef, Subject};

use super::Rbac;
use crate::request::UserInfo;

/// Which binding grants rules to whom.
pub(super) struct Grant<'a> {
    kind: &'static str,
    name: &'a str,
    /// Of the binding; empty for a cluster-wide one.
    namespace: &'a str,
    role: &'a RoleRef,
    subject: &'a Subject,
}

/// The rules a role reference stands for.
pub(super) enum Rules {
    InNamespace(Arc<Role>),
    OfCluster(Arc<ClusterRole>),
}

impl Rules {
    pub(super) fn as_slice(&self) -> &[PolicyRule] {
        let rules = match self {
            Self::InNamespace(role) => &role.rules,
            Self::OfCluster(role) => &role.rules,
        };
        rules.as_deref().unwrap_or_default()
    }
}

/// Is given each grant with its rules, or the reason why they could not be found; says whether it has seen enough.
pub(super) type Visitor<'a> = dyn FnMut(&Grant<'_>, Result<&[PolicyRule], String>) -> bool + 'a;

impl Rbac {
    /// Visits what applies to `user` in `namespace` (empty: cluster-wide), in the order in which upstream visits it.
    pub(super) fn visit(&self, user: &UserInfo, namespace: &str, visitor: &mut Visitor<'_>) {
        let cluster_wide = self.cluster_role_bindings.any("", |key, binding| {
            let subject = binding.subjects.iter().flatten().find(|subject| applies(user, subject, ""));
            subject.is_some_and(|subject| {
                let grant = Grant { kind: "ClusterRoleBinding", name: &key.name, namespace: "", role: &binding.role_ref, subject };
                self.show(&grant, visitor)
            })
        });
        if cluster_wide || namespace.is_empty() {
            return;
        }
        self.role_bindings.any(namespace, |key, binding| {
            let subject = binding.subjects.iter().flatten().find(|subject| applies(user, subject, namespace));
            subject.is_some_and(|subject| {
                let grant = Grant { kind: "RoleBinding", name: &key.name, namespace, role: &binding.role_ref, subject };
                self.show(&grant, visitor)
            })
        });
    }

    fn show(&self, grant: &Grant<'_>, visitor: &mut Visitor<'_>) -> bool {
        match self.rules(grant.role, grant.namespace) {
            Ok(rules) => visitor(grant, Ok(rules.as_slice())),
            Err(missing) => visitor(grant, Err(missing)),
        }
    }

    /// The rules a role reference in a namespace stands for.
    pub(super) fn rules(&self, role: &RoleRef, namespace: &str) -> Result<Rules, String> {
        let missing = |kind: &str| format!("{kind}.rbac.authorization.k8s.io {:?} not found", role.name);
        match role.kind.as_str() {
            "Role" => self.roles.get(namespace, &role.name).map(Rules::InNamespace).ok_or_else(|| missing("role")),
            "ClusterRole" => self.cluster_roles.get("", &role.name).map(Rules::OfCluster).ok_or_else(|| missing("clusterrole")),
            kind => Err(format!("unsupported role reference kind: {kind:?}")),
        }
    }
}

/// As audit shows it.
impl std::fmt::Display for Grant<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, name, namespace, role, subject } = self;
        let name = if namespace.is_empty() { (*name).to_owned() } else { format!("{name}/{namespace}") };
        write!(f, "{kind} {name:?} of {} {:?} to ", role.kind, role.name)?;
        match subject.kind.as_str() {
            "ServiceAccount" => {
                let own = subject.namespace.as_deref().filter(|given| !given.is_empty()).unwrap_or(namespace);
                write!(f, "ServiceAccount {:?}", format!("{}/{own}", subject.name))
            }
            kind => write!(f, "{kind} {:?}", subject.name),
        }
    }
}

/// Whether a binding's subject is this user; `namespace` is the binding's.
fn applies(user: &UserInfo, subject: &Subject, namespace: &str) -> bool {
    match subject.kind.as_str() {
        "User" => user.name == subject.name,
        "Group" => user.in_group(&subject.name),
        "ServiceAccount" => {
            let namespace = subject.namespace.as_deref().filter(|given| !given.is_empty()).unwrap_or(namespace);
            let account = user.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
            !namespace.is_empty() && account == Some((namespace, subject.name.as_str()))
        }
        _ => false,
    }
}
