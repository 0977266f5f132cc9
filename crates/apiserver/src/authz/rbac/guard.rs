//! Keeps users from granting what they do not hold, by roles or by bindings.
//!
//! Upstream does this in the storage of roles and bindings; here it is one more look at the object after admission.

use std::sync::Arc;

use apimachinery::{Object, status::Status};
use async_trait::async_trait;
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef};
use serde_json::Value;

use super::{Rbac, confirm_no_escalation};
use crate::admission::{Admission, Attributes, Operation};
use crate::authz::{self, Authorizer};
use crate::request::{PRIVILEGED_GROUP, RequestContext, RequestInfo};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Refuses roles and bindings that would grant more than their author holds.
pub(crate) struct EscalationGuard {
    rbac: Arc<Rbac>,
    authorizer: Arc<dyn Authorizer>,
}

impl EscalationGuard {
    /// Looks rules up in `rbac`; `authorizer` decides about the verbs `escalate` and `bind`, which lift the check.
    pub(crate) fn new(rbac: Arc<Rbac>, authorizer: Arc<dyn Authorizer>) -> Self {
        Self { rbac, authorizer }
    }

    async fn holds(&self, ctx: &RequestContext, verb: &'static str, resource: &str, namespace: &str, name: &str) -> bool {
        let info = RequestInfo {
            is_resource: true,
            verb,
            group: GROUP.to_owned(),
            version: "*".to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..RequestInfo::default()
        };
        self.authorizer.authorize(&authz::Attributes { user: &ctx.user, info: &info }).await.is_allowed()
    }

    async fn check_role(&self, ctx: &RequestContext, attributes: &Attributes, role: &Object) -> Result<(), Status> {
        let (resource, namespace) = (attributes.resource.plural.as_str(), attributes.namespace.as_str());
        if self.holds(ctx, "escalate", resource, namespace, role.name()).await {
            return Ok(());
        }
        let rules = rules(role.pointer("/rules")).map_err(|error| attributes.forbidden(format!("the rules cannot be read: {error}")))?;
        confirm_no_escalation(&self.rbac, &ctx.user, namespace, &rules).map_err(|error| attributes.forbidden(error))?;
        let aggregates = role.pointer("/aggregationRule").is_some_and(|rule| !rule.is_null());
        if aggregates && confirm_no_escalation(&self.rbac, &ctx.user, "", &everything()).is_err() {
            return Err(attributes.forbidden("must have cluster-admin privileges to use the aggregationRule"));
        }
        Ok(())
    }

    async fn check_binding(&self, ctx: &RequestContext, attributes: &Attributes, binding: &Object) -> Result<(), Status> {
        let namespace = attributes.namespace.as_str();
        let text = |field: &str| binding.str_at(&format!("/roleRef/{field}")).to_owned();
        let role = RoleRef { api_group: Some(text("apiGroup")), kind: text("kind"), name: text("name") };
        let resource = if role.kind == "Role" { "roles" } else { "clusterroles" };
        if self.holds(ctx, "bind", resource, namespace, &role.name).await {
            return Ok(());
        }
        let rules = self.rbac.rules_of(&role, namespace).map_err(|missing| Status::failure(404, "NotFound", missing))?;
        confirm_no_escalation(&self.rbac, &ctx.user, namespace, &rules).map_err(|error| attributes.forbidden(error))
    }
}

/// A role's rules. What cannot be read might grant anything, and is no empty list.
fn rules(value: Option<&Value>) -> Result<Vec<PolicyRule>, serde_json::Error> {
    value.filter(|rules| !rules.is_null()).map_or_else(|| Ok(Vec::new()), |rules| serde_json::from_value(rules.clone()))
}

fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    let resources = PolicyRule { verbs: all(), api_groups: Some(all()), resources: Some(all()), ..PolicyRule::default() };
    [resources, PolicyRule { verbs: all(), non_resource_urls: Some(all()), ..PolicyRule::default() }]
}

/// Whether nothing but what the garbage collector writes differs.
fn only_for_garbage_collection(new: &Object, old: Option<&Object>) -> bool {
    let rest = |object: &Object| {
        let mut object = object.clone();
        for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
            object.meta_mut().remove(field);
        }
        object
    };
    old.is_some_and(|old| rest(new) == rest(old))
}

#[async_trait]
impl Admission for EscalationGuard {
    fn name(&self) -> &'static str {
        "rbac-escalation"
    }

    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    async fn admit(&self, ctx: &RequestContext, attributes: &mut Attributes) -> Result<(), Status> {
        let Some(object) = attributes.object.as_ref().filter(|_| attributes.resource.group == GROUP) else { return Ok(()) };
        if ctx.user.in_group(PRIVILEGED_GROUP) || only_for_garbage_collection(object, attributes.old_object.as_ref()) {
            return Ok(());
        }
        match attributes.resource.plural.as_str() {
            "roles" | "clusterroles" => self.check_role(ctx, attributes, object).await,
            "rolebindings" | "clusterrolebindings" => self.check_binding(ctx, attributes, object).await,
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_that_cannot_be_read_are_not_no_rules() {
        assert!(rules(Some(&json!([{"verbs": "*"}]))).is_err());
        assert_eq!(rules(Some(&Value::Null)).unwrap(), []);
        assert_eq!(rules(None).unwrap(), []);
    }
}
