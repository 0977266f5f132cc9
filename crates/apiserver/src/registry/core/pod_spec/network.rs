//! Host names, aliases, DNS and host ports.

use apimachinery::field::ErrorList;
use apimachinery::names;

use crate::registry::{addresses, check::At};

/// `hostname`, `subdomain`.
pub(crate) fn host_names(spec: &At<'_>, errs: &mut ErrorList) {
    for field in ["hostname", "subdomain"] {
        spec.get(field).name_if_set(names::is_dns1123_label, errs);
    }
}

/// `hostAliases`.
pub(crate) fn host_aliases(list: &At<'_>, errs: &mut ErrorList) {
    for alias in list.items() {
        alias.get("ip").name(addresses::is_ip, errs);
        for name in alias.get("hostnames").items() {
            name.name(names::is_dns1123_subdomain, errs);
        }
    }
}

/// On the host's network a port is the host's port.
pub(crate) fn host_ports(spec: &At<'_>, errs: &mut ErrorList) {
    if !spec.get("hostNetwork").is_true() {
        return;
    }
    for port in spec.get("containers").items().iter().flat_map(|container| container.get("ports").items()) {
        if port.get("hostPort").int() != port.get("containerPort").int() {
            errs.push(port.get("containerPort").invalid("must match `hostPort` when `hostNetwork` is true"));
        }
    }
}

/// `dnsPolicy`.
pub(crate) fn dns_policy(policy: &At<'_>, errs: &mut ErrorList) {
    policy.one_of(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], errs);
}

/// `dnsConfig`.
pub(crate) fn dns_config(spec: &At<'_>, errs: &mut ErrorList) {
    const NEEDS_CONFIG: &str = "must provide `dnsConfig` when `dnsPolicy` is None";
    let config = spec.get("dnsConfig");
    let on_its_own = spec.get("dnsPolicy").str() == "None";
    if !config.is_set() {
        if on_its_own {
            errs.push(config.required(NEEDS_CONFIG));
        }
        return;
    }
    let (servers, searches) = (config.get("nameservers"), config.get("searches"));
    if on_its_own && servers.size() == 0 {
        errs.push(servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None"));
    }
    if servers.size() > 3 {
        errs.push(servers.invalid("must not have more than 3 nameservers"));
    }
    for server in servers.items() {
        server.name(addresses::is_ip, errs);
    }
    search_paths(&searches, errs);
    for option in config.get("options").items() {
        option.under(config.get("options").path).get("name").require_str("", errs);
    }
}

/// A DNS name whose labels may begin with an underscore.
fn is_search_path(text: &str) -> Vec<String> {
    const WORDS: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', \
        and must start and end with an alphanumeric character";
    const PATTERN: &str = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
    let sound = |label: &str| {
        let bare = label.strip_prefix('_').unwrap_or(label);
        let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let inner = bare.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_');
        inner && end(bare.chars().next()) && end(bare.chars().last())
    };
    let mut problems = Vec::new();
    if text.len() > names::DNS1123_SUBDOMAIN_MAX {
        problems.push(names::max_length_error(names::DNS1123_SUBDOMAIN_MAX));
    }
    if !text.split('.').all(sound) {
        problems.push(names::regex_error(WORDS, PATTERN, &["example.com"]));
    }
    problems
}

fn search_paths(searches: &At<'_>, errs: &mut ErrorList) {
    if searches.size() > 32 {
        errs.push(searches.invalid("must not have more than 32 search paths"));
    }
    if searches.strs().join(" ").len() > 2048 {
        errs.push(searches.invalid("must not have more than 2048 characters (including spaces) in the search list"));
    }
    for search in searches.items() {
        let text = search.str();
        if text != "." {
            search.each_of(is_search_path(text.strip_suffix('.').unwrap_or(text)), errs);
        }
    }
}
