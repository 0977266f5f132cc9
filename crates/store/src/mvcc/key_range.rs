//! Which keys a request means.

use bytes::Bytes;

/// Keys from `start` on, before `end` where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// First key.
    pub start: Bytes,
    /// First key after the range; none for open-ended.
    pub end: Option<Bytes>,
    /// It is exactly one key.
    pub single: bool,
}

impl KeyRange {
    /// Reads `key` and `range_end` of a request: no end is one key, `\0` is everything from `key` on.
    pub fn new(key: &Bytes, range_end: &Bytes) -> Self {
        match &range_end[..] {
            [] => {
                let mut end = Vec::with_capacity(key.len() + 1);
                end.extend_from_slice(key);
                end.push(0);
                KeyRange { start: key.clone(), end: Some(end.into()), single: true }
            }
            [0] => KeyRange { start: key.clone(), end: None, single: false },
            _ => KeyRange { start: key.clone(), end: Some(range_end.clone()), single: false },
        }
    }

    /// It holds this key.
    pub fn contains(&self, key: &[u8]) -> bool {
        if self.single { key == self.start } else { key >= &self.start[..] && self.end.as_ref().is_none_or(|end| key < &end[..]) }
    }

    /// It can hold no key.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end <= &self.start)
    }

    /// Some key is in both.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        let before = |a: &KeyRange, b: &KeyRange| a.end.as_ref().is_some_and(|end| end <= &b.start);
        !self.is_empty() && !other.is_empty() && !before(self, other) && !before(other, self)
    }

    /// The range is every key with this prefix.
    pub fn as_prefix(&self) -> Option<&Bytes> {
        let end = self.end.as_ref().filter(|_| !self.single)?;
        (prefix_end(&self.start).as_ref() == Some(end)).then_some(&self.start)
    }
}

/// First key after all keys with this prefix; none when only the end of all keys is.
pub fn prefix_end(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|&byte| byte < 255)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(key: &'static str, end: &'static str) -> KeyRange {
        KeyRange::new(&Bytes::from_static(key.as_bytes()), &Bytes::from_static(end.as_bytes()))
    }

    #[test]
    fn no_end_is_the_one_key() {
        assert!(range("a", "").contains(b"a"));
        assert!(!range("a", "").contains(b"a\0"));
    }

    #[test]
    fn zero_end_is_everything_from_the_key_on() {
        assert!(range("b", "\0").contains(b"\xff\xff"));
        assert!(!range("b", "\0").contains(b"a"));
    }

    #[test]
    fn an_end_before_the_key_is_empty() {
        assert!(range("b", "a").is_empty());
        assert!(!range("b", "a").overlaps(&range("a", "\0")));
    }

    #[test]
    fn ranges_overlap_where_a_key_is_in_both() {
        assert!(range("a", "c").overlaps(&range("b", "")));
        assert!(!range("a", "c").overlaps(&range("c", "")));
        assert!(range("a", "\0").overlaps(&range("z", "")));
    }

    #[test]
    fn prefixes_are_recognised() {
        assert_eq!(range("ab", "ac").as_prefix(), Some(&Bytes::from("ab")));
        assert_eq!(range("ab", "ad").as_prefix(), None);
        assert_eq!(range("a", "").as_prefix(), None);
        assert_eq!(prefix_end(b"a\xff"), Some(Bytes::from("b")));
        assert_eq!(prefix_end(b"\xff"), None);
    }
}
