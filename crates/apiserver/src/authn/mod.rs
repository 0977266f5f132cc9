//! Finds out who sends a request.

pub(crate) mod bearer;
pub(crate) mod client_ca;
pub(crate) mod front_proxy;
mod remembered;
pub(crate) mod service_account;
pub(crate) mod subprotocol;
pub(crate) mod x509;

use std::sync::Arc;

use apimachinery::status::Status;
use async_trait::async_trait;
use http::request::Parts;

use crate::request::{ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, UserInfo};

/// Key of a user's extra that names the credential, for audit.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Why credentials named no user.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Error {
    /// They are bad.
    #[error("{0}")]
    Bad(String),
    /// It could not be found out whether they are good: no reason to send the client away for good.
    #[error("{}", .0.message)]
    Undecided(Box<Status>),
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Self::Bad(text)
    }
}

/// One way to prove who one is: client certificate, bearer token, front proxy.
#[async_trait]
pub(crate) trait Authenticator: Send + Sync {
    /// The user, `None` where the request carries no credentials of this kind.
    /// The peer's certificates are the request extension `component::serve::Peer`.
    async fn authenticate(&self, request: &Parts) -> Result<Option<UserInfo>, Error>;
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
    async fn authenticate(&self, request: &Parts) -> Result<Option<UserInfo>, Error> {
        let (mut errors, mut undecided) = (Vec::new(), None);
        for authenticator in &self.0 {
            match authenticator.authenticate(request).await {
                Ok(Some(user)) => return Ok(Some(authenticated(user))),
                Ok(None) => {}
                Err(Error::Bad(text)) => errors.push(text),
                Err(error) => undecided = Some(error),
            }
        }
        if let Some(error) = undecided {
            return Err(error);
        }
        match errors.as_slice() {
            [] => Ok(None),
            [one] => Err(Error::Bad(one.clone())),
            many => Err(Error::Bad(format!("[{}]", many.join(", ")))),
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

    struct Fixed(Result<Option<UserInfo>, Error>);

    #[async_trait]
    impl Authenticator for Fixed {
        async fn authenticate(&self, _: &Parts) -> Result<Option<UserInfo>, Error> {
            self.0.clone()
        }
    }

    fn bad(text: &str) -> Error {
        Error::Bad(text.to_owned())
    }

    async fn ask(answers: Vec<Result<Option<UserInfo>, Error>>) -> Result<Option<UserInfo>, Error> {
        let authenticators = answers.into_iter().map(|answer| Arc::new(Fixed(answer)) as Arc<dyn Authenticator>).collect();
        let (parts, ()) = http::Request::new(()).into_parts();
        Union::new(authenticators).authenticate(&parts).await
    }

    #[tokio::test]
    async fn good_credentials_win_over_bad_ones_of_another_kind() {
        let alice = UserInfo::new("alice", &["crew"]);
        let found = ask(vec![Err(bad("bad certificate")), Ok(Some(alice))]).await.unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.groups), ("alice", vec!["crew".to_owned(), "system:authenticated".to_owned()]));
    }

    #[tokio::test]
    async fn bad_credentials_are_no_anonymity() {
        assert_eq!(ask(vec![Err(bad("bad token")), Ok(None)]).await, Err(bad("bad token")));
        assert_eq!(ask(vec![Ok(None)]).await, Ok(None));
    }

    #[tokio::test]
    async fn what_could_not_be_found_out_is_not_bad() {
        let down = Error::Undecided(Box::new(Status::internal("the store is away")));
        assert_eq!(ask(vec![Err(down.clone()), Err(bad("bad token"))]).await, Err(down));
    }
}
