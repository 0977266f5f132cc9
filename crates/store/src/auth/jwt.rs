//! Signed tokens: they say themselves whose they are, so that no member needs to have heard of them.

use super::Caller;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, EncodingKey, Header, Validation};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer, pem::PemObject};
use serde_json::{Value, json};
use std::time::Duration;
use x509_parser::{
    prelude::{FromDer, X509Certificate},
    x509::SubjectPublicKeyInfo,
};

/// Signs tokens where it has a private key, and checks them.
pub struct Jwt {
    algorithm: Algorithm,
    sign: Option<EncodingKey>,
    verify: DecodingKey,
    ttl: Duration,
}

/// Why keys cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// None was given that the method needs.
    #[error("no key is given: {0} is needed")]
    Missing(&'static str),
    /// One is no key of the method.
    #[error("{option}: {reason}")]
    Unfit {
        /// Which.
        option: &'static str,
        /// Why.
        reason: String,
    },
    /// Both are keys, but of different pairs.
    #[error("pub-key and priv-key are not of one pair")]
    Strangers,
}

/// What files hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keys<'a> {
    /// A public key or a certificate, PEM.
    pub public: Option<&'a [u8]>,
    /// A private key, PEM; for a method of one key, that key as it is.
    pub private: Option<&'a [u8]>,
}

/// Object identifiers of key algorithms.
const FAMILIES: [(&str, AlgorithmFamily); 3] =
    [("1.2.840.113549.1.1.1", AlgorithmFamily::Rsa), ("1.2.840.10045.2.1", AlgorithmFamily::Ec), ("1.3.101.112", AlgorithmFamily::Ed)];

impl Jwt {
    /// Takes keys for a method. With a public one alone, tokens can be checked only.
    pub fn new(algorithm: Algorithm, keys: Keys<'_>, ttl: Duration) -> Result<Self, Error> {
        let family = algorithm.family();
        if family == AlgorithmFamily::Hmac {
            let secret = keys.private.filter(|secret| !secret.is_empty()).ok_or(Error::Missing("priv-key"))?;
            let (sign, verify) = (Some(EncodingKey::from_secret(secret)), DecodingKey::from_secret(secret));
            return Ok(Jwt { algorithm, sign, verify, ttl });
        }
        let unfit = |option| move |reason| Error::Unfit { option, reason };
        let public = keys.public.map(|pem| public(family, pem).map_err(unfit("pub-key"))).transpose()?;
        let half = keys.private.map(|pem| public_half(family, pem).map_err(unfit("priv-key"))).transpose()?;
        if public.is_some() && half.is_some() && public != half {
            return Err(Error::Strangers);
        }
        let bits = half.or(public).ok_or(Error::Missing("pub-key or priv-key"))?;
        let verify = match family {
            AlgorithmFamily::Rsa => DecodingKey::from_rsa_der(&bits),
            AlgorithmFamily::Ec => DecodingKey::from_ec_der(&bits),
            _ => DecodingKey::from_ed_der(&bits),
        };
        let sign = keys.private.map(|pem| private(algorithm, pem).map_err(unfit("priv-key"))).transpose()?;
        let jwt = Jwt { algorithm, sign, verify, ttl };
        jwt.try_out().map_err(unfit("priv-key"))?;
        Ok(jwt)
    }

    /// A key that does not sign, of another curve for example, is told of now and not to the first user.
    fn try_out(&self) -> Result<(), String> {
        let Some(token) = self.sign("", 0, Duration::ZERO) else { return Ok(()) };
        let token = token.map_err(|error| format!("it does not sign by {:?}: {error}", self.algorithm))?;
        self.verify(&token, Duration::ZERO).map(drop).ok_or_else(|| "what it signs does not check".to_owned())
    }

    /// A token for a user who proved their name at a revision of users and roles, `now` after 1970; none without a
    /// private key.
    pub fn sign(&self, user: &str, revision: u64, now: Duration) -> Option<Result<String, jsonwebtoken::errors::Error>> {
        let claims = json!({ "username": user, "revision": revision, "exp": (now + self.ttl).as_secs() });
        Some(jsonwebtoken::encode(&Header::new(self.algorithm), &claims, self.sign.as_ref()?))
    }

    /// Whose token this is, `now` after 1970.
    pub fn verify(&self, token: &str, now: Duration) -> Option<Caller> {
        let mut validation = Validation::new(self.algorithm);
        // Looked at below: with the time given, and without the minute of grace.
        validation.required_spec_claims.clear();
        (validation.validate_exp, validation.validate_aud) = (false, false);
        let claims = jsonwebtoken::decode::<Value>(token, &self.verify, &validation).ok()?.claims;
        let seconds = |name: &str, otherwise: f64| claims.get(name).map_or(Some(otherwise), Value::as_f64);
        let (begins, ends) = (seconds("nbf", 0.0)?, seconds("exp", f64::INFINITY)?);
        let now = now.as_secs_f64();
        let revision = claims.get("revision")?.as_f64()? as u64;
        (begins <= now && now < ends).then_some(Caller { user: claims.get("username")?.as_str()?.to_owned(), revision })
    }
}

