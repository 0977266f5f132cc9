//! Finds out who sends a request.

pub(crate) mod x509;

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

/// Asks several authenticators in turn; the first that knows the user wins.
pub(crate) struct Union(pub(crate) Vec<std::sync::Arc<dyn Authenticator>>);

#[async_trait]
impl Authenticator for Union {
    async fn authenticate(&self, request: &Parts) -> Result<Option<UserInfo>, String> {
        for authenticator in &self.0 {
            if let Some(user) = authenticator.authenticate(request).await? {
                return Ok(Some(user));
            }
        }
        Ok(None)
    }
}
