//! The roles and bindings a cluster begins with, reconciled at every start.
//!
//! A rule is written `verbs | groups | resources [| names]`, or `verbs @ paths`; `core` is the core group.

mod bindings;
mod components;
mod controllers;
mod user;

use std::collections::BTreeMap;

use apimachinery::Object;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

use bindings::{BINDINGS, Binding, NAMESPACED_BINDINGS, NAMESPACED_ROLES, Subject};
use components::COMPONENTS;
use controllers::CONTROLLERS;
use user::USER;

const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// One role of the table.
struct Role {
    name: &'static str,
    rules: &'static [&'static str],
    /// The role whose aggregation this one is part of.
    aggregated_to: &'static str,
    /// The aggregation this role is made of.
    aggregates: &'static str,
}

const fn role(name: &'static str, rules: &'static [&'static str]) -> Role {
    Role { name, rules, aggregated_to: "", aggregates: "" }
}

impl Role {
    const fn to(self, aggregated_to: &'static str) -> Self {
        Self { aggregated_to, ..self }
    }

    const fn of(self, aggregates: &'static str) -> Self {
        Self { aggregates, ..self }
    }

    fn object(&self, prefix: &str) -> Object {
        let mut role = object("ClusterRole", &format!("{prefix}{}", self.name), "");
        if !self.aggregated_to.is_empty() {
            role.set_label(&format!("{AGGREGATE}{}", self.aggregated_to), "true");
        }
        if !self.aggregates.is_empty() {
            let selector = BTreeMap::from([(format!("{AGGREGATE}{}", self.aggregates), "true")]);
            role.0.insert("aggregationRule".into(), json!({"clusterRoleSelectors": [{"matchLabels": selector}]}));
        }
        let rules = if self.aggregates.is_empty() { rules(self.rules) } else { Value::Null };
        role.0.insert("rules".into(), rules);
        role
    }
}

/// All bootstrap objects by resource, in the order they are to be made.
pub(crate) fn bootstrap_objects() -> Vec<(&'static str, Vec<Object>)> {
    let roles = |table: &[Role], prefix: &str| table.iter().map(|role| role.object(prefix)).collect::<Vec<_>>();
    let cluster_roles = [roles(USER, ""), roles(COMPONENTS, "system:"), roles(CONTROLLERS, "system:controller:")].concat();
    let controllers = CONTROLLERS.iter().map(|role| {
        let name = format!("system:controller:{}", role.name);
        binding("ClusterRoleBinding", "", &name, "ClusterRole", &name, &[subject(&Subject::Account(role.name))])
    });
    let bindings = BINDINGS.iter().map(|entry| bound("ClusterRoleBinding", "", "ClusterRole", entry)).chain(controllers).collect();
    let namespaced_roles = NAMESPACED_ROLES.iter().map(|(namespace, name, table)| {
        let mut role = object("Role", name, namespace);
        role.0.insert("rules".into(), rules(table));
        role
    });
    let namespaced_bindings = NAMESPACED_BINDINGS.iter().map(|(namespace, entry)| bound("RoleBinding", namespace, "Role", entry));
    vec![
        ("clusterroles", cluster_roles),
        ("clusterrolebindings", bindings),
        ("roles", namespaced_roles.collect()),
        ("rolebindings", namespaced_bindings.collect()),
    ]
}

/// What every node may do, whoever it is related to.
pub(crate) fn node_rules() -> Vec<PolicyRule> {
    let role = COMPONENTS.iter().find(|role| role.name == "node");
    role.map(|role| serde_json::from_value(rules(role.rules)).unwrap_or_default()).unwrap_or_default()
}

fn object(kind: &str, name: &str, namespace: &str) -> Object {
    let mut object = Object::default();
    object.set_api_version("rbac.authorization.k8s.io/v1");
    object.0.insert("kind".into(), kind.into());
    object.set_name(name);
    object.set_namespace(namespace);
    object.set_label("kubernetes.io/bootstrapping", "rbac-defaults");
    object.set_annotation("rbac.authorization.kubernetes.io/autoupdate", "true");
    object
}

fn rules(table: &[&str]) -> Value {
    table.iter().map(|line| rule(line)).collect()
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().map(|word| if word == "core" { "" } else { word }).collect()
}

fn rule(line: &str) -> Value {
    if let Some((verbs, paths)) = line.split_once(" @ ") {
        return json!({"verbs": words(verbs), "nonResourceURLs": words(paths)});
    }
    let mut parts = line.split(" | ").map(words);
    let mut next = || parts.next().unwrap_or_default();
    let mut rule = json!({"verbs": next(), "apiGroups": next(), "resources": next()});
    let names = next();
    if !names.is_empty() {
        rule["resourceNames"] = json!(names);
    }
    rule
}

fn bound(kind: &str, namespace: &str, role_kind: &str, Binding(name, role, subjects): &Binding) -> Object {
    let subjects: Vec<Value> = subjects.iter().map(subject).collect();
    binding(kind, namespace, name, role_kind, role, &subjects)
}

fn binding(kind: &str, namespace: &str, name: &str, role_kind: &str, role: &str, subjects: &[Value]) -> Object {
    let mut binding = object(kind, name, namespace);
    binding.0.insert("roleRef".into(), json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role}));
    if !subjects.is_empty() {
        binding.0.insert("subjects".into(), subjects.into());
    }
    binding
}

fn subject(subject: &Subject) -> Value {
    let named = |kind: &str, name: &str| json!({"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": name});
    match subject {
        Subject::User(name) => named("User", name),
        Subject::Group(name) => named("Group", name),
        Subject::Account(name) => json!({"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_is_a_rule() {
        assert_eq!(
            rule("get list | core apps | pods deployments | a"),
            json!({"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods", "deployments"], "resourceNames": ["a"]})
        );
        assert_eq!(rule("get @ /healthz /livez"), json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez"]}));
    }

    #[test]
    fn every_controller_role_is_bound_to_its_account() {
        let objects = bootstrap_objects();
        let counts: Vec<_> = objects.iter().map(|(resource, objects)| (*resource, objects.len())).collect();
        assert_eq!(counts, [("clusterroles", 69), ("clusterrolebindings", 50), ("roles", 7), ("rolebindings", 7)]);
        let deployment = objects[1].1.iter().find(|binding| binding.name() == "system:controller:deployment-controller").unwrap();
        assert_eq!(deployment.str_at("/subjects/0/name"), "deployment-controller");
    }

    #[test]
    fn admin_is_made_of_what_is_aggregated_to_it() {
        let objects = bootstrap_objects();
        let role = |name: &str| objects[0].1.iter().find(|role| role.name() == name).unwrap();
        let label = "rbac.authorization.k8s.io/aggregate-to-admin";
        assert_eq!(role("edit").label(label), Some("true"));
        assert_eq!(role("admin").pointer("/aggregationRule/clusterRoleSelectors/0/matchLabels"), Some(&json!({label: "true"})));
        assert_eq!(role("admin").pointer("/rules"), Some(&Value::Null));
    }

    #[test]
    fn nodes_have_rules() {
        assert!(node_rules().iter().any(|rule| rule.resources.iter().flatten().any(|resource| resource == "nodes/status")));
    }
}
