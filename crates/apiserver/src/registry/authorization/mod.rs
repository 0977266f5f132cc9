//! The resources of group `authorization.k8s.io`.

mod review;

use review::{Review, Rules, Subject};

use super::{Resource, Wiring, cluster, namespaced};

const GROUP: &str = "authorization.k8s.io";

/// One line per resource.
pub(crate) fn table(wiring: &Wiring) -> Vec<Resource> {
    let review = |subject| Review { subject, authorizer: wiring.authorizer.clone() };
    vec![
        namespaced(GROUP, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews").computed(&["create"], review(Subject::Local)),
        cluster(GROUP, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews").computed(&["create"], review(Subject::Own)),
        cluster(GROUP, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews").computed(&["create"], Rules(wiring.rules.clone())),
        cluster(GROUP, "v1", "SubjectAccessReview", "subjectaccessreviews").computed(&["create"], review(Subject::Any)),
    ]
}
