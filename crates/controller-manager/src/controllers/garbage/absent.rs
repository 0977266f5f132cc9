//! Owners the server said are not there. A UID never comes back, so each needs to be asked for only once.

use std::collections::{HashSet, VecDeque};

use super::identity::Identity;

/// Owners remembered; their dependents are usually looked at soon after each other.
const CAPACITY: usize = 500;

#[derive(Debug, Default)]
pub(super) struct Absent {
    known: HashSet<Identity>,
    order: VecDeque<Identity>,
}

impl Absent {
    /// Remembers `owner`, and forgets the oldest when there are too many.
    pub(super) fn add(&mut self, owner: Identity) {
        if self.known.insert(owner.clone()) {
            self.order.push_back(owner);
        }
        if self.order.len() > CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Whether `owner` is known to be absent, be it in its namespace or cluster-scoped.
    pub(super) fn has(&self, owner: &Identity) -> bool {
        self.known.contains(owner) || self.known.contains(&Identity { namespace: String::new(), ..owner.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::{Absent, CAPACITY, Identity};

    #[test]
    fn remembers_so_many_and_forgets_the_oldest() {
        let owner = |number: usize| Identity { uid: number.to_string(), namespace: "a".into(), ..Identity::default() };
        let mut absent = Absent::default();
        (0..=CAPACITY).for_each(|number| absent.add(owner(number)));
        assert!(!absent.has(&owner(0)) && absent.has(&owner(1)) && absent.has(&owner(CAPACITY)));
    }

    #[test]
    fn a_cluster_scoped_owner_is_absent_from_every_namespace() {
        let mut absent = Absent::default();
        absent.add(Identity { uid: "u".into(), ..Identity::default() });
        assert!(absent.has(&Identity { uid: "u".into(), namespace: "a".into(), ..Identity::default() }));
    }
}
