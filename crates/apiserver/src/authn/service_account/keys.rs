//! Keys that sign and check service-account tokens.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::public_key::PublicKey as Parsed;
use x509_parser::x509::SubjectPublicKeyInfo;

/// A key file could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The file cannot be read.
    #[error("read service-account key {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The file holds no key of a supported kind.
    #[error("service-account key {}: {reason}", path.display())]
    Parse { path: PathBuf, reason: String },
}

/// Checks signatures.
pub(crate) struct PublicKey {
    /// Names the key in token headers.
    pub(super) id: String,
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
    jwk: Value,
}

/// Signs tokens.
pub(crate) struct PrivateKey {
    pub(super) id: String,
    pub(super) algorithm: Algorithm,
    pub(super) key: EncodingKey,
}

/// The keys of one file: public keys, private keys (of which the public half is taken) or certificates.
pub(crate) fn load_public(path: &Path) -> Result<Vec<PublicKey>, Error> {
    let pem = read(path)?;
    let mut keys = Vec::new();
    for spki in SubjectPublicKeyInfoDer::pem_slice_iter(&pem).flatten() {
        keys.push(PublicKey::of(&spki).map_err(|reason| parse(path, reason))?);
    }
    for key in PrivateKeyDer::pem_slice_iter(&pem).flatten() {
        let public = public_half(&key).and_then(|spki| PublicKey::of(&spki));
        keys.push(public.map_err(|reason| parse(path, reason))?);
    }
    for certificate in CertificateDer::pem_slice_iter(&pem).flatten() {
        let parsed = X509Certificate::from_der(&certificate).map_err(|error| parse(path, error.to_string()))?;
        keys.push(PublicKey::of(parsed.1.public_key().raw).map_err(|reason| parse(path, reason))?);
    }
    if keys.is_empty() { Err(parse(path, "no public key, private key or certificate in PEM".to_owned())) } else { Ok(keys) }
}

/// The private key of one file, RSA or ECDSA.
pub(crate) fn load_private(path: &Path) -> Result<PrivateKey, Error> {
    let pem = read(path)?;
    let fail = |reason: String| parse(path, reason);
    let der = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| fail(error.to_string()))?;
    let public = public_half(&der).and_then(|spki| PublicKey::of(&spki)).map_err(fail)?;
    let key = match public.algorithm {
        Algorithm::RS256 => EncodingKey::from_rsa_pem(&pem),
        _ => EncodingKey::from_ec_pem(&pem),
    };
    Ok(PrivateKey { id: public.id, algorithm: public.algorithm, key: key.map_err(|error| fail(error.to_string()))? })
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn parse(path: &Path, reason: String) -> Error {
    Error::Parse { path: path.to_owned(), reason }
}

fn public_half(key: &PrivateKeyDer<'_>) -> Result<Vec<u8>, String> {
    let signing = rustls::crypto::ring::sign::any_supported_type(key).map_err(|error| error.to_string())?;
    signing.public_key().map(|spki| spki.as_ref().to_vec()).ok_or_else(|| "the key has no public half".to_owned())
}

impl PublicKey {
    /// A key from its DER SubjectPublicKeyInfo.
    fn of(spki: &[u8]) -> Result<Self, String> {
        let (_, info) = SubjectPublicKeyInfo::from_der(spki).map_err(|error| error.to_string())?;
        let bits = info.subject_public_key.data.as_ref();
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(spki));
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match info.parsed().map_err(|error| error.to_string())? {
            Parsed::RSA(rsa) => {
                let trimmed = |bytes: &'_ [u8]| encode(&bytes[bytes.iter().take_while(|byte| **byte == 0).count()..]);
                let jwk =
                    json!({"use": "sig", "kty": "RSA", "kid": id, "alg": "RS256", "n": trimmed(rsa.modulus), "e": trimmed(rsa.exponent)});
                Ok(Self { id, algorithm: Algorithm::RS256, key: DecodingKey::from_rsa_der(bits), jwk })
            }
            Parsed::EC(point) => {
                let (algorithm, curve, name) = match point.key_size() {
                    256 => (Algorithm::ES256, "P-256", "ES256"),
                    384 => (Algorithm::ES384, "P-384", "ES384"),
                    bits => return Err(format!("unsupported elliptic curve of {bits} bits")),
                };
                let (x, y) = point.data().get(1..).map(|both| both.split_at(both.len() / 2)).ok_or("empty elliptic curve point")?;
                let jwk = json!({"use": "sig", "kty": "EC", "kid": id, "alg": name, "crv": curve, "x": encode(x), "y": encode(y)});
                Ok(Self { id, algorithm, key: DecodingKey::from_ec_der(bits), jwk })
            }
            _ => Err("neither an RSA nor an ECDSA key".to_owned()),
        }
    }

    /// The key as JSON Web Key, for `/openid/v1/jwks`.
    pub(crate) fn jwk(&self) -> &Value {
        &self.jwk
    }
}
