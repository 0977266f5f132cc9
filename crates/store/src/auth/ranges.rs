//! Sets of keys, made of ranges.

use crate::mvcc::KeyRange;
use bytes::Bytes;

/// Disjoint ranges in ascending order: first key, and the first one after it unless it is open-ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<(Bytes, Option<Bytes>)>);

impl FromIterator<KeyRange> for Ranges {
    /// Ranges that overlap or touch become one: what two permissions allow together is allowed as a whole.
    fn from_iter<T: IntoIterator<Item = KeyRange>>(ranges: T) -> Self {
        let mut sorted: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        sorted.sort_by(|a, b| a.start.cmp(&b.start));
        let mut merged: Vec<(Bytes, Option<Bytes>)> = Vec::new();
        for KeyRange { start, end, .. } in sorted {
            match merged.last_mut() {
                Some((_, None)) => break,
                Some((_, Some(last))) if *last >= start => {
                    if end.as_ref().is_none_or(|end| end > last) {
                        merged.last_mut().into_iter().for_each(|(_, last)| *last = end.clone());
                    }
                }
                _ => merged.push((start, end)),
            }
        }
        Ranges(merged)
    }
}

impl Ranges {
    /// Every key of the range is among them. A range that can hold no key is not.
    pub(super) fn cover(&self, range: &KeyRange) -> bool {
        let before = self.0.partition_point(|(start, _)| *start <= range.start);
        let Some((_, end)) = before.checked_sub(1).and_then(|at| self.0.get(at)).filter(|_| !range.is_empty()) else { return false };
        match (end, &range.end) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(end), Some(wanted)) => wanted <= end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(key: &str, end: &str) -> KeyRange {
        KeyRange::new(&Bytes::copy_from_slice(key.as_bytes()), &Bytes::copy_from_slice(end.as_bytes()))
    }

    fn covers(allowed: &[(&str, &str)], wanted: (&str, &str)) -> bool {
        let ranges: Ranges = allowed.iter().map(|(key, end)| range(key, end)).collect();
        ranges.cover(&range(wanted.0, wanted.1))
    }

    #[test]
    fn a_range_is_covered_whole_or_not_at_all() {
        assert!(covers(&[("a", "c")], ("a", "c")));
        assert!(covers(&[("a", "c")], ("b", "")));
        assert!(!covers(&[("a", "c")], ("c", "")));
        assert!(!covers(&[("a", "c")], ("b", "d")));
        assert!(!covers(&[("a", "")], ("a", "b")), "one key is not those after it");
        assert!(!covers(&[], ("a", "")));
    }

    #[test]
    fn ranges_that_touch_or_overlap_allow_what_lies_in_them_together() {
        assert!(covers(&[("a", "c"), ("c", "e")], ("b", "d")));
        assert!(covers(&[("c", "e"), ("a", "d"), ("b", "")], ("a", "e")));
        assert!(!covers(&[("a", "c"), ("d", "e")], ("b", "e")));
        assert!(covers(&[("a", ""), ("a\0", "c")], ("a", "b")));
    }

    #[test]
    fn only_an_open_end_covers_an_open_end() {
        assert!(covers(&[("b", "\0")], ("c", "\0")));
        assert!(covers(&[("a", "c"), ("b", "\0"), ("x", "y")], ("a", "\0")));
        assert!(!covers(&[("b", "\0")], ("a", "\0")));
        assert!(!covers(&[("a", "z")], ("a", "\0")));
        assert!(covers(&[("\0", "\0")], ("anything", "\0")));
    }

    #[test]
    fn what_holds_no_key_allows_and_is_allowed_nothing() {
        assert!(!covers(&[("c", "a")], ("b", "")));
        assert!(!covers(&[("a", "z")], ("c", "b")));
    }

    fn some_range() -> impl Strategy<Value = KeyRange> {
        (0..8u8, prop::option::of(0..9u8)).prop_map(|(start, end)| {
            let end = end.map_or(Bytes::from_static(&[0]), |end| Bytes::copy_from_slice(&[b'a' + end]));
            KeyRange::new(&Bytes::copy_from_slice(&[b'a' + start]), &end)
        })
    }

    proptest! {
        #[test]
        fn covering_is_holding_every_key(allowed in prop::collection::vec(some_range(), 0..6), wanted in some_range()) {
            let keys: Vec<[u8; 1]> = (b'a'..b'l').map(|key| [key]).collect();
            let held = |key: &[u8]| allowed.iter().any(|range| range.contains(key));
            let mut all = keys.iter().filter(|key| wanted.contains(&key[..])).peekable();
            let expected = all.peek().is_some() && all.all(|key| held(key));
            let ranges: Ranges = allowed.iter().cloned().collect();
            prop_assert_eq!(ranges.cover(&wanted), expected);
        }
    }
}
