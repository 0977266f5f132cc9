//! Webhook configurations.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
    names,
};
use serde_json::json;

use crate::registry::{
    Generation,
    check::{At, unique_by},
    edit::{default_to, each, object_at},
    selectors,
    small::Small,
};

/// The rules of validating webhook configurations.
pub(crate) const VALIDATING: Small = Small { default: |obj| defaults(obj, false), validate: |obj| validate(obj, false), ..BOTH };

/// The rules of mutating webhook configurations.
pub(crate) const MUTATING: Small = Small { default: |obj| defaults(obj, true), validate: |obj| validate(obj, true), ..BOTH };

const BOTH: Small = Small {
    generation: Generation::Fields(&["webhooks"]),
    unconditional_update: false,
    columns: &[("Webhooks", "integer", "Number of webhooks.", |obj| At::field(obj, "webhooks").size().into())],
    ..Small::PLAIN
};

const LONGEST_TIMEOUT: i64 = 30;

fn defaults(obj: &mut Object, mutating: bool) {
    for webhook in each(&mut obj.0, "webhooks") {
        default_to(webhook, "failurePolicy", "Fail");
        default_to(webhook, "matchPolicy", "Equivalent");
        default_to(webhook, "namespaceSelector", json!({}));
        default_to(webhook, "objectSelector", json!({}));
        default_to(webhook, "timeoutSeconds", 10);
        if mutating {
            default_to(webhook, "reinvocationPolicy", "Never");
        }
        if let Some(service) = object_at(webhook, &["clientConfig", "service"]) {
            default_to(service, "port", 443);
        }
        each(webhook, "rules").for_each(|rule| default_to(rule, "scope", "*"));
    }
}

fn validate(obj: &Object, mutating: bool) -> ErrorList {
    let mut errs = ErrorList::new();
    let webhooks = At::field(obj, "webhooks");
    for webhook in webhooks.items() {
        self::webhook(&webhook, mutating, &mut errs);
    }
    unique_by(&webhooks, "name", &mut errs);
    errs
}

fn webhook(webhook: &At<'_>, mutating: bool, errs: &mut ErrorList) {
    qualified_domain(&webhook.get("name"), errs);
    client(&webhook.get("clientConfig"), errs);
    webhook.get("rules").items().iter().for_each(|at| rule(at, errs));
    webhook.get("failurePolicy").one_of_if_set(&["Fail", "Ignore"], errs);
    webhook.get("matchPolicy").one_of_if_set(&["Equivalent", "Exact"], errs);
    match webhook.get("sideEffects") {
        at if !at.is_set() => errs.push(at.required("must specify one of None, NoneOnDryRun")),
        at => at.one_of(&["None", "NoneOnDryRun"], errs),
    }
    let timeout = webhook.get("timeoutSeconds");
    if timeout.int().is_some_and(|n| !(1..=LONGEST_TIMEOUT).contains(&n)) {
        errs.push(timeout.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    for selector in ["namespaceSelector", "objectSelector"] {
        selectors::label_selector(&webhook.get(selector), errs);
    }
    if mutating {
        webhook.get("reinvocationPolicy").one_of_if_set(&["IfNeeded", "Never"], errs);
    }
    review_versions(&webhook.get("admissionReviewVersions"), errs);
}

fn qualified_domain(name: &At<'_>, errs: &mut ErrorList) {
    if !name.require_str("", errs) {
        return;
    }
    let messages = names::is_dns1123_subdomain(name.str());
    if messages.is_empty() && name.str().split('.').count() < 3 {
        errs.push(name.invalid("should be a domain with at least three segments separated by dots"));
    }
    name.each_of(messages, errs);
}

/// Where a webhook is called.
pub(crate) fn client(config: &At<'_>, errs: &mut ErrorList) {
    let (url, service) = (config.get("url"), config.get("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => self::url(&url, errs),
        (false, true) => {
            service.get("name").require_str("service name is required", errs);
            service.get("namespace").require_str("service namespace is required", errs);
            let path = service.get("path");
            if !path.is_empty() && !path.str().starts_with('/') {
                errs.push(path.invalid("must start with a '/'"));
            }
            service.get("port").port_number(errs);
        }
        _ => errs.push(config.required("exactly one of url or service is required")),
    }
}

fn url(url: &At<'_>, errs: &mut ErrorList) {
    const FORM: &str = "desired format: https://host[/path]";
    let text = url.str();
    match text.split_once("://") {
        Some(("https", rest)) if !rest.split('/').next().unwrap_or_default().is_empty() => {
            for (mark, what) in [('#', "fragments"), ('?', "query parameters")] {
                if rest.contains(mark) {
                    errs.push(url.invalid(format!("{what} are not permitted in the URL")));
                }
            }
        }
        Some(("https", _)) => errs.push(url.invalid(format!("host must be specified; {FORM}"))),
        Some((scheme, _)) => errs.push(Error::invalid(&url.path, scheme, format!("'https' is the only allowed URL scheme; {FORM}"))),
        None => errs.push(Error::invalid(&url.path, "", format!("'https' is the only allowed URL scheme; {FORM}"))),
    }
}

/// One rule of what is intercepted, of webhooks and policies.
pub(crate) fn rule(rule: &At<'_>, errs: &mut ErrorList) {
    let operations = rule.get("operations");
    if operations.size() == 0 {
        errs.push(operations.required(""));
    }
    for operation in operations.items() {
        operation.one_of(&["*", "CONNECT", "CREATE", "DELETE", "UPDATE"], errs);
    }
    for field in ["apiGroups", "apiVersions", "resources"] {
        let list = rule.get(field);
        if list.size() == 0 {
            errs.push(list.required(""));
        }
        if list.size() > 1 && field != "resources" && list.strs().contains(&"*") {
            errs.push(list.invalid("if '*' is present, must not specify other values"));
        }
        for item in list.items().iter().filter(|item| field != "apiGroups" && item.is_empty()) {
            errs.push(item.required(""));
        }
    }
    rule.get("scope").one_of_if_set(&["*", "Cluster", "Namespaced"], errs);
}

fn review_versions(list: &At<'_>, errs: &mut ErrorList) {
    if list.size() == 0 {
        errs.push(list.required("must specify one of v1, v1beta1"));
        return;
    }
    if !list.strs().iter().any(|version| ["v1", "v1beta1"].contains(version)) {
        errs.push(list.invalid("must include at least one of v1, v1beta1"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn complaints(patch: Value) -> Vec<String> {
        let mut webhook = json!({"name": "w.example.com", "clientConfig": {"url": "https://h/x"}, "sideEffects": "None", "admissionReviewVersions": ["v1"]});
        webhook.as_object_mut().unwrap().extend(patch.as_object().cloned().unwrap());
        let mut obj = Object::from_value(json!({"webhooks": [webhook]})).unwrap();
        (VALIDATING.default)(&mut obj);
        (VALIDATING.validate)(&obj).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_clients_and_timeouts_are_checked() {
        assert!(complaints(json!({})).is_empty());
        assert_eq!(
            complaints(json!({"name": "short"})),
            [r#"webhooks[0].name: Invalid value: "short": should be a domain with at least three segments separated by dots"#]
        );
        assert_eq!(
            complaints(json!({"clientConfig": {}})),
            ["webhooks[0].clientConfig: Required value: exactly one of url or service is required"]
        );
        assert_eq!(
            complaints(json!({"clientConfig": {"url": "http://h"}})),
            [
                r#"webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#
            ]
        );
        assert_eq!(
            complaints(json!({"timeoutSeconds": 31})),
            ["webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"]
        );
    }
}
