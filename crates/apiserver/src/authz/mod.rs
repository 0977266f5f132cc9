//! Decides whether a user may do what a request asks for.

use async_trait::async_trait;

use crate::request::{RequestInfo, UserInfo};

/// An authorizer's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Allowed, with the reason for audit.
    Allow(String),
    /// Refused: no further authorizer is asked.
    Deny(String),
    /// This authorizer has nothing to say; the reason is shown if nobody allows.
    NoOpinion(String),
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

/// `AlwaysAllow`.
pub(crate) struct AlwaysAllow;

#[async_trait]
impl Authorizer for AlwaysAllow {
    async fn authorize(&self, _attributes: &Attributes<'_>) -> Decision {
        Decision::Allow(String::new())
    }
}
