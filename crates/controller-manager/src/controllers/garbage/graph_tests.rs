use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::api::ObjectMeta;

use super::{FOREGROUND, Graph, Identity, Misplaced, ORPHAN, Work};

fn identity(uid: &str) -> Identity {
    Identity { uid: uid.into(), name: uid.into(), ..Identity::default() }
}

fn within(uid: &str, namespace: &str) -> Identity {
    Identity { namespace: namespace.into(), ..identity(uid) }
}

fn reference(owner: &str) -> OwnerReference {
    OwnerReference { uid: owner.into(), name: owner.into(), block_owner_deletion: Some(true), ..OwnerReference::default() }
}

fn owned(owners: Vec<OwnerReference>) -> ObjectMeta {
    ObjectMeta { owner_references: Some(owners), ..ObjectMeta::default() }
}

fn owned_by(owner: &str) -> ObjectMeta {
    owned(vec![reference(owner)])
}

fn dying(finalizer: &str) -> ObjectMeta {
    ObjectMeta { deletion_timestamp: Some(Time(Timestamp::UNIX_EPOCH)), finalizers: Some(vec![finalizer.into()]), ..ObjectMeta::default() }
}

fn delete(uid: &str) -> Work {
    Work::Delete(uid.into())
}

#[test]
fn an_owner_known_by_reference_only_is_looked_at() {
    let mut graph = Graph::default();
    assert_eq!(graph.observe(identity("child"), &owned_by("owner")), [delete("owner")]);
    assert!(graph.get("owner").unwrap().is_virtual);
    assert_eq!(graph.observe(identity("owner"), &ObjectMeta::default()), []);
    assert!(!graph.get("owner").unwrap().is_virtual);
    assert!(graph.get("owner").unwrap().dependents.contains("child"));
}

#[test]
fn dependents_are_looked_at_when_their_owner_goes() {
    let mut graph = Graph::default();
    graph.observe(identity("owner"), &ObjectMeta::default());
    graph.observe(identity("child"), &owned_by("owner"));
    assert_eq!(graph.remove("owner"), [delete("child")]);
    assert!(graph.absent.has(&identity("owner")));
}

#[test]
fn foreground_deletion_starts_with_the_dependents_and_ends_with_the_last() {
    let mut graph = Graph::default();
    graph.observe(identity("owner"), &ObjectMeta::default());
    graph.observe(identity("child"), &owned_by("owner"));
    assert_eq!(graph.observe(identity("owner"), &dying(FOREGROUND)), [delete("child"), delete("owner")]);
    let owner = graph.get("owner").unwrap().clone();
    assert_eq!(graph.blocking(&owner).len(), 1);
    assert_eq!(graph.remove("child"), [delete("owner")]);
}

#[test]
fn a_reference_that_blocks_no_more_frees_the_owner() {
    let mut graph = Graph::default();
    graph.observe(identity("child"), &owned_by("owner"));
    graph.observe(identity("owner"), &dying(FOREGROUND));
    let free = OwnerReference { block_owner_deletion: Some(false), ..reference("owner") };
    assert_eq!(graph.observe(identity("child"), &owned(vec![free])), [delete("owner")]);
}

#[test]
fn orphaning_is_asked_for_once_and_goes_before_the_foreground() {
    let mut graph = Graph::default();
    graph.observe(identity("owner"), &ObjectMeta::default());
    graph.observe(identity("child"), &owned_by("owner"));
    let mut both = dying(ORPHAN);
    both.finalizers.as_mut().unwrap().push(FOREGROUND.into());
    assert_eq!(graph.observe(identity("owner"), &both), [Work::Orphan("owner".into())]);
    assert_eq!(graph.observe(identity("owner"), &both), []);
}

#[test]
fn an_owner_in_another_namespace_is_reported_whoever_is_seen_first() {
    let report = Work::Report(Box::new(Misplaced { dependent: within("child", "a"), owner: within("owner", "a") }));
    let mut graph = Graph::default();
    graph.observe(within("owner", "b"), &ObjectMeta::default());
    assert_eq!(graph.observe(within("child", "a"), &owned_by("owner")), [report.clone(), delete("child")]);

    let mut graph = Graph::default();
    graph.observe(within("child", "a"), &owned_by("owner"));
    assert_eq!(graph.observe(within("owner", "b"), &ObjectMeta::default()), [report, delete("child")]);
}

#[test]
fn a_cluster_scoped_owner_is_right_in_every_namespace() {
    let mut graph = Graph::default();
    graph.observe(within("one", "a"), &owned_by("owner"));
    assert_eq!(graph.observe(identity("owner"), &ObjectMeta::default()), []);
    assert_eq!(graph.observe(within("two", "b"), &owned_by("owner")), []);
}

#[test]
fn a_reference_wrong_in_its_name_is_looked_at_and_reported_to_nobody() {
    let mut graph = Graph::default();
    graph.observe(within("owner", "a"), &ObjectMeta::default());
    let wrong = OwnerReference { name: "other".into(), ..reference("owner") };
    assert_eq!(graph.observe(within("child", "a"), &owned(vec![wrong])), [delete("child")]);
}

#[test]
fn a_denied_owner_takes_along_only_those_who_meant_it() {
    let mut graph = Graph::default();
    let wrong = OwnerReference { name: "a-wrong-name".into(), ..reference("owner") };
    graph.observe(within("wrong", "a"), &owned(vec![wrong]));
    graph.observe(within("right", "a"), &owned_by("owner"));
    let denied = graph.get("owner").unwrap().identity.clone();
    assert_eq!(denied.name, "a-wrong-name");
    assert_eq!(graph.deny(&denied), [delete("wrong")]);
    assert!(graph.absent.has(&denied));
    let other = graph.get("owner").unwrap();
    assert!(other.is_virtual, "it is looked for again");
    assert_eq!(other.identity, within("owner", "a"));
    assert!(graph.deny(&within("owner", "a")).contains(&delete("right")));
}

#[test]
fn an_owner_seen_is_not_removed_because_it_was_not_found_under_a_wrong_name() {
    let mut graph = Graph::default();
    graph.observe(within("owner", "a"), &ObjectMeta::default());
    graph.observe(within("child", "a"), &owned_by("owner"));
    assert_eq!(graph.deny(&within("owner", "b")), []);
    assert!(graph.get("owner").is_some());
}

#[test]
fn an_owner_nobody_disagrees_about_is_removed_when_denied() {
    let mut graph = Graph::default();
    graph.observe(within("child", "a"), &owned_by("owner"));
    assert_eq!(graph.deny(&within("owner", "a")), [delete("child")]);
    assert!(graph.get("owner").is_none());
}
