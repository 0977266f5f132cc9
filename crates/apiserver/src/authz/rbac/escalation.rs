//! Nobody may grant what they do not hold: whether one set of rules covers another.

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::rule::path_matches;
use super::{Rbac, aggregate};
use crate::request::UserInfo;

/// Rules a user wants to grant and does not hold.
#[derive(Debug, thiserror::Error)]
#[error("user {user:?} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{missing}{resolution}")]
pub(crate) struct EscalationError {
    user: String,
    groups: String,
    missing: String,
    resolution: String,
}

/// Refuses rules that go beyond what the user holds in `namespace`. Upstream: `validation.ConfirmNoEscalation`.
pub(crate) fn confirm_no_escalation(rbac: &Rbac, user: &UserInfo, namespace: &str, rules: &[PolicyRule]) -> Result<(), EscalationError> {
    let (held, errors) = rbac.rules_for(user, namespace);
    let missing: Vec<Single> = rules.iter().flat_map(break_down).filter(|single| !held.iter().any(|rule| covers(rule, single))).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let resolution = if errors.is_empty() { String::new() } else { format!("; resolution errors: {}", aggregate(&errors)) };
    Err(EscalationError { user: user.name.clone(), groups: quoted(&user.groups), missing: compact(&missing).join("\n"), resolution })
}

/// Whether rules, as JSON, cover another one.
pub(crate) fn covered(rule: &serde_json::Value, by: &[serde_json::Value]) -> bool {
    let parse = |rule: &serde_json::Value| serde_json::from_value::<PolicyRule>(rule.clone()).unwrap_or_default();
    let by: Vec<PolicyRule> = by.iter().map(parse).collect();
    break_down(&parse(rule)).iter().all(|single| by.iter().any(|rule| covers(rule, single)))
}

/// A rule of one verb on one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Single {
    Resource { verb: String, group: String, resource: String, name: Option<String> },
    Path { verb: String, path: String },
}

fn break_down(rule: &PolicyRule) -> Vec<Single> {
    let mut singles = Vec::new();
    let names = rule.resource_names.iter().flatten().cloned().map(Some).collect::<Vec<_>>();
    let names = if names.is_empty() { vec![None] } else { names };
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            for verb in &rule.verbs {
                for name in &names {
                    singles.push(Single::Resource {
                        verb: verb.clone(),
                        group: group.clone(),
                        resource: resource.clone(),
                        name: name.clone(),
                    });
                }
            }
        }
    }
    for path in rule.non_resource_urls.iter().flatten() {
        singles.extend(rule.verbs.iter().map(|verb| Single::Path { verb: verb.clone(), path: path.clone() }));
    }
    singles
}

fn covers(rule: &PolicyRule, single: &Single) -> bool {
    let has = |list: &[String], wanted: &String| list.iter().any(|entry| entry == "*" || entry == wanted);
    match single {
        Single::Path { verb, path } => {
            has(&rule.verbs, verb) && rule.non_resource_urls.iter().flatten().any(|pattern| pattern == path || path_matches(pattern, path))
        }
        Single::Resource { verb, group, resource, name } => {
            let names = rule.resource_names.as_deref().unwrap_or_default();
            has(&rule.verbs, verb)
                && has(rule.api_groups.as_deref().unwrap_or_default(), group)
                && rule.resources.iter().flatten().any(|pattern| resource_covers(pattern, resource))
                && (names.is_empty() || name.as_ref().is_some_and(|name| names.contains(name)))
        }
    }
}

/// `*` covers everything, `*/scale` every scale subresource.
fn resource_covers(pattern: &str, resource: &str) -> bool {
    let same_subresource = || match (pattern.strip_prefix("*/"), resource.split_once('/')) {
        (Some(wanted), Some((_, subresource))) => wanted == subresource,
        _ => false,
    };
    pattern == "*" || pattern == resource || same_subresource()
}

/// Singles of the same thing joined into one text each, sorted.
fn compact(missing: &[Single]) -> Vec<String> {
    let mut groups: Vec<(Single, Vec<String>)> = Vec::new();
    for single in missing {
        let (verb, key) = match single.clone() {
            Single::Resource { verb, group, resource, name } => (verb, Single::Resource { verb: String::new(), group, resource, name }),
            // Upstream joins verbs of resources only.
            Single::Path { verb, path } => (verb.clone(), Single::Path { verb, path }),
        };
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, verbs)) => verbs.push(verb),
            None => groups.push((key, vec![verb])),
        }
    }
    let mut texts: Vec<String> = groups.iter().map(|(key, verbs)| text(key, verbs)).collect();
    texts.sort();
    texts
}

fn text(key: &Single, verbs: &[String]) -> String {
    let verbs = quoted(verbs);
    match key {
        Single::Path { path, .. } => format!("{{NonResourceURLs:[{path:?}], Verbs:{verbs}}}"),
        Single::Resource { group, resource, name: None, .. } => {
            format!("{{APIGroups:[{group:?}], Resources:[{resource:?}], Verbs:{verbs}}}")
        }
        Single::Resource { group, resource, name: Some(name), .. } => {
            format!("{{APIGroups:[{group:?}], Resources:[{resource:?}], ResourceNames:[{name:?}], Verbs:{verbs}}}")
        }
    }
}

/// A list as Go's `%q` prints it.
fn quoted(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|entry| format!("{entry:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> PolicyRule {
        let owned = |list: &[&str]| list.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>();
        PolicyRule { api_groups: Some(owned(groups)), resources: Some(owned(resources)), verbs: owned(verbs), ..PolicyRule::default() }
    }

    fn missing(held: &[PolicyRule], wanted: &PolicyRule) -> Vec<String> {
        let singles: Vec<Single> = break_down(wanted).into_iter().filter(|single| !held.iter().any(|rule| covers(rule, single))).collect();
        compact(&singles)
    }

    #[test]
    fn names_what_is_missing_thing_by_thing() {
        let held = [rule(&[""], &["configmaps"], &["get", "list"])];
        let wanted = rule(&[""], &["configmaps", "secrets"], &["get", "watch"]);
        assert_eq!(
            missing(&held, &wanted),
            [
                r#"{APIGroups:[""], Resources:["configmaps"], Verbs:["watch"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "watch"]}"#
            ]
        );
    }

    #[test]
    fn stars_cover_everything_and_only_stars_cover_stars() {
        let star = rule(&["*"], &["*"], &["*"]);
        assert!(missing(std::slice::from_ref(&star), &rule(&["apps"], &["deployments/scale"], &["patch"])).is_empty());
        assert!(missing(std::slice::from_ref(&star), &star).is_empty());
        assert_eq!(missing(&[rule(&["apps"], &["*"], &["*"])], &star), [r#"{APIGroups:["*"], Resources:["*"], Verbs:["*"]}"#]);
        assert!(missing(&[rule(&[""], &["*/status"], &["get"])], &rule(&[""], &["pods/status"], &["get"])).is_empty());
    }
}
