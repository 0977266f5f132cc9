//! Service-account tokens: signed by this server, bound to an account and possibly a pod, node or secret, good as long as
//! those exist.

mod claims;
mod keys;

use apimachinery::{Object, status::Status};
use async_trait::async_trait;
use jsonwebtoken::{Header, Validation};
use serde_json::{Value, json};

pub(crate) use keys::{PrivateKey, PublicKey, load_private, load_public};

use super::Error;
use crate::loopback::Loopback;
use crate::registry::{TokenIssuer, TokenReviewer};
use crate::request::UserInfo;
use claims::{Claims, Reference};

/// Objects being deleted still count for this long, so that a pod can use its token while it terminates.
const DELETION_LEEWAY_SECONDS: i64 = 60;
/// The longest life of a token, 2^32 seconds, as the API's validation has it.
const MAX_SECONDS: i64 = 1 << 32;

/// Signs tokens (`--service-account-signing-key-file`).
pub(crate) struct Signer {
    issuer: String,
    audiences: Vec<String>,
    max_seconds: Option<i64>,
    key: PrivateKey,
}

impl Signer {
    /// Signs as `issuer`; tokens that name no audience get `audiences`; `max_seconds` is
    /// `--service-account-max-token-expiration`.
    pub(crate) fn new(issuer: String, audiences: Vec<String>, max_seconds: Option<i64>, key: PrivateKey) -> Self {
        Self { issuer, audiences, max_seconds, key }
    }
}

impl TokenIssuer for Signer {
    fn issuer(&self) -> &str {
        &self.issuer
    }

    fn audiences(&self) -> &[String] {
        &self.audiences
    }

    fn max_seconds(&self) -> i64 {
        self.max_seconds.unwrap_or(MAX_SECONDS)
    }

    fn sign(&self, claims: &Value) -> Result<String, Status> {
        // Upstream's header: algorithm and key, no type.
        let header = Header { kid: Some(self.key.id.clone()), typ: None, ..Header::new(self.key.algorithm) };
        jsonwebtoken::encode(&header, claims, &self.key.key).map_err(|error| Status::internal(format!("failed to generate token: {error}")))
    }
}

/// Checks tokens (`--service-account-key-file`, `--service-account-issuer`, `--api-audiences`).
pub(crate) struct Verifier {
    issuers: Vec<String>,
    audiences: Vec<String>,
    keys: Vec<PublicKey>,
    api: Loopback,
}

impl Verifier {
    /// Accepts tokens of `issuers` signed by one of `keys` for one of `audiences`.
    pub(crate) fn new(issuers: Vec<String>, audiences: Vec<String>, keys: Vec<PublicKey>, api: Loopback) -> Self {
        Self { issuers, audiences, keys, api }
    }

    /// The document at `/openid/v1/jwks`.
    pub(crate) fn jwks(&self) -> Value {
        json!({"keys": self.keys.iter().map(PublicKey::jwk).collect::<Vec<_>>()})
    }

    /// The algorithms of the keys, each once.
    pub(crate) fn algorithms(&self) -> Vec<&str> {
        let mut algorithms: Vec<&str> = self.keys.iter().filter_map(|key| key.jwk().get("alg")?.as_str()).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        algorithms
    }

    /// The claims of a token one of whose issuers is ours; `None` for other tokens. Errors: text, for bad signatures.
    fn claims(&self, token: &str) -> Result<Option<Claims>, String> {
        let Ok(header) = jsonwebtoken::decode_header(token) else { return Ok(None) };
        let Ok(unverified) = jsonwebtoken::dangerous::insecure_decode::<Claims>(token) else { return Ok(None) };
        if !self.issuers.contains(&unverified.claims.iss) {
            return Ok(None);
        }
        let named = |key: &&PublicKey| header.kid.as_ref().is_none_or(|id| *id == key.id);
        let mut last = "no key to check the token's signature".to_owned();
        for key in self.keys.iter().filter(named).filter(|key| key.algorithm == header.alg) {
            let mut validation = Validation::new(key.algorithm);
            validation.validate_exp = false;
            validation.validate_aud = false;
            validation.required_spec_claims.clear();
            match jsonwebtoken::decode::<Claims>(token, &key.key, &validation) {
                Ok(verified) => return Ok(Some(verified.claims)),
                Err(error) => last = error.to_string(),
            }
        }
        Err(last)
    }

    /// Whether what the token is bound to still exists.
    async fn check_bound(&self, claims: &Claims, now: i64) -> Result<(), Error> {
        let (bound, account) = (&claims.bound, &claims.bound.serviceaccount);
        let found = self.find("serviceaccounts", &bound.namespace, account).await?;
        let found = found.ok_or_else(|| format!("serviceaccounts {:?} not found", account.name))?;
        if gone(&found, now) {
            return Err(format!("service account {}/{} has been deleted", bound.namespace, account.name).into());
        }
        if found.uid() != account.uid {
            return Err(format!("service account UID ({}) does not match claim ({})", found.uid(), account.uid).into());
        }
        let namespaced = [("pods", "pod", &bound.pod), ("secrets", "secret", &bound.secret)];
        for (resource, kind, reference) in namespaced {
            self.check_reference(resource, kind, &bound.namespace, reference, now).await?;
        }
        // A token bound to a pod names the node it was issued on; only one bound to a node itself ends with it.
        if bound.pod.is_none() {
            self.check_reference("nodes", "node", "", &bound.node, now).await?;
        }
        Ok(())
    }

