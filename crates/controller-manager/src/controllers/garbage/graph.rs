//! Who owns whom, as the informers tell it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;

/// Finalizers the collector acts on.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// How to address an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) api_version: String,
    pub(super) kind: String,
    /// Empty for cluster-scoped objects; for an owner known by reference only, the namespace of the dependent.
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// One object.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) identity: Identity,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) dependents: BTreeSet<String>,
    /// Known only because a dependent refers to it.
    pub(super) is_virtual: bool,
    pub(super) being_deleted: bool,
    /// Waits in the foreground for its dependents to go.
    pub(super) deleting_dependents: bool,
    orphaning: bool,
}

/// Something worth a look, by UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Delete(String),
    Orphan(String),
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<String, Node>,
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Takes in an object as an informer shows it.
    pub(super) fn observe(&mut self, identity: Identity, meta: &ObjectMeta) -> Vec<Work> {
        let uid = identity.uid.clone();
        let owners = meta.owner_references.clone().unwrap_or_default();
        let before = self.nodes.remove(&uid).unwrap_or_default();
        let mut work = self.unblocked(&before.owners, &owners);
        self.unlink(&uid, &before.owners, &owners);
        let namespace = identity.namespace.clone();
        let finalizes = |name: &str| meta.finalizers.iter().flatten().any(|finalizer| finalizer == name);
        let being_deleted = meta.deletion_timestamp.is_some();
        let node = Node {
            identity,
            owners,
            dependents: before.dependents,
            is_virtual: false,
            being_deleted,
            deleting_dependents: before.deleting_dependents || (being_deleted && finalizes(FOREGROUND)),
            orphaning: being_deleted && finalizes(ORPHAN),
        };
        if node.orphaning && !before.orphaning {
            work.push(Work::Orphan(uid.clone()));
        }
        if node.deleting_dependents && !before.deleting_dependents {
            work.extend(node.dependents.iter().cloned().map(Work::Delete));
            work.push(Work::Delete(uid.clone()));
        }
        self.nodes.insert(uid.clone(), node);
        work.extend(self.link(&uid, &namespace));
        work
    }

    /// Takes out an object that an informer or the server says is gone.
    pub(super) fn remove(&mut self, uid: &str) -> Vec<Work> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        self.unlink(uid, &node.owners, &[]);
        let mut work: Vec<Work> = node.dependents.into_iter().map(Work::Delete).collect();
        // An owner may have waited in the foreground for just this one.
        let waiting = node.owners.iter().filter(|owner| self.nodes.get(&owner.uid).is_some_and(|owner| owner.deleting_dependents));
        work.extend(waiting.map(|owner| Work::Delete(owner.uid.clone())));
        work
    }

    /// The dependents that keep `node` from going in the foreground.
    pub(super) fn blocking(&self, node: &Node) -> Vec<Node> {
        let blocks = |dependent: &&Node| {
            let mut owners = dependent.owners.iter();
            owners.any(|owner| owner.uid == node.identity.uid && owner.block_owner_deletion == Some(true))
        };
        self.dependents(node).into_iter().filter(|dependent| blocks(&dependent)).collect()
    }

    /// The nodes that refer to `node` as an owner.
    pub(super) fn dependents(&self, node: &Node) -> Vec<Node> {
        node.dependents.iter().filter_map(|uid| self.nodes.get(uid)).cloned().collect()
    }

    fn link(&mut self, uid: &str, namespace: &str) -> Vec<Work> {
        let owners = self.nodes.get(uid).map(|node| node.owners.clone()).unwrap_or_default();
        let mut work = Vec::new();
        for owner in owners {
            let known = self.nodes.contains_key(&owner.uid);
            let node = self.nodes.entry(owner.uid.clone()).or_insert_with(|| virtual_node(&owner, namespace));
            node.dependents.insert(uid.to_owned());
            if !known {
                work.push(Work::Delete(owner.uid));
            }
        }
        work
    }

    fn unlink(&mut self, uid: &str, before: &[OwnerReference], after: &[OwnerReference]) {
        let dropped = before.iter().filter(|owner| !after.iter().any(|kept| kept.uid == owner.uid));
        for owner in dropped {
            if let Some(node) = self.nodes.get_mut(&owner.uid) {
                node.dependents.remove(uid);
            }
        }
    }

    /// Owners waiting in the foreground that a dependent no longer blocks.
    fn unblocked(&self, before: &[OwnerReference], after: &[OwnerReference]) -> Vec<Work> {
        let blocks = |owner: &OwnerReference| owner.block_owner_deletion == Some(true);
        let freed = before.iter().filter(|owner| blocks(owner) && !after.iter().any(|kept| kept.uid == owner.uid && blocks(kept)));
        let waiting = |owner: &&OwnerReference| self.nodes.get(&owner.uid).is_some_and(|node| node.deleting_dependents);
        freed.filter(waiting).map(|owner| Work::Delete(owner.uid.clone())).collect()
    }
}

