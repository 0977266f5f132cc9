//! What a namespace being deleted says about how far that is. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{NamespaceCondition, NamespaceStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::content::Remaining;

/// Brings the conditions up to date; whether that changed anything.
pub(super) fn update(status: &mut NamespaceStatus, remaining: &Remaining, now: Timestamp) -> bool {
    let mut changed = false;
    for (kind, failing, reason, message) in wanted(remaining) {
        let wanted = if failing { "True" } else { "False" };
        let conditions = status.conditions.get_or_insert_default();
        let current = conditions.iter_mut().find(|condition| condition.type_ == kind);
        let condition = NamespaceCondition {
            type_: kind.into(),
            status: wanted.into(),
            reason: Some(reason.into()),
            message: Some(message),
            last_transition_time: Some(Time(now)),
        };
        match current {
            Some(current)
                if current.status == condition.status && current.reason == condition.reason && current.message == condition.message => {}
            Some(current) => {
                let moved = current.status != condition.status;
                let since = if moved { condition.last_transition_time.clone() } else { current.last_transition_time.clone() };
                *current = NamespaceCondition { last_transition_time: since, ..condition };
                changed = true;
            }
            None => {
                conditions.push(condition);
                changed = true;
            }
        }
    }
    changed
}

fn wanted(remaining: &Remaining) -> [(&'static str, bool, &'static str, String); 5] {
    let (undiscovered, errors) = (&remaining.undiscovered, &remaining.errors);
    let failing = undiscovered.len();
    let one = |kind, bad: bool, reasons: (&'static str, &'static str), bad_text: String, good: &str| {
        (kind, bad, if bad { reasons.0 } else { reasons.1 }, if bad { bad_text } else { good.to_owned() })
    };
    [
        one(
            "NamespaceDeletionDiscoveryFailure",
            failing > 0,
            ("DiscoveryFailed", "ResourcesDiscovered"),
            format!(
                "Discovery failed for some groups, {failing} failing: unable to retrieve the complete list of server APIs: {}",
                undiscovered.join(", ")
            ),
            "All resources successfully discovered",
        ),
        one(
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            ("GroupVersionParsingFailed", "ParsedGroupVersions"),
            String::new(),
            "All legacy kube types successfully parsed",
        ),
        one(
            "NamespaceDeletionContentFailure",
            !errors.is_empty(),
            ("ContentDeletionFailed", "ContentDeleted"),
            format!("Failed to delete all resource types, {} remaining: {}", errors.len(), errors.join(", ")),
            "All content successfully deleted, may be waiting on finalization",
        ),
        one(
            "NamespaceContentRemaining",
            !remaining.objects.is_empty(),
            ("SomeResourcesRemain", "ContentRemoved"),
            format!("Some resources are remaining: {}", listed(&remaining.objects, "has", "resource instances")),
            "All content successfully removed",
        ),
        one(
            "NamespaceFinalizersRemaining",
            !remaining.finalizers.is_empty(),
            ("SomeFinalizersRemain", "ContentHasNoFinalizers"),
            format!(
                "Some content in the namespace has finalizers remaining: {}",
                listed(&remaining.finalizers, "in", "resource instances")
            ),
            "All content-preserving finalizers finished",
        ),
    ]
}

fn listed(counts: &BTreeMap<String, usize>, verb: &str, what: &str) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {verb} {count} {what}")).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::NamespaceStatus;

    use super::update;
    use crate::controllers::namespace::content::Remaining;

    fn shown(status: &NamespaceStatus, kind: &str) -> (String, String) {
        let condition = status.conditions.iter().flatten().find(|condition| condition.type_ == kind).unwrap();
        (condition.status.clone(), condition.message.clone().unwrap())
    }

    #[test]
    fn tells_what_remains_and_what_it_waits_for() {
        let mut status = NamespaceStatus::default();
        let mut remaining = Remaining::default();
        remaining.objects.insert("pods.".into(), 2);
        remaining.finalizers.insert("example.com/hold".into(), 1);
        assert!(update(&mut status, &remaining, Timestamp::UNIX_EPOCH));
        let message = "Some resources are remaining: pods. has 2 resource instances";
        assert_eq!(shown(&status, "NamespaceContentRemaining"), ("True".into(), message.into()));
        let message = "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances";
        assert_eq!(shown(&status, "NamespaceFinalizersRemaining"), ("True".into(), message.into()));
        assert!(!update(&mut status, &remaining, Timestamp::UNIX_EPOCH));
        assert!(update(&mut status, &Remaining::default(), Timestamp::UNIX_EPOCH));
        assert_eq!(shown(&status, "NamespaceContentRemaining").0, "False");
    }
}
