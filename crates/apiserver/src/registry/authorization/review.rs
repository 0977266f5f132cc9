//! Access reviews: whether somebody may do something, and what one may do oneself.

use std::{collections::BTreeMap, sync::Arc};

use apimachinery::{
    Object,
    field::{Error, ErrorList},
    gvk::GroupKind,
    status::Status,
};
use async_trait::async_trait;
use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    authz::{Attributes, Authorizer, Decision},
    loopback::Loopback,
    registry::{
        Answer, Call, Connect, RuleResolver,
        check::{At, internal_form},
    },
    request::{RequestContext, RequestInfo, UserInfo},
};

/// Which of the three access reviews.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The caller.
    Own,
    /// Anybody, anywhere.
    Any,
    /// Anybody, in the namespace of the path.
    Local,
}

/// Serves `selfsubjectaccessreviews`, `subjectaccessreviews`, `localsubjectaccessreviews`.
pub(crate) struct Review {
    /// Whose access is reviewed.
    pub(crate) subject: Subject,
    /// Decides. Without one everything is refused.
    pub(crate) authorizer: Option<Arc<dyn Authorizer>>,
}

#[async_trait]
impl Connect for Review {
    async fn call(&self, ctx: &RequestContext, _api: &Loopback, call: Call) -> Result<Answer, Status> {
        let mut review = call.body.unwrap_or_default();
        let errs = check(self.subject, ctx.namespace(), &review);
        if !errs.is_empty() {
            return Err(Status::invalid(&GroupKind::new("authorization.k8s.io", ""), "", errs));
        }
        let spec = At::field(&review, "spec");
        let user = if self.subject == Subject::Own { ctx.user.clone() } else { user(&spec) };
        let info = request(&spec);
        let decision = match &self.authorizer {
            Some(authorizer) => authorizer.authorize(&Attributes { user: &user, info: &info }).await,
            None => Decision::NoOpinion("no authorizer is configured".into()),
        };
        review.0.insert("status".into(), status(decision));
        Ok(Answer::Object(StatusCode::CREATED, review))
    }
}

fn status(decision: Decision) -> Value {
    let (mut status, reason) = match decision {
        Decision::Allow(reason) => (json!({"allowed": true}), reason),
        Decision::Deny(reason) => (json!({"allowed": false, "denied": true}), reason),
        Decision::NoOpinion(reason) => (json!({"allowed": false}), reason),
    };
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    status
}

fn check(subject: Subject, namespace: &str, review: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    let spec = At::field(review, "spec");
    let (resource, path) = (spec.get("resourceAttributes"), spec.get("nonResourceAttributes"));
    match (resource.is_set(), path.is_set()) {
        (true, true) => {
            errs.push(Error::invalid(&path.path, internal_form(path.value), "cannot be specified in combination with resourceAttributes"))
        }
        (false, false) => errs.push(resource.invalid("exactly one of nonResourceAttributes or resourceAttributes must be specified")),
        _ => {}
    }
    if subject != Subject::Own && spec.get("user").is_empty() && spec.get("groups").size() == 0 {
        errs.push(Error::invalid(&spec.get("user").path, "", "at least one of user or group must be specified"));
    }
    if subject == Subject::Local {
        let of = resource.get("namespace");
        if resource.is_set() && of.str() != namespace {
            errs.push(Error::invalid(&of.path, of.str(), "must match metadata.namespace"));
        }
        if path.is_set() {
            errs.push(Error::invalid(&path.path, internal_form(path.value), "disallowed on this kind of request"));
        }
    }
    errs
}

fn user(spec: &At<'_>) -> UserInfo {
    let extra = spec.get("extra").entries().into_iter();
    let owned = |list: &At<'_>| list.strs().into_iter().map(str::to_owned).collect::<Vec<_>>();
    UserInfo {
        name: spec.get("user").str().to_owned(),
        uid: spec.get("uid").str().to_owned(),
        groups: owned(&spec.get("groups")),
        extra: extra.map(|(key, values)| (key.to_lowercase(), owned(&values))).collect::<BTreeMap<_, _>>(),
    }
}

/// The request the review asks about.
fn request(spec: &At<'_>) -> RequestInfo {
    let (resource, path) = (spec.get("resourceAttributes"), spec.get("nonResourceAttributes"));
    let text = |at: &At<'_>, field: &str| at.get(field).str().to_owned();
    if !resource.is_set() {
        let verb = static_verb(path.get("verb").str());
        return RequestInfo { verb, path: text(&path, "path"), ..RequestInfo::default() };
    }
    RequestInfo {
        is_resource: true,
        verb: static_verb(resource.get("verb").str()),
        group: text(&resource, "group"),
        version: text(&resource, "version"),
        namespace: text(&resource, "namespace"),
        resource: text(&resource, "resource"),
        subresource: text(&resource, "subresource"),
        name: text(&resource, "name"),
        ..RequestInfo::default()
    }
}

/// Verbs that rules may name; request info keeps them without copying.
const VERBS: [&str; 20] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "post",
    "put",
    "head",
    "options",
    "use",
    "bind",
    "escalate",
    "impersonate",
    "approve",
    "sign",
    "attest",
    "*",
];

/// An unknown verb becomes one that no rule but `*` grants.
fn static_verb(verb: &str) -> &'static str {
    VERBS.iter().find(|known| **known == verb).copied().unwrap_or("unknown")
}

/// Serves `selfsubjectrulesreviews`.
pub(crate) struct Rules(pub(crate) Option<Arc<dyn RuleResolver>>);

#[async_trait]
impl Connect for Rules {
    async fn call(&self, ctx: &RequestContext, _api: &Loopback, call: Call) -> Result<Answer, Status> {
        let mut review = call.body.unwrap_or_default();
        let namespace = review.str_at("/spec/namespace").to_owned();
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let resolver = self.0.as_ref().ok_or_else(|| Status::service_unavailable("no rule resolver is configured"))?;
        review.0.insert("status".into(), resolver.rules(&ctx.user, &namespace).await);
        Ok(Answer::Object(StatusCode::CREATED, review))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(subject: Subject, spec: Value) -> Vec<String> {
        let review = Object::from_value(json!({"spec": spec})).unwrap();
        check(subject, "n", &review).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_review_names_a_subject_and_one_kind_of_request() {
        let resource = json!({"namespace": "n", "resource": "pods", "verb": "get"});
        assert!(complaints(Subject::Own, json!({"resourceAttributes": resource})).is_empty());
        assert_eq!(
            complaints(Subject::Any, json!({"resourceAttributes": resource})),
            [r#"spec.user: Invalid value: "": at least one of user or group must be specified"#]
        );
        let other = json!({"namespace": "default", "resource": "pods", "verb": "get"});
        assert_eq!(
            complaints(Subject::Local, json!({"user": "a", "resourceAttributes": other})),
            [r#"spec.resourceAttributes.namespace: Invalid value: "default": must match metadata.namespace"#]
        );
    }

    #[test]
    fn reasons_are_shown_when_there_are_any() {
        assert_eq!(status(Decision::NoOpinion(String::new())), json!({"allowed": false}));
        assert_eq!(status(Decision::Deny("no".into())), json!({"allowed": false, "denied": true, "reason": "no"}));
    }
}
