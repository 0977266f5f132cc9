//! What an object's owner references amount to, once the server was asked about each. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ObjectMeta, PropagationPolicy};

use super::graph::{FOREGROUND, ORPHAN};

/// What the server said about one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// There, and staying.
    Solid,
    /// Gone, or another object by now.
    Absent,
    /// Being deleted in the foreground: it waits for its dependents.
    WaitsForDependents,
}

/// What is to become of an object.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Keep,
    /// Keep it, but without its references to these UIDs.
    DropReferences(Vec<String>),
    /// Delete it, and first stop its dependents from blocking it if asked to.
    Delete {
        policy: PropagationPolicy,
        unblock: bool,
    },
}

/// Judges an object by its owners; `has_dependents` and `dependent_waits` tell of what hangs below it.
pub(super) fn judge(meta: &ObjectMeta, owners: &[(OwnerReference, Owner)], has_dependents: bool, dependent_waits: bool) -> Verdict {
    if owners.is_empty() {
        return Verdict::Keep;
    }
    let any = |wanted: Owner| owners.iter().any(|(_, owner)| *owner == wanted);
    if any(Owner::Solid) {
        let useless = owners.iter().filter(|(_, owner)| *owner != Owner::Solid).map(|(reference, _)| reference.uid.clone());
        let useless: Vec<String> = useless.collect();
        return if useless.is_empty() { Verdict::Keep } else { Verdict::DropReferences(useless) };
    }
    if any(Owner::WaitsForDependents) && has_dependents {
        // A cycle of objects waiting for each other would never end.
        return Verdict::Delete { policy: PropagationPolicy::Foreground, unblock: dependent_waits };
    }
    let finalizes = |name: &str| meta.finalizers.iter().flatten().any(|finalizer| finalizer == name);
    let policy = if finalizes(ORPHAN) {
        PropagationPolicy::Orphan
    } else if finalizes(FOREGROUND) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    };
    Verdict::Delete { policy, unblock: false }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use kube::api::{ObjectMeta, PropagationPolicy};

    use super::{Owner, Verdict, judge};

    fn judged(owners: &[(&str, Owner)], has_dependents: bool) -> Verdict {
        let owners: Vec<_> =
            owners.iter().map(|(uid, owner)| (OwnerReference { uid: (*uid).into(), ..OwnerReference::default() }, *owner)).collect();
        judge(&ObjectMeta::default(), &owners, has_dependents, false)
    }

    fn delete(policy: PropagationPolicy) -> Verdict {
        Verdict::Delete { policy, unblock: false }
    }

    #[test]
    fn one_solid_owner_is_enough_to_stay() {
        assert_eq!(judged(&[("a", Owner::Solid)], false), Verdict::Keep);
        let mixed = [("a", Owner::Solid), ("b", Owner::Absent), ("c", Owner::WaitsForDependents)];
        assert_eq!(judged(&mixed, false), Verdict::DropReferences(vec!["b".into(), "c".into()]));
    }

    #[test]
    fn without_any_owner_left_it_goes_in_the_background() {
        assert_eq!(judged(&[("a", Owner::Absent)], true), delete(PropagationPolicy::Background));
        assert_eq!(judged(&[("a", Owner::WaitsForDependents)], false), delete(PropagationPolicy::Background));
    }

    #[test]
    fn below_an_owner_that_waits_dependents_go_first() {
        assert_eq!(judged(&[("a", Owner::WaitsForDependents)], true), delete(PropagationPolicy::Foreground));
    }

    #[test]
    fn an_object_that_never_had_an_owner_is_no_garbage() {
        assert_eq!(judged(&[], false), Verdict::Keep);
    }
}
