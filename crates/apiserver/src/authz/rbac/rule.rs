//! Whether one rule allows one request.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::request::RequestInfo;

/// Whether `rule` allows what `info` asks for.
pub(crate) fn allows(rule: &PolicyRule, info: &RequestInfo) -> bool {
    let any = |list: &Option<Vec<String>>, wanted: &str| list.iter().flatten().any(|entry| entry == "*" || entry == wanted);
    if !rule.verbs.iter().any(|verb| verb == "*" || verb == info.verb) {
        return false;
    }
    if !info.is_resource {
        return rule.non_resource_urls.iter().flatten().any(|pattern| path_matches(pattern, &info.path));
    }
    any(&rule.api_groups, &info.group)
        && rule.resources.iter().flatten().any(|resource| resource_matches(resource, info))
        && names_match(&rule.resource_names, &info.name)
}

fn resource_matches(pattern: &str, info: &RequestInfo) -> bool {
    if pattern == "*" {
        return true;
    }
    match pattern.split_once('/') {
        None => info.subresource.is_empty() && pattern == info.resource,
        Some((resource, subresource)) => {
            !info.subresource.is_empty() && subresource == info.subresource && (resource == "*" || resource == info.resource)
        }
    }
}

fn names_match(names: &Option<Vec<String>>, name: &str) -> bool {
    names.as_ref().is_none_or(|names| names.is_empty() || names.iter().any(|entry| entry == name))
}

/// `*` at the end of a pattern stands for anything.
pub(super) fn path_matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix.trim_end_matches('*')),
        None => pattern == path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups, resources, names and verbs of a rule, a request line, and whether the one allows the other.
    type Case = (&'static [&'static str], &'static [&'static str], &'static [&'static str], &'static [&'static str], &'static str, bool);

    #[test]
    fn rules_allow_what_they_list() {
        #[rustfmt::skip]
        let cases: &[Case] = &[
            (&[""], &["pods"], &[], &["get"], "GET /api/v1/namespaces/n/pods/p", true),
            (&[""], &["pods"], &[], &["get"], "GET /api/v1/namespaces/n/pods", false),
            (&[""], &["pods"], &[], &["*"], "GET /api/v1/namespaces/n/pods/p/log", false),
            (&[""], &["pods/log"], &[], &["*"], "GET /api/v1/namespaces/n/pods/p/log", true),
            (&["*"], &["*"], &[], &["*"], "GET /api/v1/namespaces/n/pods/p/log", true),
            (&["apps"], &["*/status"], &[], &["get"], "GET /apis/apps/v1/namespaces/n/deployments/d/status", true),
            (&["apps"], &["*/status"], &[], &["get"], "GET /apis/apps/v1/namespaces/n/deployments/d/scale", false),
            (&[""], &["configmaps"], &["a"], &["get", "list"], "GET /api/v1/namespaces/n/configmaps/a", true),
            (&[""], &["configmaps"], &["a"], &["get", "list"], "GET /api/v1/namespaces/n/configmaps/b", false),
            (&[""], &["configmaps"], &["a"], &["get", "list"], "GET /api/v1/namespaces/n/configmaps", false),
            (&["apps"], &["pods"], &[], &["get"], "GET /api/v1/namespaces/n/pods/p", false),
        ];
        for (groups, resources, names, verbs, request, expected) in cases {
            let owned = |list: &[&str]| list.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>();
            let rule = PolicyRule {
                api_groups: Some(owned(groups)),
                resources: Some(owned(resources)),
                resource_names: Some(owned(names)),
                verbs: owned(verbs),
                ..PolicyRule::default()
            };
            let (_, path) = request.split_once(' ').unwrap();
            let info = RequestInfo::parse(&http::Method::GET, path, "");
            assert_eq!(allows(&rule, &info), *expected, "{resources:?} {verbs:?} {request}");
        }
    }

    #[test]
    fn paths_match_exactly_or_by_a_trailing_star() {
        assert!(path_matches("/healthz", "/healthz") && path_matches("/healthz/*", "/healthz/ping") && path_matches("*", "/x"));
        assert!(!path_matches("/healthz", "/healthz/ping") && !path_matches("/healthz/*", "/healthz"));
    }
}
