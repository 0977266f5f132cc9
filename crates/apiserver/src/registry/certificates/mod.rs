//! The resources of group `certificates.k8s.io`.

mod csr;

use super::{Resource, Subresource, cluster};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    let approval = Subresource::view("approval", csr::Approval);
    vec![
        cluster("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests")
            .short(&["csr"])
            .status()
            .sub(approval)
            .strategy(csr::SigningRequest),
    ]
}
