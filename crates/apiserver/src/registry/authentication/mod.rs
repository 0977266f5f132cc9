//! The resources of group `authentication.k8s.io`.

mod review;

use super::{Resource, Wiring, cluster};

const GROUP: &str = "authentication.k8s.io";

/// One line per resource.
pub(crate) fn table(wiring: &Wiring) -> Vec<Resource> {
    vec![
        cluster(GROUP, "v1", "SelfSubjectReview", "selfsubjectreviews").computed(&["create"], review::WhoAmI),
        cluster(GROUP, "v1", "TokenReview", "tokenreviews").computed(&["create"], review::Tokens(wiring.reviewer.clone())),
    ]
}
