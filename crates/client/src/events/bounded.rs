//! A map that forgets what was not touched for longest.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

pub(super) struct Bounded<K, V> {
    capacity: usize,
    entries: HashMap<K, (u64, V)>,
    by_touch: BTreeMap<u64, K>,
    touches: u64,
}

impl<K: Clone + Eq + Hash, V> Bounded<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, entries: HashMap::new(), by_touch: BTreeMap::new(), touches: 0 }
    }

    /// The value of `key`, made by `default` if there is none.
    pub(super) fn get_or_insert_with(&mut self, key: K, default: impl FnOnce() -> V) -> &mut V {
        if !self.entries.contains_key(&key)
            && self.entries.len() >= self.capacity
            && let Some((_, oldest)) = self.by_touch.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.touches += 1;
        let entry = self.entries.entry(key.clone()).or_insert_with(|| (0, default()));
        self.by_touch.remove(&entry.0);
        self.by_touch.insert(self.touches, key);
        entry.0 = self.touches;
        &mut entry.1
    }
}

#[cfg(test)]
mod tests {
    use super::Bounded;

    #[test]
    fn forgets_what_was_not_touched_for_longest() {
        let mut map = Bounded::new(2);
        *map.get_or_insert_with("a", || 0) = 1;
        *map.get_or_insert_with("b", || 0) = 2;
        map.get_or_insert_with("a", || 0);
        map.get_or_insert_with("c", || 0);
        assert_eq!(*map.get_or_insert_with("a", || 0), 1);
        assert_eq!(*map.get_or_insert_with("b", || 0), 0);
    }
}