fn virtual_node(owner: &OwnerReference, namespace: &str) -> Node {
    let identity = Identity {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        namespace: namespace.to_owned(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
    };
    Node { identity, is_virtual: true, ..Node::default() }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
    use kube::api::ObjectMeta;

    use super::{FOREGROUND, Graph, Identity, ORPHAN, Work};

    fn identity(uid: &str) -> Identity {
        Identity { uid: uid.into(), name: uid.into(), ..Identity::default() }
    }

    fn owned_by(owner: &str, blocks: bool) -> ObjectMeta {
        let reference = OwnerReference { uid: owner.into(), block_owner_deletion: Some(blocks), ..OwnerReference::default() };
        ObjectMeta { owner_references: Some(vec![reference]), ..ObjectMeta::default() }
    }

    fn dying(finalizer: &str) -> ObjectMeta {
        ObjectMeta {
            deletion_timestamp: Some(Time(Timestamp::UNIX_EPOCH)),
            finalizers: Some(vec![finalizer.into()]),
            ..ObjectMeta::default()
        }
    }

    fn delete(uid: &str) -> Work {
        Work::Delete(uid.into())
    }

    #[test]
    fn an_owner_known_by_reference_only_is_looked_at() {
        let mut graph = Graph::default();
        assert_eq!(graph.observe(identity("child"), &owned_by("owner", true)), [delete("owner")]);
        assert!(graph.get("owner").unwrap().is_virtual);
        assert_eq!(graph.observe(identity("owner"), &ObjectMeta::default()), []);
        assert!(!graph.get("owner").unwrap().is_virtual);
        assert!(graph.get("owner").unwrap().dependents.contains("child"));
    }

    #[test]
    fn dependents_are_looked_at_when_their_owner_goes() {
        let mut graph = Graph::default();
        graph.observe(identity("owner"), &ObjectMeta::default());
        graph.observe(identity("child"), &owned_by("owner", true));
        assert_eq!(graph.remove("owner"), [delete("child")]);
    }

    #[test]
    fn foreground_deletion_starts_with_the_dependents_and_ends_with_the_last() {
        let mut graph = Graph::default();
        graph.observe(identity("owner"), &ObjectMeta::default());
        graph.observe(identity("child"), &owned_by("owner", true));
        assert_eq!(graph.observe(identity("owner"), &dying(FOREGROUND)), [delete("child"), delete("owner")]);
        let owner = graph.get("owner").unwrap().clone();
        assert_eq!(graph.blocking(&owner).len(), 1);
        assert_eq!(graph.remove("child"), [delete("owner")]);
    }

    #[test]
    fn a_reference_that_blocks_no_more_frees_the_owner() {
        let mut graph = Graph::default();
        graph.observe(identity("child"), &owned_by("owner", true));
        graph.observe(identity("owner"), &dying(FOREGROUND));
        assert_eq!(graph.observe(identity("child"), &owned_by("owner", false)), [delete("owner")]);
    }

    #[test]
    fn orphaning_is_asked_for_once() {
        let mut graph = Graph::default();
        graph.observe(identity("owner"), &ObjectMeta::default());
        assert_eq!(graph.observe(identity("owner"), &dying(ORPHAN)), [Work::Orphan("owner".into())]);
        assert_eq!(graph.observe(identity("owner"), &dying(ORPHAN)), []);
    }
}
