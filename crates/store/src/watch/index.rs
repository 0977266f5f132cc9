//! Which watchers a key concerns, without asking every one.

use crate::mvcc::KeyRange;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};

/// A watcher, unique in its hub.
pub type Id = u64;

/// Watchers by single key, by prefix, and the few that fit neither.
#[derive(Debug, Default)]
pub struct Index {
    keys: HashMap<Bytes, Vec<Id>>,
    prefixes: HashMap<Bytes, Vec<Id>>,
    /// How many prefixes there are of each length.
    lengths: BTreeMap<usize, usize>,
    ranges: Vec<(KeyRange, Id)>,
}

impl Index {
    /// Adds a watcher.
    pub fn insert(&mut self, range: &KeyRange, id: Id) {
        if range.single {
            self.keys.entry(range.start.clone()).or_default().push(id);
        } else if let Some(prefix) = range.as_prefix() {
            self.prefixes.entry(prefix.clone()).or_default().push(id);
            *self.lengths.entry(prefix.len()).or_default() += 1;
        } else {
            self.ranges.push((range.clone(), id));
        }
    }

    /// Takes a watcher out.
    pub fn remove(&mut self, range: &KeyRange, id: Id) {
        if range.single {
            remove_from(&mut self.keys, &range.start, id);
        } else if let Some(prefix) = range.as_prefix() {
            remove_from(&mut self.prefixes, prefix, id);
            if let Some(count) = self.lengths.get_mut(&prefix.len()) {
                *count -= 1;
                if *count == 0 {
                    self.lengths.remove(&prefix.len());
                }
            }
        } else {
            self.ranges.retain(|(_, other)| *other != id);
        }
    }

    /// Calls `found` for each watcher of a key.
    pub fn matching(&self, key: &[u8], mut found: impl FnMut(Id)) {
        let mut all = |ids: Option<&Vec<Id>>| ids.into_iter().flatten().for_each(|id| found(*id));
        all(self.keys.get(key));
        for (&length, _) in self.lengths.range(..=key.len()) {
            all(self.prefixes.get(&key[..length]));
        }
        self.ranges.iter().filter(|(range, _)| range.contains(key)).for_each(|(_, id)| found(*id));
    }
}

fn remove_from(map: &mut HashMap<Bytes, Vec<Id>>, key: &Bytes, id: Id) {
    if let Some(ids) = map.get_mut(key) {
        ids.retain(|other| *other != id);
        if ids.is_empty() {
            map.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(key: &'static str, end: &'static str) -> KeyRange {
        KeyRange::new(&Bytes::from(key), &Bytes::from(end))
    }

    #[test]
    fn finds_single_keys_prefixes_and_ranges_until_removed() {
        let ranges = [range("/a/b", ""), range("/a/", "/a0"), range("/", "\0"), range("/b", "/d")];
        let mut index = Index::default();
        ranges.iter().zip(0..).for_each(|(range, id)| index.insert(range, id));
        let matching = |index: &Index, key: &str| {
            let mut ids = Vec::new();
            index.matching(key.as_bytes(), |id| ids.push(id));
            ids.sort_unstable();
            ids
        };
        assert_eq!(matching(&index, "/a/b"), [0, 1, 2]);
        assert_eq!(matching(&index, "/a/c"), [1, 2]);
        assert_eq!(matching(&index, "/c"), [2, 3]);
        assert_eq!(matching(&index, "."), [] as [u64; 0]);
        ranges.iter().zip(0..).for_each(|(range, id)| index.remove(range, id));
        assert_eq!(matching(&index, "/a/b"), [] as [u64; 0]);
    }
}
