//! Groups of the Kubernetes community need the word of its reviewers, in an annotation.

use apimachinery::{Object, go};

/// The annotation.
pub(crate) const ANNOTATION: &str = "api-approved.kubernetes.io";
const MORE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// What the annotation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Approval {
    /// Nothing that could be understood.
    Invalid,
    /// Where it was approved.
    Approved,
    /// That it was not, and why it is there all the same.
    Bypassed,
    /// It is not there.
    Missing,
}

/// Whether groups of that name are the community's.
pub(crate) fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|domain| group == *domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')))
}

/// What the annotation of a definition says, with the words for it.
pub(crate) fn state(definition: &Object) -> (Approval, String) {
    let text = definition.annotation(ANNOTATION).unwrap_or_default();
    let need = format!("protected groups must have approval annotation {}", go::quote(ANNOTATION));
    if text.is_empty() {
        (Approval::Missing, format!("{need}, {MORE}"))
    } else if text.starts_with("unapproved") {
        (Approval::Bypassed, format!("not approved: {}", go::quote(text)))
    } else if is_url(text) {
        (Approval::Approved, format!("approved in {text}"))
    } else {
        (Approval::Invalid, format!("{need} with either a URL or a reason starting with \"unapproved\", {MORE}"))
    }
}

fn is_url(text: &str) -> bool {
    let host = |rest: &str| !rest.split(['/', '?', '#']).next().unwrap_or_default().is_empty();
    let plain = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    plain && text.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && host(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_of_the_community_are_protected() {
        assert!(is_protected("k8s.io") && is_protected("a.k8s.io") && is_protected("x.y.kubernetes.io"));
        assert!(!is_protected("ak8s.io") && !is_protected("k8s.io.example.com"));
    }

    #[test]
    fn the_annotation_tells_approval_from_excuses() {
        let said = |text: &str| {
            let mut definition = Object::default();
            definition.set_annotation(ANNOTATION, text);
            state(&definition).0
        };
        assert_eq!(said("https://github.com/kubernetes/enhancements/pull/1"), Approval::Approved);
        assert_eq!(said("unapproved, a test"), Approval::Bypassed);
        assert_eq!(said("nonsense"), Approval::Invalid);
        assert_eq!(state(&Object::default()).0, Approval::Missing);
    }
}
