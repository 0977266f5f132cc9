//! Finds out who sends a request.

pub(crate) mod bearer;
pub(crate) mod client_ca;
pub(crate) mod front_proxy;
pub(crate) mod service_account;
pub(crate) mod x509;

use std::sync::Arc;

use async_trait::async_trait;
use http::request::Parts;

use crate::request::{ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, UserInfo};

/// Key of a user's extra that names the credential, for audit.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// One way to prove who one is: client certificate, bearer token, front proxy.
#[async_trait]
pub(crate) trait Authenticator: Send + Sync {
    /// The user, `None` where the request carries no credentials of this kind, an error text where they are bad.
    /// The peer's certificates are the request extension `component::serve::Peer`.
    async fn authenticate(&self, request: &Parts) -> Result<Option<UserInfo>, String>;
}

/// Asks authenticators in order; the first that knows the user decides. Bad credentials of one kind do not matter when
/// those of another are good. Upstream: `union.New` with groups added.
pub(crate) struct Union(Vec<Arc<dyn Authenticator>>);

impl Union {
    /// Asks these, in this order.
    pub(crate) fn new(authenticators: Vec<Arc<dyn Authenticator>>) -> Self {
        Self(authenticators)
    }
}

#[async_trait]
impl Authenticator for Union {
    async fn authenticate(&self, request: &Parts) -> Result<Option<UserInfo>, String> {
        let mut errors = Vec::new();
        for authenticator in &self.0 {
            match authenticator.authenticate(request).await {
                Ok(Some(user)) => return Ok(Some(authenticated(user))),
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        match errors.as_slice() {
            [] => Ok(None),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }
}

/// Adds `system:authenticated`, but to the anonymous user.
fn authenticated(mut user: UserInfo) -> UserInfo {
    if !user.in_group(ALL_AUTHENTICATED) && !user.in_group(ALL_UNAUTHENTICATED) {
        user.groups.push(ALL_AUTHENTICATED.to_owned());
    }
    user
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Result<Option<UserInfo>, String>);

    #[async_trait]
    impl Authenticator for Fixed {
        async fn authenticate(&self, _: &Parts) -> Result<Option<UserInfo>, String> {
            self.0.clone()
        }
    }

    async fn ask(answers: Vec<Result<Option<UserInfo>, String>>) -> Result<Option<UserInfo>, String> {
        let authenticators = answers.into_iter().map(|answer| Arc::new(Fixed(answer)) as Arc<dyn Authenticator>).collect();
        let (parts, ()) = http::Request::new(()).into_parts();
        Union::new(authenticators).authenticate(&parts).await
    }

    #[tokio::test]
    async fn good_credentials_win_over_bad_ones_of_another_kind() {
        let alice = UserInfo::new("alice", &["crew"]);
        let found = ask(vec![Err("bad certificate".into()), Ok(Some(alice))]).await.unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.groups), ("alice", vec!["crew".to_owned(), "system:authenticated".to_owned()]));
    }

    #[tokio::test]
    async fn bad_credentials_are_no_anonymity() {
        assert_eq!(ask(vec![Err("bad token".into()), Ok(None)]).await, Err("bad token".into()));
        assert_eq!(ask(vec![Ok(None)]).await, Ok(None));
    }
}
