//! Probes, lifecycle hooks and their handlers.

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;

use crate::registry::check::At;

/// A container's hooks and probes.
pub(crate) fn validate_all(container: &At<'_>, grace_period: i64, errs: &mut ErrorList) {
    for hook in ["postStart", "preStop"] {
        let hook = container.get("lifecycle").get(hook);
        if hook.is_set() {
            handler(&hook, grace_period, errs);
        }
    }
    let (liveness, readiness) = (container.get("livenessProbe"), container.get("readinessProbe"));
    probe(&liveness, grace_period, errs);
    once(&liveness, errs);
    probe(&readiness, grace_period, errs);
    let grace = readiness.get("terminationGracePeriodSeconds");
    if grace.is_set() {
        errs.push(grace.invalid("must not be set for readinessProbes"));
    }
    let startup = container.get("startupProbe");
    probe(&startup, grace_period, errs);
    once(&startup, errs);
}

/// One success must be enough for liveness and startup.
fn once(probe: &At<'_>, errs: &mut ErrorList) {
    let threshold = probe.get("successThreshold");
    if probe.is_set() && threshold.int() != Some(1) {
        errs.push(Error::invalid(&threshold.path, threshold.int().unwrap_or(0), "must be 1"));
    }
}

fn probe(probe: &At<'_>, grace_period: i64, errs: &mut ErrorList) {
    if !probe.is_set() {
        return;
    }
    handler(probe, grace_period, errs);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        probe.get(field).non_negative(errs);
    }
    let grace = probe.get("terminationGracePeriodSeconds");
    if grace.int().is_some_and(|n| n <= 0) {
        errs.push(grace.invalid("must be greater than 0"));
    }
}

type Check = fn(&At<'_>, i64, &mut ErrorList);

/// Handlers in the order they are looked for; the first one found is checked, a further one is forbidden.
const HANDLERS: [(&str, Check); 5] = [("exec", exec), ("httpGet", http_get), ("tcpSocket", tcp_socket), ("grpc", grpc), ("sleep", sleep)];

fn handler(parent: &At<'_>, grace_period: i64, errs: &mut ErrorList) {
    let mut found = false;
    for (name, check) in HANDLERS {
        let action = parent.get(name);
        if !action.is_set() {
            continue;
        }
        if found {
            errs.push(action.forbidden("may not specify more than 1 handler type"));
        } else {
            check(&action, grace_period, errs);
        }
        found = true;
    }
    if !found {
        errs.push(parent.required("must specify a handler type"));
    }
}

fn exec(action: &At<'_>, _grace: i64, errs: &mut ErrorList) {
    if action.get("command").size() == 0 {
        errs.push(action.get("command").required(""));
    }
}

fn http_get(action: &At<'_>, _grace: i64, errs: &mut ErrorList) {
    action.get("path").require_str("", errs);
    action.get("port").port_or_name(errs);
    action.get("scheme").one_of(&["HTTP", "HTTPS"], errs);
    for header in action.get("httpHeaders").items() {
        header.under(action.get("httpHeaders").path).get("name").name(names::is_http_header_name, errs);
    }
}

fn tcp_socket(action: &At<'_>, _grace: i64, errs: &mut ErrorList) {
    action.get("port").port_or_name(errs);
}

fn grpc(action: &At<'_>, _grace: i64, errs: &mut ErrorList) {
    action.get("port").port_number(errs);
}

fn sleep(action: &At<'_>, grace: i64, errs: &mut ErrorList) {
    let seconds = action.get("seconds").int().unwrap_or(0);
    if seconds < 0 || seconds > grace {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errs.push(Error::invalid(&action.path, seconds, detail));
    }
}
