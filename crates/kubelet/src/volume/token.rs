//! Service account tokens for projected volumes, renewed before they expire.

use std::{collections::HashMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Pod, ServiceAccount, ServiceAccountTokenProjection},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;

use crate::pod::facts;

/// A token is renewed after this share of its life, or at this age at the latest (upstream's token manager).
const RENEW_AT: f64 = 0.8;
const OLDEST: SignedDuration = SignedDuration::from_hours(24);

#[derive(Clone)]
struct Kept {
    token: Arc<str>,
    renew: Timestamp,
    expires: Timestamp,
}

/// Pod, audience and lifetime in seconds.
type Key = (String, String, i64);

/// Tokens of one node's pods.
pub(crate) struct Tokens {
    client: Client,
    kept: Mutex<HashMap<Key, Kept>>,
}

impl Tokens {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, kept: Mutex::default() }
    }

    /// A token for the projection that is good for a while after `now`.
    pub(crate) async fn get(&self, pod: &Pod, projection: &ServiceAccountTokenProjection, now: Timestamp) -> Result<Arc<str>, String> {
        let seconds = projection.expiration_seconds.unwrap_or(3600);
        let key = (facts::uid(pod).to_owned(), projection.audience.clone().unwrap_or_default(), seconds);
        let kept = self.kept.lock().get(&key).cloned();
        if let Some(kept) = kept.as_ref().filter(|k| now < k.renew) {
            return Ok(kept.token.clone());
        }
        match self.request(pod, &key.1, seconds, now).await {
            Ok((token, expires)) => {
                let kept = Kept { token: token.clone(), renew: renew_at(now, expires), expires };
                self.kept.lock().insert(key, kept);
                Ok(token)
            }
            // The old one still serves.
            Err(error) => kept.filter(|k| now < k.expires).map(|k| k.token).ok_or(error),
        }
    }

    async fn request(&self, pod: &Pod, audience: &str, seconds: i64, now: Timestamp) -> Result<(Arc<str>, Timestamp), String> {
        let account = pod.spec.as_ref().and_then(|s| s.service_account_name.clone()).unwrap_or_else(|| "default".into());
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: (!audience.is_empty()).then(|| vec![audience.to_owned()]),
                expiration_seconds: Some(seconds),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".into()),
                    kind: Some("Pod".into()),
                    name: Some(facts::name(pod).to_owned()),
                    uid: Some(facts::uid(pod).to_owned()),
                }),
            }),
            ..Default::default()
        };
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), facts::namespace(pod));
        let answer = api.create_token_request(&account, &PostParams::default(), &request).await;
        let answer = answer.map_err(|e| format!("failed to fetch token: {}", crate::text::api_error(&e)))?;
        let status = answer.status.ok_or("failed to fetch token: the answer holds none")?;
        let token = status.token.ok_or("failed to fetch token: the answer holds none")?;
        // Without an expiry in the answer the one asked for counts.
        let asked = after(now, seconds);
        Ok((token.into(), status.expiration_timestamp.map_or(asked, |time| time.0)))
    }

    /// Forgets the pod's tokens.
    pub(crate) fn forget(&self, uid: &str) {
        self.kept.lock().retain(|key, _| key.0 != uid);
    }
}

fn after(now: Timestamp, seconds: i64) -> Timestamp {
    now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

fn renew_at(now: Timestamp, expires: Timestamp) -> Timestamp {
    let life = expires.duration_since(now).as_secs_f64().max(0.0);
    let share = SignedDuration::try_from_secs_f64(life * RENEW_AT).unwrap_or(OLDEST);
    now.saturating_add(share.min(OLDEST)).unwrap_or(expires)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renews_after_four_fifths_of_a_tokens_life_or_a_day() {
        let now = Timestamp::UNIX_EPOCH;
        let after = |seconds: i64| renew_at(now, now + SignedDuration::from_secs(seconds)).as_second();
        assert_eq!(after(3600), 2880);
        assert_eq!(after(365 * 86400), 86400);
    }
}
