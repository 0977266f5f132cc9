//! Device classes, claims, templates and slices. Selector expressions are compiled where they are evaluated, not here.

use std::collections::BTreeSet;

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
    names,
};
use serde_json::{Value, json};

use crate::registry::{
    check::{At, internal_form},
    edit::{Fields, default_to, default_zero, each, ensure_object, object, text},
    small::Small,
    strategy::SPEC,
};

/// The rules of device classes.
pub(crate) const CLASS: Small = Small { generation: SPEC, ..Small::PLAIN };

/// The rules of claims.
pub(crate) const CLAIM: Small = Small {
    default: |obj| {
        claim_defaults(ensure_object(&mut obj.0, "spec"));
        default_to(&mut obj.0, "status", json!({}));
    },
    validate: |obj| claim(&At::field(obj, "spec")),
    validate_update: |obj, old| fixed_spec(obj, old),
    kept_by_status: &["metadata"],
    columns: &[("State", "string", "Whether it is allocated and reserved.", state)],
    ..Small::PLAIN
};

/// The rules of claim templates.
pub(crate) const TEMPLATE: Small = Small {
    default: |obj| claim_defaults(ensure_object(ensure_object(&mut obj.0, "spec"), "spec")),
    validate: |obj| claim(&At::field(obj, "spec").get("spec")),
    validate_update: |obj, old| fixed_spec(obj, old),
    ..Small::PLAIN
};

/// The rules of slices.
pub(crate) const SLICE: Small = Small {
    validate: slice,
    generation: SPEC,
    columns: &[
        ("Node", "string", "The node its devices are on.", |obj| obj.str_at("/spec/nodeName").into()),
        ("Driver", "string", "The driver of its devices.", |obj| obj.str_at("/spec/driver").into()),
        ("Pool", "string", "The pool it belongs to.", |obj| obj.str_at("/spec/pool/name").into()),
    ],
    ..Small::PLAIN
};

fn claim_defaults(spec: &mut Fields) {
    let Some(devices) = object(spec, "devices") else { return };
    for request in each(devices, "requests") {
        if let Some(exactly) = object(request, "exactly") {
            amount(exactly);
        }
        each(request, "firstAvailable").for_each(amount);
    }
}

/// One device, unless all are asked for.
fn amount(request: &mut Fields) {
    default_zero(request, "allocationMode", "ExactCount");
    if text(request, "allocationMode") == "ExactCount" {
        default_zero(request, "count", 1);
    }
    each(request, "tolerations").for_each(|toleration| default_zero(toleration, "operator", "Equal"));
}

fn state(obj: &Object) -> Value {
    let status = At::field(obj, "status");
    let mut words = Vec::new();
    if obj.deletion_timestamp().is_some() {
        words.push("deleted");
    }
    if !status.get("allocation").is_set() {
        words.push("pending");
    } else if status.get("reservedFor").size() > 0 {
        words.extend(["allocated", "reserved"]);
    } else {
        words.push("allocated");
    }
    words.join(",").into()
}

fn fixed_spec(obj: &Object, old: &Object) -> ErrorList {
    let (spec, was) = (At::field(obj, "spec"), At::field(old, "spec"));
    if spec.value == was.value {
        return ErrorList::new();
    }
    vec![Error::invalid(&spec.path, internal_form(spec.value), "field is immutable")]
}

fn claim(spec: &At<'_>) -> ErrorList {
    const ONE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    let mut errs = ErrorList::new();
    let devices = spec.get("devices");
    let mut seen = BTreeSet::new();
    for request in devices.get("requests").items() {
        let (name, exactly, alternatives) = (request.get("name"), request.get("exactly"), request.get("firstAvailable"));
        name.required_name(names::is_dns1123_label, &mut errs);
        match (exactly.is_set(), alternatives.size() > 0) {
            (false, false) => errs.push(request.required(ONE)),
            (true, true) => errs.push(Error::invalid(&request.path, Value::Null, format!("{ONE}, but multiple fields are set"))),
            (true, false) => device_request(&exactly, &mut errs),
            (false, true) => alternatives.items().iter().for_each(|at| device_request(at, &mut errs)),
        }
        if !seen.insert(name.str()) {
            errs.push(Error::duplicate(&request.path, name.str()));
        }
    }
    for constraint in devices.get("constraints").items() {
        self::constraint(&constraint, &seen, &mut errs);
    }
    errs
}

