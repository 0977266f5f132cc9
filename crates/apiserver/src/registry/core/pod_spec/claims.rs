//! The spec of a volume claim, in a claim and in a pod's template of one.

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use serde_json::json;

use crate::registry::check::{At, internal_form};
use crate::registry::selectors;

/// How a volume may be mounted.
pub(crate) const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// A claim's spec.
pub(crate) fn validate_spec(spec: &At<'_>, errs: &mut ErrorList) {
    access_modes(&spec.get("accessModes"), "at least 1 access mode is required", errs);
    if spec.get("selector").is_set() {
        selectors::label_selector(&spec.get("selector"), errs);
    }
    let storage = spec.get("resources").get("requests").key("storage").under(spec.get("resources").path.key("storage"));
    match storage.quantity() {
        None => errs.push(storage.required("")),
        Some(size) if size.sign() <= 0 => errs.push(storage.invalid("must be greater than zero")),
        Some(_) => {}
    }
    spec.get("storageClassName").name_if_set(names::is_dns1123_subdomain, errs);
    let mode = spec.get("volumeMode");
    if mode.is_set() {
        mode.one_of(&["Block", "Filesystem"], errs);
    }
    data_sources(spec, errs);
}

/// The list is not empty, its modes are known, and ReadWriteOncePod stands alone.
pub(crate) fn access_modes(modes: &At<'_>, missing: &str, errs: &mut ErrorList) {
    if modes.size() == 0 {
        errs.push(modes.required(missing));
    }
    for mode in modes.items() {
        mode.under(modes.path.clone()).one_of(&ACCESS_MODES, errs);
    }
    let distinct: BTreeSet<&str> = modes.strs().into_iter().collect();
    if distinct.contains("ReadWriteOncePod") && distinct.len() > 1 {
        errs.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

fn data_sources(spec: &At<'_>, errs: &mut ErrorList) {
    let (source, reference) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    for at in [&source, &reference] {
        if at.is_set() {
            data_source(at, errs);
        }
    }
    let same = |field| source.get(field).str() == reference.get(field).str();
    if source.is_set() && reference.is_set() && !["apiGroup", "kind", "name"].into_iter().all(same) {
        errs.push(Error::invalid(&spec.path, internal_form(&json!({})), "must match dataSourceRef"));
    }
}

fn data_source(source: &At<'_>, errs: &mut ErrorList) {
    source.get("name").require_str("", errs);
    source.get("kind").require_str("", errs);
    let (group, kind) = (source.get("apiGroup"), source.get("kind"));
    if group.is_empty() && !kind.is_empty() && kind.str() != "PersistentVolumeClaim" {
        errs.push(Error::invalid(&source.path, kind.str(), "must be 'PersistentVolumeClaim' when referencing the default apiGroup"));
    }
}
