//! Tolerations, spread constraints, gates and node choice.

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;

use crate::registry::check::At;
use crate::registry::selectors;

/// Effects of taints.
pub(crate) const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// `tolerations`.
pub(crate) fn tolerations(list: &At<'_>, errs: &mut ErrorList) {
    for toleration in list.items() {
        let (key, operator) = (toleration.get("key"), toleration.get("operator"));
        let (value, effect) = (toleration.get("value"), toleration.get("effect"));
        key.name_if_set(names::is_qualified_name, errs);
        if key.is_empty() && operator.str() != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errs.push(Error::invalid(&operator.path, operator.str(), detail));
        }
        if toleration.get("tolerationSeconds").is_set() && effect.str() != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errs.push(Error::invalid(&effect.path, effect.str(), detail));
        }
        match operator.str() {
            "" | "Equal" => {
                let messages = names::is_valid_label_value(value.str());
                if !messages.is_empty() {
                    errs.push(Error::invalid(&operator.path, value.str(), messages.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                errs.push(Error::invalid(&operator.path, value.str(), "value must be empty when `operator` is 'Exists'"));
            }
            "Exists" => {}
            _ => errs.push(operator.not_supported(&["Equal", "Exists"])),
        }
        effect.one_of_if_set(&TAINT_EFFECTS, errs);
    }
}

/// `topologySpreadConstraints`.
pub(crate) fn spread_constraints(list: &At<'_>, errs: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for constraint in list.items() {
        let (skew, key) = (constraint.get("maxSkew"), constraint.get("topologyKey"));
        if skew.int().unwrap_or(0) <= 0 {
            errs.push(Error::invalid(&skew.path, skew.int().unwrap_or(0), "must be greater than zero"));
        }
        if key.require_str("can not be empty", errs) {
            key.name(names::is_qualified_name, errs);
        }
        let action = constraint.get("whenUnsatisfiable");
        action.one_of(&["DoNotSchedule", "ScheduleAnyway"], errs);
        let pair = format!("{{{}, {}}}", key.str(), action.str());
        if !seen.insert(pair.clone()) {
            let at = constraint.path.child("{topologyKey, whenUnsatisfiable}");
            errs.push(Error::duplicate(&at, pair));
        }
        let domains = constraint.get("minDomains");
        if domains.int().is_some_and(|n| n <= 0) {
            errs.push(domains.invalid("must be greater than zero"));
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            constraint.get(policy).one_of_if_set(&["Honor", "Ignore"], errs);
        }
        selectors::label_selector(&constraint.get("labelSelector"), errs);
    }
}

/// `schedulingGates`.
pub(crate) fn gates(list: &At<'_>, errs: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for gate in list.items() {
        let name = gate.get("name");
        name.under(gate.path.clone()).name(names::is_qualified_name, errs);
        if !seen.insert(name.str()) {
            errs.push(Error::duplicate(&gate.path, name.str()));
        }
    }
}

/// `readinessGates`.
pub(crate) fn readiness_gates(list: &At<'_>, errs: &mut ErrorList) {
    for gate in list.items() {
        gate.get("conditionType").name(names::is_qualified_name, errs);
    }
}