fn device_request(request: &At<'_>, errs: &mut ErrorList) {
    request.get("deviceClassName").required_name(names::is_dns1123_subdomain, errs);
    let (mode, count) = (request.get("allocationMode"), request.get("count"));
    match mode.str() {
        "ExactCount" if count.int().unwrap_or(0) <= 0 => errs.push(count.invalid("must be greater than zero")),
        "ExactCount" => {}
        "All" if count.int().unwrap_or(0) != 0 => {
            errs.push(count.invalid(format!("must not be specified when allocationMode is '{}'", mode.str())))
        }
        "All" => {}
        _ => errs.push(mode.not_supported(&["All", "ExactCount"])),
    }
}

fn constraint(constraint: &At<'_>, requests: &BTreeSet<&str>, errs: &mut ErrorList) {
    for request in constraint.get("requests").items() {
        let parent = request.str().split('/').next().unwrap_or_default();
        if !requests.contains(parent) {
            errs.push(
                request.invalid("must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"),
            );
        }
    }
    let attribute = constraint.get("matchAttribute");
    if attribute.is_set() && !attribute.str().contains('/') {
        errs.push(attribute.invalid("a fully qualified name must be a domain and a name separated by a slash"));
    }
}

const PLACES: [&str; 4] = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];

fn slice(obj: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    let spec = At::field(obj, "spec");
    spec.get("driver").required_name(names::is_dns1123_subdomain, &mut errs);
    let pool = spec.get("pool");
    pool.get("name").require_str("", &mut errs);
    let (slices, generation) = (pool.get("resourceSliceCount"), pool.get("generation"));
    if slices.int().unwrap_or(0) <= 0 {
        errs.push(Error::invalid(&slices.path, slices.int().unwrap_or(0), "must be greater than zero"));
    }
    if generation.int().is_some_and(|n| n < 0) {
        errs.push(generation.invalid("must be greater than or equal to zero"));
    }
    place(&spec, &mut errs);
    devices(&spec.get("devices"), &mut errs);
    errs
}

fn place(spec: &At<'_>, errs: &mut ErrorList) {
    let listed = |fields: &[&str]| fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ");
    let one = format!("exactly one of {} is required", listed(&PLACES));
    let given: Vec<&str> = PLACES.into_iter().filter(|field| !crate::registry::edit::is_zero(spec.get(field).value)).collect();
    match given.len() {
        0 => errs.push(spec.required(&one)),
        1 => {}
        _ => errs.push(Error::invalid(&spec.path, format!("{{{}}}", listed(&given)), format!("{one}, but multiple fields are set"))),
    }
}

fn devices(list: &At<'_>, errs: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    let mut repeated: Vec<(Path, &str)> = Vec::new();
    for device in list.items() {
        let name = device.get("name");
        name.required_name(names::is_dns1123_label, errs);
        if !seen.insert(name.str()) {
            repeated.push((device.path.clone(), name.str()));
        }
    }
    errs.extend(repeated.into_iter().map(|(path, name)| Error::duplicate(&path, name)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_asks_for_one_device_in_one_way() {
        let mut obj = Object::from_value(json!({"spec": {"devices": {"requests": [
            {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c"}, {"name": "b", "deviceClassName": "d", "allocationMode": "All"}]},
            {"name": "s"}]}}})).unwrap();
        (CLAIM.default)(&mut obj);
        assert_eq!(obj.0["spec"]["devices"]["requests"][0]["firstAvailable"][0]["count"], 1);
        let texts: Vec<String> = (CLAIM.validate)(&obj).iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["spec.devices.requests[1]: Required value: exactly one of `exactly` or `firstAvailable` is required"]);
    }

    #[test]
    fn a_slice_is_in_one_place() {
        let spec = json!({"driver": "d.example.com", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n", "allNodes": true});
        let errs = slice(&Object::from_value(json!({"spec": spec})).unwrap());
        assert!(errs[0].to_string().starts_with(r#"spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`"#));
    }
}
