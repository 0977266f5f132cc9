//! What a user may do, for SelfSubjectRulesReview (`kubectl auth can-i --list`).

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

use super::node;
use super::rbac::{Rbac, aggregate};
use crate::registry::RuleResolver;
use crate::request::UserInfo;

/// Lists rules of the authorizers in force.
pub(crate) struct Rules {
    rbac: Arc<Rbac>,
    node: bool,
}

impl Rules {
    /// Rules of RBAC; `node` tells whether the Node authorizer, whose decisions cannot be listed, is in force too.
    pub(crate) fn new(rbac: Arc<Rbac>, node: bool) -> Self {
        Self { rbac, node }
    }
}

#[async_trait]
impl RuleResolver for Rules {
    async fn rules(&self, user: &UserInfo, namespace: &str) -> Value {
        let (rules, mut errors) = self.rbac.rules_for(user, namespace);
        let unlisted = self.node && node::identity(user).is_some();
        if unlisted {
            errors.insert(0, "node authorizer does not support user rule resolution".to_owned());
        }
        let resources: Vec<Value> =
            rules.iter().filter(|rule| rule.resources.as_ref().is_some_and(|list| !list.is_empty())).map(resource_rule).collect();
        let paths: Vec<Value> =
            rules.iter().filter(|rule| rule.non_resource_urls.as_ref().is_some_and(|list| !list.is_empty())).map(path_rule).collect();
        let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": unlisted || !errors.is_empty()});
        if !errors.is_empty() {
            status["evaluationError"] = aggregate(&errors).into();
        }
        status
    }
}

fn resource_rule(rule: &PolicyRule) -> Value {
    let mut listed = json!({"verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources});
    if let Some(names) = rule.resource_names.as_ref().filter(|names| !names.is_empty()) {
        listed["resourceNames"] = json!(names);
    }
    listed
}

fn path_rule(rule: &PolicyRule) -> Value {
    json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls})
}
