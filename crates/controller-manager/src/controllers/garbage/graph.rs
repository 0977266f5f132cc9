//! Who owns whom, as the informers tell it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;

use super::{absent::Absent, identity::Identity};

/// Finalizers the collector acts on.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

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

impl Node {
    /// How the node's references to the owner agree with what the owner is: some may, some may not.
    fn refers(&self, owner: &Identity) -> Agreement {
        let mut references = self.owners.iter().filter(|reference| reference.uid == owner.uid);
        if !owner.reaches(&self.identity.namespace) {
            return Agreement { agrees: false, differs: true };
        }
        Agreement {
            agrees: references.clone().any(|reference| owner.agrees(reference)),
            differs: references.any(|reference| !owner.agrees(reference)),
        }
    }
}

struct Agreement {
    agrees: bool,
    differs: bool,
}

/// Something to do, by UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Look whether it is garbage.
    Delete(String),
    /// Free its dependents, then let it go.
    Orphan(String),
    /// Tell users that an object refers to an owner in another namespace.
    Report(Box<Misplaced>),
}

/// An owner that is not in the namespace where its dependent's reference means it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misplaced {
    pub(super) dependent: Identity,
    pub(super) owner: Identity,
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<String, Node>,
    /// Owners the server denied.
    pub(super) absent: Absent,
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
        let mut work = if before.is_virtual { self.materialize(&before, &identity) } else { Vec::new() };
        work.extend(self.unblocked(&before.owners, &owners));
        self.unlink(&uid, &before.owners, &owners);
        let finalizes = |name: &str| meta.finalizers.iter().flatten().any(|finalizer| finalizer == name);
        let being_deleted = meta.deletion_timestamp.is_some();
        let added: Vec<_> = owners.iter().filter(|owner| !before.owners.iter().any(|known| known.uid == owner.uid)).cloned().collect();
        let node = Node {
            identity,
            owners,
            dependents: before.dependents,
            is_virtual: false,
            being_deleted,
            deleting_dependents: before.deleting_dependents || (being_deleted && finalizes(FOREGROUND)),
            orphaning: being_deleted && finalizes(ORPHAN),
        };
        let transition = if node.orphaning {
            (!before.orphaning).then(|| vec![Work::Orphan(uid.clone())])
        } else {
            let starts = node.deleting_dependents && !before.deleting_dependents;
            starts.then(|| node.dependents.iter().chain([&uid]).cloned().map(Work::Delete).collect())
        };
        self.nodes.insert(uid.clone(), node);
        work.extend(self.link(&uid, &added));
        work.extend(transition.into_iter().flatten());
        work
    }

    /// Takes out an object that an informer says is gone.
    pub(super) fn remove(&mut self, uid: &str) -> Vec<Work> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        self.unlink(uid, &node.owners, &[]);
        if !node.dependents.is_empty() {
            self.absent.add(node.identity);
        }
        let mut work: Vec<Work> = node.dependents.into_iter().map(Work::Delete).collect();
        // An owner may have waited in the foreground for just this one.
        let waiting = node.owners.iter().filter(|owner| self.nodes.get(&owner.uid).is_some_and(|owner| owner.deleting_dependents));
        work.extend(waiting.map(|owner| Work::Delete(owner.uid.clone())));
        work
    }

    /// Takes in that the server denied an object of this very identity. Others may know its UID by another one: a reference
    /// can be wrong in any part of it, and must do no harm to those who are right.
    pub(super) fn deny(&mut self, identity: &Identity) -> Vec<Work> {
        let Some(node) = self.nodes.get(&identity.uid) else { return Vec::new() };
        let (agreeing, differing) = self.partition(node, identity);
        let stays = if node.is_virtual { !differing.is_empty() } else { node.identity != *identity };
        if !stays {
            return self.remove(&identity.uid);
        }
        if node.is_virtual && node.identity == *identity {
            let other = self.alternative(&differing, identity);
            if let (Some(other), Some(node)) = (other, self.nodes.get_mut(&identity.uid)) {
                node.identity = other;
            }
        }
        if !agreeing.is_empty() {
            self.absent.add(identity.clone());
        }
        agreeing.into_iter().map(Work::Delete).collect()
    }

    /// The dependents that keep `node` from going in the foreground.
    pub(super) fn blocking(&self, node: &Node) -> Vec<Node> {
        let blocks = |dependent: &&Node| {
            let mut owners = dependent.owners.iter();
            owners.any(|owner| owner.uid == node.identity.uid && owner.block_owner_deletion == Some(true))
        };
        self.dependents(node).filter(blocks).cloned().collect()
    }

    /// The nodes that refer to `node` as an owner.
    pub(super) fn dependents<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Node> {
        node.dependents.iter().filter_map(|uid| self.nodes.get(uid))
    }

    /// An owner known by reference only has been seen: those who mean another object by its UID are looked at again.
    fn materialize(&self, before: &Node, identity: &Identity) -> Vec<Work> {
        if before.identity == *identity {
            return Vec::new();
        }
        let mut work = Vec::new();
        for dependent in self.dependents(before).filter(|dependent| dependent.refers(identity).differs) {
            if !identity.reaches(&dependent.identity.namespace) {
                work.extend(report(dependent, &identity.uid));
            }
            work.push(Work::Delete(dependent.identity.uid.clone()));
        }
        work
    }

    fn link(&mut self, uid: &str, added: &[OwnerReference]) -> Vec<Work> {
        if added.is_empty() {
            return Vec::new();
        }
        let Some(dependent) = self.nodes.get(uid).cloned() else { return Vec::new() };
        let namespace = &dependent.identity.namespace;
        let (mut work, mut suspect) = (Vec::new(), false);
        for reference in added {
            let known = self.nodes.contains_key(&reference.uid);
            let owner = self.nodes.entry(reference.uid.clone()).or_insert_with(|| virtual_node(reference, namespace));
            owner.dependents.insert(uid.to_owned());
            if !known {
                work.push(Work::Delete(reference.uid.clone()));
            } else if !owner.identity.reaches(namespace) {
                if !owner.is_virtual && !suspect {
                    work.extend(report(&dependent, &reference.uid));
                }
                suspect = true;
            } else {
                // A cluster-scoped dependent may have meant, by mistake, an owner in some namespace.
                let unsure = owner.is_virtual && owner.identity.namespace != *namespace;
                suspect |= unsure || !owner.identity.agrees(reference);
            }
        }
        if suspect {
            work.push(Work::Delete(uid.to_owned()));
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

    /// The dependents of `node` that mean `identity` by its UID, and those that mean something else; one may do both.
    fn partition(&self, node: &Node, identity: &Identity) -> (Vec<String>, Vec<String>) {
        let (mut agreeing, mut differing) = (Vec::new(), Vec::new());
        for dependent in self.dependents(node) {
            let agreement = dependent.refers(identity);
            agreeing.extend(agreement.agrees.then(|| dependent.identity.uid.clone()));
            differing.extend(agreement.differs.then(|| dependent.identity.uid.clone()));
        }
        (agreeing, differing)
    }

    /// Another identity under which `dependents` know the denied owner: the next in order, or else the first, so that
    /// repeated denials try them all.
    fn alternative(&self, dependents: &[String], denied: &Identity) -> Option<Identity> {
        let clusterwide = denied.namespace.is_empty();
        let mut others = BTreeSet::new();
        for dependent in dependents.iter().filter_map(|uid| self.nodes.get(uid)) {
            for reference in dependent.owners.iter().filter(|reference| reference.uid == denied.uid) {
                let mut other = Identity::referred(reference, &dependent.identity.namespace);
                if clusterwide && (&other.kind, &other.api_version) == (&denied.kind, &denied.api_version) {
                    other.namespace.clear();
                }
                others.insert(other);
            }
        }
        others.remove(denied);
        others.range::<Identity, _>(denied..).next().or_else(|| others.first()).cloned()
    }
}

fn report(dependent: &Node, owner: &str) -> Option<Work> {
    let reference = dependent.owners.iter().find(|reference| reference.uid == owner)?;
    let owner = Identity::referred(reference, &dependent.identity.namespace);
    Some(Work::Report(Box::new(Misplaced { dependent: dependent.identity.clone(), owner })))
}

fn virtual_node(owner: &OwnerReference, namespace: &str) -> Node {
    Node { identity: Identity::referred(owner, namespace), is_virtual: true, ..Node::default() }
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