/// The public key's bits in a file that holds it or a certificate of it.
fn public(family: AlgorithmFamily, pem: &[u8]) -> Result<Vec<u8>, String> {
    if let Ok(info) = SubjectPublicKeyInfoDer::from_pem_slice(pem) {
        return bits(family, &info);
    }
    let certificate = CertificateDer::from_pem_slice(pem).map_err(|_| "it holds neither a public key nor a certificate in PEM")?;
    let (_, certificate) = X509Certificate::from_der(&certificate).map_err(|error| format!("malformed certificate: {error}"))?;
    bits(family, certificate.public_key().raw)
}

/// The public key's bits of a private key.
fn public_half(family: AlgorithmFamily, pem: &[u8]) -> Result<Vec<u8>, String> {
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|error| format!("it holds no private key in PEM: {error}"))?;
    let key = rustls::crypto::ring::sign::any_supported_type(&key).map_err(|error| error.to_string())?;
    bits(family, &key.public_key().ok_or("it has no public half")?)
}

fn bits(family: AlgorithmFamily, info: &[u8]) -> Result<Vec<u8>, String> {
    let (_, info) = SubjectPublicKeyInfo::from_der(info).map_err(|error| format!("malformed public key: {error}"))?;
    let algorithm = info.algorithm.algorithm.to_id_string();
    if !FAMILIES.contains(&(algorithm.as_str(), family)) {
        return Err(format!("it is no {family:?} key, as sign-method asks for"));
    }
    Ok(info.subject_public_key.data.to_vec())
}

fn private(algorithm: Algorithm, pem: &[u8]) -> Result<EncodingKey, String> {
    let key = match (algorithm.family(), PrivateKeyDer::from_pem_slice(pem)) {
        (AlgorithmFamily::Rsa, _) => EncodingKey::from_rsa_pem(pem),
        (AlgorithmFamily::Ec, Ok(PrivateKeyDer::Sec1(key))) => Ok(EncodingKey::from_ec_der(&pkcs8(algorithm, key.secret_sec1_der()))),
        (AlgorithmFamily::Ec, _) => EncodingKey::from_ec_pem(pem),
        _ => EncodingKey::from_ed_pem(pem),
    };
    key.map_err(|error| error.to_string())
}

/// An `EC PRIVATE KEY` as `PRIVATE KEY`: the same with the names of its kind and its curve around it.
fn pkcs8(algorithm: Algorithm, key: &[u8]) -> Vec<u8> {
    const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
    const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
    let (integer, octets, object, sequence) = (0x02, 0x04, 0x06, 0x30);
    let curve = if algorithm == Algorithm::ES384 { P384 } else { P256 };
    let kind = der(sequence, &[der(object, EC), der(object, curve)].concat());
    der(sequence, &[der(integer, &[0]), kind, der(octets, key)].concat())
}

