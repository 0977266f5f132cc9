//! Who may call the kubelet: holders of a client certificate of the cluster's CA that are administrators or the API server.
//!
//! TLS has verified the certificate already. Upstream asks the API server for the rest (webhook mode); here the two
//! identities that are granted `nodes/*` by the bootstrap policy are known by name.

use axum::{
    extract::Request,
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse, Response},
};
use component::serve::Peer;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Groups that may do everything.
const GROUPS: &[&str] = &["system:masters", "kubeadm:cluster-admins"];
/// Names of the API server's client certificate.
const USERS: &[&str] = &["kube-apiserver-kubelet-client", "system:kube-apiserver-kubelet-client"];

/// Lets through who may.
pub(super) async fn check(request: Request, next: Next) -> Response {
    let leaf = request.extensions().get::<Peer>().and_then(|peer| peer.certs.first());
    match leaf {
        None => (StatusCode::UNAUTHORIZED, "Unauthorized").into_response(),
        Some(leaf) => match identity(leaf) {
            Some((user, groups)) if allowed(&user, &groups) => next.run(request).await,
            who => {
                let user = who.map(|(user, _)| user).unwrap_or_default();
                let text = format!("Forbidden (user={user}, verb={}, resource=nodes)", request.method().as_str().to_lowercase());
                (StatusCode::FORBIDDEN, text).into_response()
            }
        },
    }
}

/// Common name and organizations of a certificate.
fn identity(certificate: &[u8]) -> Option<(String, Vec<String>)> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let user = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
    Some((user, groups))
}

fn allowed(user: &str, groups: &[String]) -> bool {
    USERS.contains(&user) || groups.iter().any(|group| GROUPS.contains(&group.as_str()))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn only_administrators_and_the_api_server_may_call() {
        let certificate = |user: &str, group: &str| {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, user);
            params.distinguished_name.push(DnType::OrganizationName, group);
            params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
        };
        let may = |user: &str, group: &str| {
            let (user, groups) = identity(&certificate(user, group)).unwrap();
            allowed(&user, &groups)
        };
        assert!(may("kubernetes-admin", "system:masters"));
        assert!(may("kube-apiserver-kubelet-client", "x"));
        assert!(!may("system:node:node-1", "system:nodes"));
    }
}
