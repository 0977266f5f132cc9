//! The resources of group `certificates.k8s.io`.

use super::{Resource, cluster};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests").short(&["csr"]).status(),
    ]
}
