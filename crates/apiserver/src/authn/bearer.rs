//! `Authorization: Bearer TOKEN`, and the same token among the subprotocols of a WebSocket.

use std::sync::Arc;

use async_trait::async_trait;
use http::header::AUTHORIZATION;
use http::request::Parts;
use sha2::{Digest as _, Sha256};

use super::remembered::Remembered;
use super::{Authenticator, Error, subprotocol};
use crate::registry::TokenReviewer;
use crate::request::UserInfo;

/// Takes bearer tokens out of requests and has them reviewed.
pub(crate) struct Bearer {
    reviewer: Arc<dyn TokenReviewer>,
    remembered: Remembered<[u8; 32]>,
}

impl Bearer {
    /// Has tokens reviewed by `reviewer`.
    pub(crate) fn new(reviewer: Arc<dyn TokenReviewer>) -> Self {
        Self { reviewer, remembered: Remembered::default() }
    }
}

#[async_trait]
impl Authenticator for Bearer {
    async fn authenticate(&self, request: &Parts) -> Result<Option<UserInfo>, Error> {
        let token = match token(request) {
            Some(token) => Some(token.to_owned()),
            None => subprotocol::token(&request.headers)?,
        };
        let Some(token) = token else { return Ok(None) };
        // Tokens themselves are not kept.
        let hash: [u8; 32] = Sha256::digest(&token).into();
        if let Some(known) = self.remembered.get(&hash) {
            return Ok(Some(known));
        }
        let (user, _) = self.reviewer.review(&token, &[]).await?;
        self.remembered.put(hash, user.clone());
        Ok(Some(user))
    }
}

fn token(request: &Parts) -> Option<&str> {
    let header = request.headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = header.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(header: &str) -> Option<String> {
        let (parts, ()) = http::Request::builder().header(AUTHORIZATION, header).body(()).unwrap().into_parts();
        token(&parts).map(str::to_owned)
    }

    #[test]
    fn only_bearer_tokens_are_taken() {
        assert_eq!(of("Bearer abc"), Some("abc".into()));
        assert_eq!(of("bearer abc"), Some("abc".into()));
        assert_eq!(of("Basic abc"), None);
        assert_eq!(of("Bearer"), None);
    }
}
