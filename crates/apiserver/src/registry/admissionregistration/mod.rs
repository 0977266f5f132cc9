//! The resources of group `admissionregistration.k8s.io`.

use super::{Resource, cluster};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        cluster("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies").category("api-extensions"),
        cluster("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings").category("api-extensions"),
        cluster("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations").category("api-extensions"),
        cluster("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies").category("api-extensions").status(),
        cluster("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings").category("api-extensions"),
        cluster("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations").category("api-extensions"),
    ]
}
