//! The resources of group `admissionregistration.k8s.io`.

mod policy;
pub(crate) mod webhook;

use super::{Resource, cluster};

const GROUP: &str = "admissionregistration.k8s.io";

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    let extension = |kind, plural| cluster(GROUP, "v1", kind, plural).category("api-extensions");
    vec![
        extension("MutatingAdmissionPolicy", "mutatingadmissionpolicies").strategy(policy::MUTATING),
        extension("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings").strategy(policy::BINDING),
        extension("MutatingWebhookConfiguration", "mutatingwebhookconfigurations").strategy(webhook::MUTATING),
        extension("ValidatingAdmissionPolicy", "validatingadmissionpolicies").status().strategy(policy::VALIDATING),
        extension("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings").strategy(policy::BINDING),
        extension("ValidatingWebhookConfiguration", "validatingwebhookconfigurations").strategy(webhook::VALIDATING),
    ]
}
