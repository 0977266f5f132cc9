//! The order of API versions: `v2`, `v1`, `v2beta1`, `v1alpha3`, then whatever else (`k8s.io/apimachinery/pkg/version`).

use std::cmp::Ordering;

/// How stable a version is, and its numbers.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Stability(u8, u64, u64);

/// Compares two versions by preference: the greater one is the one to show first.
pub fn compare(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

fn parse(version: &str) -> Option<Stability> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(end);
    let major = number(major)?;
    if rest.is_empty() {
        return Some(Stability(2, major, 0));
    }
    let (level, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(minor), _) => (1, minor),
        (_, Some(minor)) => (0, minor),
        _ => return None,
    };
    Some(Stability(level, major, number(minor)?))
}

/// A number without leading zeroes.
fn number(digits: &str) -> Option<u64> {
    if digits.starts_with('0') || !digits.bytes().all(|c| c.is_ascii_digit()) { None } else { digits.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first_and_unknown_ones_last() {
        let mut versions = ["foo10", "v1alpha1", "v11", "v2", "foo1", "v1beta2", "v10", "v2beta1", "v1"];
        versions.sort_by(|a, b| compare(b, a));
        assert_eq!(versions, ["v11", "v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo1", "foo10"]);
    }
}
