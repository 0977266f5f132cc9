//! Finds out who sends a request.

use async_trait::async_trait;
use http::request::Parts;

use crate::request::UserInfo;

/// One way to prove who one is: client certificate, bearer token, front proxy.
#[async_trait]
pub(crate) trait Authenticator: Send + Sync {
    /// The user, `None` where the request carries no credentials of this kind, an error text where they are bad.
    /// The peer's certificates are the request extension `component::serve::Peer`.
    async fn authenticate(&self, request: &Parts) -> Result<Option<UserInfo>, String>;
}
