//! `Authorization: Bearer TOKEN`, and the same token among the subprotocols of a WebSocket.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::header::AUTHORIZATION;
use http::request::Parts;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::{Authenticator, Error, subprotocol};
use crate::registry::TokenReviewer;
use crate::request::UserInfo;

/// How long a good token is believed without looking again; upstream's default.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Tokens remembered at most.
const CAPACITY: usize = 4096;

/// Whom a token named, and when that was found.
type Remembered = (Instant, UserInfo);

/// Takes bearer tokens out of requests and has them reviewed.
pub(crate) struct Bearer {
    reviewer: Arc<dyn TokenReviewer>,
    remembered: Mutex<HashMap<[u8; 32], Remembered>>,
}

impl Bearer {
    /// Has tokens reviewed by `reviewer`.
    pub(crate) fn new(reviewer: Arc<dyn TokenReviewer>) -> Self {
        Self { reviewer, remembered: Mutex::default() }
    }

    fn remember(&self, token: [u8; 32], user: UserInfo, now: Instant) {
        let mut remembered = self.remembered.lock();
        if remembered.len() >= CAPACITY {
            remembered.retain(|_, (found, _)| now.duration_since(*found) < REMEMBERED);
        }
        if remembered.len() < CAPACITY {
            remembered.insert(token, (now, user));
        }
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
        let (hash, now): ([u8; 32], _) = (Sha256::digest(&token).into(), Instant::now());
        let known =
            self.remembered.lock().get(&hash).filter(|(found, _)| now.duration_since(*found) < REMEMBERED).map(|(_, user)| user.clone());
        if known.is_some() {
            return Ok(known);
        }
        let (user, _) = self.reviewer.review(&token, &[]).await?;
        self.remember(hash, user.clone(), now);
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
