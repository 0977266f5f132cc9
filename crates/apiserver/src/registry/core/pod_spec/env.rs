//! Environment variables and where their values come from.

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;

use super::downward::{self, ENV_FIELDS};
use crate::registry::check::At;

/// `env`.
pub(crate) fn variables(list: &At<'_>, errs: &mut ErrorList) {
    for variable in list.items() {
        variable.get("name").required_name(names::is_relaxed_env_var_name, errs);
        let from = variable.get("valueFrom");
        if from.is_set() {
            value_from(&from, !variable.get("value").is_empty(), errs);
        }
    }
}

fn value_from(from: &At<'_>, has_value: bool, errs: &mut ErrorList) {
    type Check = fn(&At<'_>, &mut ErrorList);
    let sources: [(&str, Check); 5] = [
        ("fieldRef", |at, errs| downward::field_ref(at, &ENV_FIELDS, errs)),
        ("resourceFieldRef", |at, errs| downward::resource_ref(at, false, errs)),
        ("configMapKeyRef", key_selector),
        ("secretKeyRef", key_selector),
        ("fileKeyRef", file_key),
    ];
    let mut count = 0;
    for (name, check) in sources {
        let source = from.get(name);
        if source.is_set() {
            count += 1;
            check(&source, errs);
        }
    }
    let problem = match count {
        0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errs.push(Error::invalid(&from.path, "", problem));
}

fn key_selector(selector: &At<'_>, errs: &mut ErrorList) {
    selector.get("name").require_str("", errs);
    selector.get("key").required_name(names::is_config_map_key, errs);
}

fn file_key(selector: &At<'_>, errs: &mut ErrorList) {
    selector.get("key").required_name(names::is_relaxed_env_var_name, errs);
    selector.get("volumeName").required_name(names::is_dns1123_label, errs);
    selector.get("path").require_str("", errs);
}

/// `envFrom`.
pub(crate) fn sources(list: &At<'_>, errs: &mut ErrorList) {
    for source in list.items() {
        source.get("prefix").name_if_set(names::is_relaxed_env_var_name, errs);
        let mut count = 0;
        for name in ["configMapRef", "secretRef"] {
            let reference = source.get(name);
            if reference.is_set() {
                count += 1;
                reference.get("name").required_name(names::is_dns1123_subdomain, errs);
            }
        }
        let problem = match count {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errs.push(Error::invalid(&list.path, "", problem));
    }
}
