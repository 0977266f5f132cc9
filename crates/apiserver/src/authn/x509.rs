//! Client certificates: CommonName is the user, each Organization a group. TLS has verified the chain already.

use async_trait::async_trait;
use component::serve::Peer;
use http::request::Parts;
use x509_parser::{certificate::X509Certificate, prelude::FromDer};

use super::Authenticator;
use crate::request::UserInfo;

/// Reads the user out of a verified client certificate.
pub(crate) struct ClientCertificate;

#[async_trait]
impl Authenticator for ClientCertificate {
    async fn authenticate(&self, request: &Parts) -> Result<Option<UserInfo>, String> {
        let Some(leaf) = request.extensions.get::<Peer>().and_then(|peer| peer.certs.first()) else { return Ok(None) };
        user(leaf).map(Some)
    }
}

fn user(der: &[u8]) -> Result<UserInfo, String> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|e| format!("reading the client certificate: {e}"))?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next().and_then(|n| n.as_str().ok()).unwrap_or_default();
    if name.is_empty() {
        return Err("the client certificate has no common name".into());
    }
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned);
    let groups = groups.chain(["system:authenticated".to_owned()]).collect();
    Ok(UserInfo { name: name.to_owned(), groups, ..UserInfo::default() })
}
