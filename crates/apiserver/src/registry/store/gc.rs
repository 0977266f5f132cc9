//! What a deletion means for dependents: the `orphan` and `foregroundDeletion` finalizers.

use apimachinery::Object;

use crate::registry::{DeleteOptions, Dependents};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The object's finalizers after a deletion with these options, if they differ from what it has.
pub(super) fn finalizers(obj: &Object, options: &DeleteOptions, default: Dependents) -> Option<Vec<String>> {
    let old = obj.finalizers();
    let mut new: Vec<String> = old.iter().filter(|f| *f != ORPHAN && *f != FOREGROUND).cloned().collect();
    if default != Dependents::Unsupported {
        if orphans(&old, options, default == Dependents::Orphan) {
            new.push(ORPHAN.into());
        }
        if foreground(&old, options) {
            new.push(FOREGROUND.into());
        }
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
        super::finalizers(&obj, &options, Dependents::Delete)
    }

    #[test]
    fn the_policy_decides_which_finalizer_is_set() {
        assert_eq!(after(&["a/b"], Some("Foreground")), Some(vec!["a/b".into(), "foregroundDeletion".into()]));
        assert_eq!(after(&["foregroundDeletion"], Some("Orphan")), Some(vec!["orphan".into()]));
        assert_eq!(after(&["orphan"], Some("Background")), Some(vec![]));
    }

    #[test]
    fn the_kinds_own_rule_stands_where_nothing_else_is_said() {
        let decide = |finalizers: &[&str], orphan: Option<bool>, default| {
            let obj = Object::from_value(json!({"metadata": {"finalizers": finalizers}})).unwrap();
            super::finalizers(&obj, &DeleteOptions { orphan_dependents: orphan, ..Default::default() }, default)
        };
        assert_eq!(decide(&[], None, Dependents::Orphan), Some(vec!["orphan".into()]));
        assert_eq!(decide(&[], Some(false), Dependents::Orphan), None);
        assert_eq!(decide(&["foregroundDeletion"], None, Dependents::Orphan), None);
        assert_eq!(decide(&[], Some(true), Dependents::Unsupported), None);
        assert_eq!(decide(&["foregroundDeletion"], None, Dependents::Unsupported), Some(vec![]));
    }

    #[test]
    fn without_a_policy_the_objects_own_finalizer_stays() {
        assert_eq!(after(&["orphan"], None), None);
        assert_eq!(after(&["a/b"], None), None);
    }
}