    async fn check_reference(
        &self,
        resource: &str,
        kind: &str,
        namespace: &str,
        reference: &Option<Reference>,
        now: i64,
    ) -> Result<(), Error> {
        let Some(reference) = reference else { return Ok(()) };
        let found = self.find(resource, namespace, reference).await?.filter(|object| !gone(object, now));
        let found = found.ok_or_else(|| "service account token has been invalidated".to_owned())?;
        if found.uid() != reference.uid {
            return Err(format!("{kind} UID ({}) does not match service account {kind} ref claim ({})", found.uid(), reference.uid).into());
        }
        Ok(())
    }

    /// What a token is bound to: as the watch cache has it, or, before a token is refused for that, as it really is.
    async fn find(&self, resource: &str, namespace: &str, reference: &Reference) -> Result<Option<Object>, Error> {
        let api = if namespace.is_empty() { self.api.api("v1", resource) } else { self.api.namespaced("v1", resource, namespace) };
        if let Ok(Some(known)) = api.get_cached(&reference.name).await
            && known.uid() == reference.uid
        {
            return Ok(Some(known));
        }
        api.get_opt(&reference.name).await.map_err(undecided)
    }
}

/// A failure of the server's own, which says nothing about the token.
fn undecided(status: Status) -> Error {
    let own = if status.code >= 500 { status } else { Status::internal(status.message) };
    Error::Undecided(Box::new(own))
}

/// Whether the object's deletion has been under way for too long to count.
fn gone(object: &Object, now: i64) -> bool {
    object.deletion_timestamp().is_some_and(|at| now - at.as_second() > DELETION_LEEWAY_SECONDS)
}

#[async_trait]
impl TokenReviewer for Verifier {
    async fn review(&self, token: &str, audiences: &[String]) -> Result<(UserInfo, Vec<String>), Error> {
        let now = component::clock::now().as_second();
        // Upstream asks several authenticators; the others' answer comes first in the list of errors.
        let bad = |error: String| Error::Bad(format!("[invalid bearer token, {error}]"));
        let claims = self.claims(token).map_err(bad)?.ok_or_else(|| "invalid bearer token".to_owned())?;
        let wanted = if audiences.is_empty() { &self.audiences } else { audiences };
        let common = claims.audiences(wanted).map_err(bad)?;
        claims.check_time(now).map_err(bad)?;
        self.check_bound(&claims, now).await.map_err(|error| match error {
            Error::Bad(text) => bad(text),
            undecided => undecided,
        })?;
        Ok((claims.user(), common))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_file(pem: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), pem).unwrap();
        file
    }

    fn pair() -> (Signer, Vec<PublicKey>) {
        let key = rcgen::KeyPair::generate().unwrap();
        let (private, public) = (key_file(&key.serialize_pem()), key_file(&key.public_key_pem()));
        let signer = Signer::new("me".into(), vec!["me".into()], None, load_private(private.path()).unwrap());
        let keys = load_public(public.path()).unwrap();
        assert_eq!(load_public(private.path()).unwrap()[0].id, keys[0].id);
        (signer, keys)
    }

    #[test]
    fn a_token_is_known_by_its_issuer_and_checked_by_its_key() {
        let ((signer, keys), (stranger, _)) = (pair(), pair());
        let verifier = Verifier::new(vec!["me".into()], vec!["me".into()], keys, Loopback::default());
        let claims = json!({"iss": "me", "kubernetes.io": {"namespace": "n"}});
        let good = verifier.claims(&signer.sign(&claims).unwrap()).unwrap();
        assert_eq!(good.unwrap().bound.namespace, "n");
        assert!(verifier.claims(&stranger.sign(&claims).unwrap()).is_err());
        assert!(verifier.claims(&signer.sign(&json!({"iss": "other"})).unwrap()).unwrap().is_none());
        assert!(verifier.claims("nonsense").unwrap().is_none());
    }

    #[tokio::test]
    async fn a_token_whose_account_cannot_be_read_is_not_bad() {
        let (signer, keys) = pair();
        // Not connected: every read fails.
        let verifier = Verifier::new(vec!["me".into()], vec!["me".into()], keys, Loopback::default());
        let now = component::clock::now().as_second();
        let account = json!({"name": "a", "uid": "u"});
        let claims = json!({"iss": "me", "aud": ["me"], "exp": now + 60, "kubernetes.io": {"namespace": "n", "serviceaccount": account}});
        let refused = verifier.review(&signer.sign(&claims).unwrap(), &[]).await.unwrap_err();
        assert!(matches!(&refused, Error::Undecided(status) if status.code == 503), "{refused}");
        assert!(matches!(verifier.review("nonsense", &[]).await, Err(Error::Bad(_))));
    }

    #[test]
    fn keys_are_published() {
        let (_, keys) = pair();
        let verifier = Verifier::new(Vec::new(), Vec::new(), keys, Loopback::default());
        let jwks = verifier.jwks();
        assert_eq!((jwks.pointer("/keys/0/kty"), jwks.pointer("/keys/0/crv")), (Some(&json!("EC")), Some(&json!("P-256"))));
    }
}
