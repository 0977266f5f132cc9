//! Decides whether a user may do what a request asks for.

pub(crate) mod node;
pub(crate) mod rbac;
pub(crate) mod rules;

use std::sync::Arc;

use async_trait::async_trait;

use crate::request::{PRIVILEGED_GROUP, RequestInfo, UserInfo};

/// An authorizer's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Allowed, with the reason for audit.
    Allow(String),
    /// Refused: no further authorizer is asked.
    #[allow(dead_code, reason = "none of the built-in authorizers denies; a webhook may")]
    Deny(String),
    /// This authorizer has nothing to say; the reason is shown if nobody allows.
    NoOpinion(String),
}

impl Decision {
    /// Whether the request may go on.
    pub(crate) fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }
}

/// What is to be decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    /// Who asks.
    pub(crate) user: &'a UserInfo,
    /// For what.
    pub(crate) info: &'a RequestInfo,
}

/// Decides requests: RBAC, Node, AlwaysAllow …
#[async_trait]
pub(crate) trait Authorizer: Send + Sync {
    /// Decides one request. An error counts as no opinion and is logged.
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision;
}

/// Asks authorizers in order until one allows or denies (`--authorization-mode`).
pub(crate) struct Union(Vec<Arc<dyn Authorizer>>);

impl Union {
    /// `system:masters` is let through before any of these is asked.
    pub(crate) fn new(authorizers: Vec<Arc<dyn Authorizer>>) -> Self {
        Self(authorizers)
    }
}

#[async_trait]
impl Authorizer for Union {
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.in_group(PRIVILEGED_GROUP) {
            return Decision::Allow(String::new());
        }
        let mut reasons = Vec::new();
        for authorizer in &self.0 {
            match authorizer.authorize(attributes).await {
                Decision::NoOpinion(reason) if reason.is_empty() => {}
                Decision::NoOpinion(reason) => reasons.push(reason),
                decided => return decided,
            }
        }
        Decision::NoOpinion(reasons.join("\n"))
    }
}

/// Lets everything through (`--authorization-mode=AlwaysAllow`).
pub(crate) struct AlwaysAllow;

#[async_trait]
impl Authorizer for AlwaysAllow {
    async fn authorize(&self, _: &Attributes<'_>) -> Decision {
        Decision::Allow(String::new())
    }
}

/// Lets nothing through (`--authorization-mode=AlwaysDeny`).
pub(crate) struct AlwaysDeny;

#[async_trait]
impl Authorizer for AlwaysDeny {
    async fn authorize(&self, _: &Attributes<'_>) -> Decision {
        Decision::NoOpinion("Everything is forbidden.".to_owned())
    }
}
