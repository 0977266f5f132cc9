//! Roles and cluster roles.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
    names,
};
use async_trait::async_trait;
use serde_json::Value;

use crate::{
    registry::{Strategy, check::At, selectors},
    request::RequestContext,
};

/// The rules of roles; `cluster` for cluster roles, which may name URLs and aggregate.
pub(crate) struct Role {
    /// Whether this is the cluster-scoped kind.
    pub(crate) cluster: bool,
}

#[async_trait]
impl Strategy for Role {
    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        for rule in At::field(obj, "rules").items() {
            self::rule(&rule, self.cluster, &mut errs);
        }
        if self.cluster {
            aggregation(&At::field(obj, "aggregationRule"), &mut errs);
        }
        errs
    }

    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::is_path_segment_name(name)
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

fn rule(rule: &At<'_>, cluster: bool, errs: &mut ErrorList) {
    let (verbs, urls) = (rule.get("verbs"), rule.get("nonResourceURLs"));
    if verbs.size() == 0 {
        errs.push(verbs.required("verbs must contain at least one value"));
    }
    if urls.size() > 0 {
        let mixed = ["apiGroups", "resources", "resourceNames"].iter().any(|field| rule.get(field).size() > 0);
        if !cluster {
            errs.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
        }
        if mixed {
            errs.push(urls.invalid("rules cannot apply to both regular resources and non-resource URLs"));
        }
        return;
    }
    for (field, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        if rule.get(field).size() == 0 {
            errs.push(rule.get(field).required(&format!("resource rules must supply at least one {what}")));
        }
    }
}

fn aggregation(rule: &At<'_>, errs: &mut ErrorList) {
    if !rule.is_set() {
        return;
    }
    let list = rule.get("clusterRoleSelectors");
    if list.size() == 0 {
        errs.push(list.required("at least one clusterRoleSelector required if aggregationRule is non-nil"));
    }
    for selector in list.items() {
        let before = errs.len();
        selectors::label_selector(&selector, errs);
        if errs.len() > before {
            errs.push(Error::invalid(&selector.path, Value::Null, "invalid label selector."));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resources_and_urls_do_not_mix_and_aggregation_needs_selectors() {
        let check = |obj: Value| {
            let errs = Role { cluster: true }.validate(&RequestContext::for_tests(), &Object::from_value(obj).unwrap());
            errs.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            check(json!({"rules": [{"apiGroups": [""], "resources": ["y"], "nonResourceURLs": ["/x"], "verbs": ["get"]}]})),
            [r#"rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs"#]
        );
        assert_eq!(
            check(json!({"aggregationRule": {"clusterRoleSelectors": []}})),
            [
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"
            ]
        );
    }
}