/// A value of DER, with its tag and length.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let digits = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let length = match digits {
        [] => vec![0],
        [short] if *short < 0x80 => vec![*short],
        long => [&[0x80 | long.len() as u8], long].concat(),
    };
    [&[tag], &length[..], content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SignatureAlgorithm};

    const NOW: Duration = Duration::from_secs(1_700_000_000);
    const TTL: Duration = Duration::from_secs(600);

    fn pair(of: &'static SignatureAlgorithm) -> (String, String) {
        let key = KeyPair::generate_for(of).unwrap();
        (key.public_key_pem(), key.serialize_pem())
    }

    fn jwt(algorithm: Algorithm, public: &str, private: &str) -> Result<Jwt, Error> {
        let some = |text| Some(str::as_bytes(text)).filter(|text| !text.is_empty());
        Jwt::new(algorithm, Keys { public: some(public), private: some(private) }, TTL)
    }

    fn alice() -> Caller {
        Caller { user: "alice".into(), revision: 12 }
    }

    #[test]
    fn a_token_says_whose_it_is_until_it_ends() {
        for (algorithm, of) in
            [(Algorithm::ES256, &PKCS_ECDSA_P256_SHA256), (Algorithm::ES384, &PKCS_ECDSA_P384_SHA384), (Algorithm::EdDSA, &PKCS_ED25519)]
        {
            let (public, private) = pair(of);
            let both = jwt(algorithm, &public, &private).unwrap();
            let token = both.sign("alice", 12, NOW).unwrap().unwrap();
            assert_eq!(both.verify(&token, NOW), Some(alice()));
            assert_eq!(both.verify(&token, NOW + TTL), None, "it ended");
            let reader = jwt(algorithm, &public, "").unwrap();
            assert_eq!(reader.verify(&token, NOW), Some(alice()));
            assert!(reader.sign("alice", 12, NOW).is_none(), "it cannot sign");
            assert_eq!(jwt(algorithm, "", &private).unwrap().verify(&token, NOW), Some(alice()));
            let (stranger, _) = pair(of);
            assert_eq!(jwt(algorithm, &stranger, "").unwrap().verify(&token, NOW), None);
        }
    }

    #[test]
    fn a_secret_signs_and_checks() {
        let secret = jwt(Algorithm::HS256, "", "secret").unwrap();
        let token = secret.sign("alice", 12, NOW).unwrap().unwrap();
        assert_eq!(secret.verify(&token, NOW), Some(alice()));
        assert_eq!(jwt(Algorithm::HS256, "", "another").unwrap().verify(&token, NOW), None);
        assert_eq!(jwt(Algorithm::HS384, "", "secret").unwrap().verify(&token, NOW), None, "of another method");
        for garbled in ["", "a.b.c", &token[..token.len() - 2]] {
            assert_eq!(secret.verify(garbled, NOW), None, "{garbled}");
        }
    }

    #[test]
    fn tokens_of_others_need_not_end_but_must_say_who_and_when() {
        let secret = jwt(Algorithm::HS256, "", "secret").unwrap();
        let signed = |claims: Value| {
            let key = EncodingKey::from_secret(b"secret");
            secret.verify(&jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key).unwrap(), NOW)
        };
        assert_eq!(signed(json!({ "username": "alice", "revision": 12.0 })), Some(alice()));
        assert_eq!(signed(json!({ "username": "alice" })), None);
        assert_eq!(signed(json!({ "username": 7, "revision": 12 })), None);
        assert_eq!(signed(json!({ "username": "alice", "revision": 12, "exp": "soon" })), None);
        assert_eq!(signed(json!({ "username": "alice", "revision": 12, "nbf": NOW.as_secs() + 1 })), None);
    }

    #[test]
    fn a_certificate_stands_for_its_public_key() {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let certificate = CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap().pem();
        let token = jwt(Algorithm::ES256, "", &key.serialize_pem()).unwrap().sign("alice", 12, NOW).unwrap().unwrap();
        assert_eq!(jwt(Algorithm::ES256, &certificate, "").unwrap().verify(&token, NOW), Some(alice()));
    }

    /// As `openssl ecparam -genkey` writes it, and as etcd takes it.
    #[test]
    fn an_elliptic_key_may_be_in_its_old_form() {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let new = key.serialize_der();
        let inner = new.windows(5).position(|bytes| bytes[0] == 0x30 && bytes[2..] == [2, 1, 1]).unwrap();
        let old = base64::engine::general_purpose::STANDARD.encode(&new[inner..]);
        let old = format!("-----BEGIN EC PRIVATE KEY-----\n{old}\n-----END EC PRIVATE KEY-----\n");
        let token = jwt(Algorithm::ES256, "", &old).unwrap().sign("alice", 12, NOW).unwrap().unwrap();
        assert_eq!(jwt(Algorithm::ES256, &key.public_key_pem(), "").unwrap().verify(&token, NOW), Some(alice()));
    }

    #[test]
    fn keys_that_do_not_fit_are_told_at_once() {
        let ((public, private), (stranger, _)) = (pair(&PKCS_ECDSA_P256_SHA256), pair(&PKCS_ECDSA_P256_SHA256));
        let error = |algorithm, public: &str, private: &str| jwt(algorithm, public, private).err().unwrap().to_string();
        assert_eq!(error(Algorithm::ES256, &stranger, &private), "pub-key and priv-key are not of one pair");
        assert_eq!(error(Algorithm::ES256, "", ""), "no key is given: pub-key or priv-key is needed");
        assert_eq!(error(Algorithm::HS256, &public, ""), "no key is given: priv-key is needed");
        assert_eq!(error(Algorithm::RS256, &public, ""), "pub-key: it is no Rsa key, as sign-method asks for");
        assert!(error(Algorithm::ES384, &public, &private).starts_with("priv-key: it does not sign by ES384"));
        assert!(error(Algorithm::ES256, "rubbish", "").starts_with("pub-key: it holds neither"));
        assert!(error(Algorithm::ES256, "", "rubbish").starts_with("priv-key: it holds no private key"));
    }
}
