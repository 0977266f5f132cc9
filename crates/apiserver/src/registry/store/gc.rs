//! What a deletion means for dependents: the `orphan` and `foregroundDeletion` finalizers.

use apimachinery::Object;

use crate::registry::DeleteOptions;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The object's finalizers after a deletion with these options, if they differ from what it has.
pub(super) fn finalizers(obj: &Object, options: &DeleteOptions, orphans_by_default: bool) -> Option<Vec<String>> {
    let old = obj.finalizers();
    let mut new: Vec<String> = old.iter().filter(|f| *f != ORPHAN && *f != FOREGROUND).cloned().collect();
    if orphans(&old, options, orphans_by_default) {
        new.push(ORPHAN.into());
    }
    if foreground(&old, options) {
        new.push(FOREGROUND.into());
    }
    let same = old.len() == new.len() && old.iter().all(|f| new.contains(f));
    (!same).then_some(new)
}

fn orphans(finalizers: &[String], options: &DeleteOptions, by_default: bool) -> bool {
    if let Some(orphan) = options.orphan_dependents {
        return orphan;
    }
    if let Some(policy) = &options.propagation_policy {
        return policy == "Orphan";
    }
    finalizers.iter().find_map(|f| (f == ORPHAN).then_some(true).or((f == FOREGROUND).then_some(false))).unwrap_or(by_default)
}

fn foreground(finalizers: &[String], options: &DeleteOptions) -> bool {
    if options.orphan_dependents.is_some() {
        return false;
    }
    if let Some(policy) = &options.propagation_policy {
        return policy == "Foreground";
    }
    finalizers.iter().find_map(|f| (f == FOREGROUND).then_some(true).or((f == ORPHAN).then_some(false))).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn after(finalizers: &[&str], policy: Option<&str>) -> Option<Vec<String>> {
        let obj = Object::from_value(json!({"metadata": {"finalizers": finalizers}})).unwrap();
        let options = DeleteOptions { propagation_policy: policy.map(str::to_owned), ..Default::default() };
        super::finalizers(&obj, &options, false)
    }

    #[test]
    fn the_policy_decides_which_finalizer_is_set() {
        assert_eq!(after(&["a/b"], Some("Foreground")), Some(vec!["a/b".into(), "foregroundDeletion".into()]));
        assert_eq!(after(&["foregroundDeletion"], Some("Orphan")), Some(vec!["orphan".into()]));
        assert_eq!(after(&["orphan"], Some("Background")), Some(vec![]));
    }

    #[test]
    fn without_a_policy_the_objects_own_finalizer_stays() {
        assert_eq!(after(&["orphan"], None), None);
        assert_eq!(after(&["a/b"], None), None);
    }
}
