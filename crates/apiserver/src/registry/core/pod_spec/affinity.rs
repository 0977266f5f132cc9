//! Affinity and anti-affinity.

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;

use crate::registry::check::At;
use crate::registry::selectors;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// `affinity`.
pub(crate) fn validate(affinity: &At<'_>, errs: &mut ErrorList) {
    node(&affinity.get("nodeAffinity"), errs);
    for side in ["podAffinity", "podAntiAffinity"] {
        pods(&affinity.get(side), errs);
    }
}

fn node(affinity: &At<'_>, errs: &mut ErrorList) {
    let required = affinity.get(REQUIRED);
    if required.is_set() {
        selectors::node_selector(&required, errs);
    }
    for term in affinity.get(PREFERRED).items() {
        weight(&term.get("weight"), errs);
        selectors::node_selector_term(&term.get("preference"), errs);
    }
}

fn pods(affinity: &At<'_>, errs: &mut ErrorList) {
    for term in affinity.get(REQUIRED).items() {
        pod_term(&term, errs);
    }
    for term in affinity.get(PREFERRED).items() {
        weight(&term.get("weight"), errs);
        pod_term(&term.get("podAffinityTerm"), errs);
    }
}

fn weight(weight: &At<'_>, errs: &mut ErrorList) {
    let value = weight.int().unwrap_or(0);
    if !(1..=100).contains(&value) {
        errs.push(Error::invalid(&weight.path, value, "must be in the range 1-100"));
    }
}

fn pod_term(term: &At<'_>, errs: &mut ErrorList) {
    selectors::label_selector(&term.get("labelSelector"), errs);
    selectors::label_selector(&term.get("namespaceSelector"), errs);
    for namespace in term.get("namespaces").items() {
        namespace.under(term.path.child("namespace")).name(names::is_dns1123_label, errs);
    }
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        for key in term.get(field).items() {
            key.name(names::is_qualified_name, errs);
        }
    }
    let key = term.get("topologyKey");
    key.require_str("can not be empty", errs);
    key.name(names::is_qualified_name, errs);
}
