//! Client certificates: the common name is the user, organizations are the groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use component::serve::Peer;
use http::request::Parts;
use rustls_pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::client_ca::ClientCa;
use super::remembered::Remembered;
use super::{Authenticator, CREDENTIAL_ID, Error};
use crate::request::UserInfo;

/// Object identifier of the subject's attribute that holds the user's UID.
const UID: &str = "1.3.6.1.4.1.57683.2";

/// Trusts certificates signed by `--client-ca-file`.
pub(crate) struct ClientCertificate {
    ca: Arc<ClientCa>,
    /// By fingerprint of the chain.
    remembered: Remembered<[u8; 32]>,
}

impl ClientCertificate {
    /// Trusts certificates of these authorities.
    pub(crate) fn new(ca: Arc<ClientCa>) -> Self {
        Self { ca, remembered: Remembered::default() }
    }
}

#[async_trait]
impl Authenticator for ClientCertificate {
    async fn authenticate(&self, request: &Parts) -> Result<Option<UserInfo>, Error> {
        let Some(peer) = request.extensions.get::<Peer>() else { return Ok(None) };
        let Some(leaf) = peer.certs.first() else { return Ok(None) };
        let chain = fingerprint(&peer.certs);
        if let Some(known) = self.remembered.get(&chain) {
            return Ok(Some(known));
        }
        self.ca.verify(peer, component::clock::now())?;
        let Some(user) = user(leaf)? else { return Ok(None) };
        self.remembered.put(chain, user.clone());
        Ok(Some(user))
    }
}

/// What stands for a chain, however much a client appends to it.
fn fingerprint(chain: &[CertificateDer<'_>]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for certificate in chain {
        hash.update(certificate.len().to_be_bytes());
        hash.update(certificate);
    }
    hash.finalize().into()
}

/// The user a certificate names; `None` without a common name.
fn user(der: &[u8]) -> Result<Option<UserInfo>, String> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|error| format!("malformed certificate: {error}"))?;
    let subject = certificate.subject();
    let Some(name) = subject.iter_common_name().next().and_then(|name| name.as_str().ok()).filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let uids = subject.iter_attributes().filter(|attribute| attribute.attr_type().to_id_string() == UID);
    let uid = uids.filter_map(|attribute| attribute.as_str().ok()).next().unwrap_or_default().to_owned();
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok()).map(str::to_owned).collect();
    let fingerprint = Sha256::digest(der).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={fingerprint}")])]);
    Ok(Some(UserInfo { name: name.to_owned(), uid, groups, extra }))
}

/// The common name of a certificate.
pub(super) fn common_name(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    certificate.subject().iter_common_name().next()?.as_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

    use super::*;

    fn authority(name: &str) -> (Issuer<'static, KeyPair>, String) {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        (Issuer::new(params, key), pem)
    }

    fn client(issuer: &Issuer<'static, KeyPair>, name: &str, group: &str) -> http::request::Parts {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        let certificate = params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap();
        let (mut parts, ()) = http::Request::new(()).into_parts();
        let addr = ([127, 0, 0, 1], 1).into();
        parts.extensions.insert(Peer { addr, certs: vec![certificate.der().clone()].into() });
        parts
    }

    #[tokio::test]
    async fn a_certificate_names_user_and_groups_and_is_checked() {
        let ((ours, pem), (other, _)) = (authority("ours"), authority("other"));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), pem).unwrap();
        let authenticator = ClientCertificate::new(ClientCa::load(file.path()).unwrap());
        let user = authenticator.authenticate(&client(&ours, "system:node:a", "system:nodes")).await.unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.groups), ("system:node:a", vec!["system:nodes".to_owned()]));
        assert!(user.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="));
        assert!(authenticator.authenticate(&client(&other, "admin", "system:masters")).await.is_err());
        assert_eq!(authenticator.authenticate(&client(&ours, "", "x")).await, Ok(None));
        let (without, ()) = http::Request::new(()).into_parts();
        assert_eq!(authenticator.authenticate(&without).await, Ok(None));
    }

    #[test]
    fn chains_that_differ_anywhere_are_told_apart() {
        let of = |chain: &[&[u8]]| fingerprint(&chain.iter().map(|der| CertificateDer::from(*der)).collect::<Vec<_>>());
        assert_eq!(of(&[b"a", b"bc"]), of(&[b"a", b"bc"]));
        for other in [&[b"ab".as_slice(), b"c"][..], &[b"abc"], &[b"a", b"bc", b""], &[b"bc", b"a"]] {
            assert_ne!(of(&[b"a", b"bc"]), of(other), "{other:?}");
        }
    }
}
