//! CSI drivers, nodes and capacities.

use std::collections::BTreeSet;

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
    names,
};
use serde_json::{Value, json};

use crate::{
    registry::{
        Generation, Strategy,
        check::{At, internal_form},
        core::pod_spec::volume_sources::driver_name,
        edit::{default_to, ensure_object, is_zero},
        selectors,
        small::Small,
    },
    request::RequestContext,
};

/// The rules of CSI drivers.
pub(crate) const DRIVER: Small = Small {
    default: default_driver,
    validate: validate_driver,
    validate_update: fixed_driver,
    warnings: driver_warnings,
    generation: Generation::Later(&[
        "spec.tokenRequests",
        "spec.requiresRepublish",
        "spec.seLinuxMount",
        "spec.nodeAllocatableUpdatePeriodSeconds",
    ]),
    unconditional_update: false,
    columns: &[
        ("AttachRequired", "boolean", "Whether volumes are attached before they are mounted.", |obj| flag(obj, "attachRequired")),
        ("PodInfoOnMount", "boolean", "Whether the driver is told about the pod.", |obj| flag(obj, "podInfoOnMount")),
        ("StorageCapacity", "boolean", "Whether the driver reports capacity.", |obj| flag(obj, "storageCapacity")),
        ("TokenRequests", "string", "Audiences of the tokens it gets.", audiences),
        ("RequiresRepublish", "boolean", "Whether volumes are mounted again and again.", |obj| flag(obj, "requiresRepublish")),
        ("Modes", "string", "What its volumes are.", |obj| At::field(obj, "spec").get("volumeLifecycleModes").strs().join(",").into()),
    ],
    ..Small::PLAIN
};

/// The rules of CSI nodes.
pub(crate) const NODE: Small = Small {
    default: default_node,
    validate: validate_node,
    validate_update: fixed_drivers,
    unconditional_update: false,
    columns: &[("Drivers", "integer", "Number of drivers.", |obj| At::field(obj, "spec").get("drivers").size().into())],
    ..Small::PLAIN
};

fn flag(obj: &Object, name: &str) -> Value {
    At::field(obj, "spec").get(name).is_true().into()
}

fn default_driver(obj: &mut Object) {
    let spec = ensure_object(&mut obj.0, "spec");
    default_to(spec, "attachRequired", true);
    default_to(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    for off in ["podInfoOnMount", "requiresRepublish", "seLinuxMount", "storageCapacity"] {
        default_to(spec, off, false);
    }
    if spec.get("volumeLifecycleModes").is_none_or(is_zero) {
        spec.insert("volumeLifecycleModes".into(), json!(["Persistent"]));
    }
}

fn validate_driver(obj: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    let spec = At::field(obj, "spec");
    for mode in spec.get("volumeLifecycleModes").items() {
        mode.under(spec.get("volumeLifecycleModes").path).one_of(&["Ephemeral", "Persistent"], &mut errs);
    }
    spec.get("fsGroupPolicy").one_of(&["File", "None", "ReadWriteOnceWithFSType"], &mut errs);
    let mut seen = BTreeSet::new();
    for request in spec.get("tokenRequests").items() {
        let (audience, seconds) = (request.get("audience"), request.get("expirationSeconds"));
        if !seen.insert(audience.str()) {
            errs.push(audience.duplicate());
        }
        if seconds.int().is_some_and(|n| n < 600) {
            errs.push(seconds.invalid("may not specify a duration less than 10 minutes"));
        }
    }
    errs
}

fn fixed_driver(obj: &Object, old: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    for field in ["attachRequired", "volumeLifecycleModes"] {
        At::field(obj, "spec").get(field).immutable(&At::field(old, "spec").get(field), &mut errs);
    }
    errs
}

fn driver_warnings(obj: &Object) -> Vec<String> {
    let spec = At::field(obj, "spec");
    let unsaid = spec.get("tokenRequests").size() > 0 && !spec.get("serviceAccountTokenInSecrets").is_set();
    let text = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
        possible logging of tokens in volume attributes";
    unsaid.then(|| text.to_owned()).into_iter().collect()
}

fn audiences(obj: &Object) -> Value {
    let requests = At::field(obj, "spec").get("tokenRequests").items();
    let all: Vec<&str> = requests.iter().map(|request| request.get("audience").str()).collect();
    if all.is_empty() { "<unset>".into() } else { all.join(",").into() }
}

fn default_node(obj: &mut Object) {
    let spec = ensure_object(&mut obj.0, "spec");
    spec.entry("drivers").or_insert(Value::Null);
}

fn validate_node(obj: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    let mut seen = BTreeSet::new();
    for driver in At::field(obj, "spec").get("drivers").items() {
        let (name, id) = (driver.get("name"), driver.get("nodeID"));
        driver_name(&name, &mut errs);
        id.require_str("", &mut errs);
        driver.get("allocatable").get("count").non_negative(&mut errs);
        if !seen.insert(name.str()) {
            errs.push(name.duplicate());
        }
        topology_keys(&driver, &mut errs);
    }
    errs
}

/// A node's driver may come and go, but not turn into another; how many volumes it takes may change.
fn fixed_drivers(obj: &Object, old: &Object) -> ErrorList {
    let (drivers, before) = (At::field(obj, "spec").get("drivers").items(), At::field(old, "spec").get("drivers").items());
    let is_other = |driver: &At<'_>, was: &At<'_>| driver.get("name").str() == was.get("name").str() && fixed(driver) != fixed(was);
    let changed = drivers.iter().filter(|driver| before.iter().any(|was| is_other(driver, was)));
    changed.map(|driver| Error::invalid(&Path::new("CSINodeDriver"), internal_form(driver.value), "field is immutable")).collect()
}

fn fixed<'a>(driver: &At<'a>) -> Option<Vec<(&'a String, &'a Value)>> {
    driver.map().map(|driver| driver.iter().filter(|(key, _)| *key != "allocatable").collect())
}

/// Upstream reports keys on the driver.
fn topology_keys(driver: &At<'_>, errs: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for key in driver.get("topologyKeys").strs() {
        if key.is_empty() {
            errs.push(driver.required(""));
        }
        errs.extend(names::is_qualified_name(key).into_iter().map(|m| Error::invalid(&driver.path, key, m)));
        if !seen.insert(key) {
            errs.push(Error::duplicate(&driver.path, key));
        }
    }
}

/// The rules of storage capacities.
pub(crate) struct Capacity;

impl Strategy for Capacity {
    fn default(&self, obj: &mut Object) {
        for field in ["capacity", "maximumVolumeSize"] {
            if let Some(quantity) = At::field(obj, field).quantity() {
                obj.0.insert(field.into(), quantity.to_string().into());
            }
        }
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        At::field(obj, "storageClassName").name(names::is_dns1123_subdomain, &mut errs);
        At::field(obj, "capacity").non_negative_quantity(&mut errs);
        if errs.is_empty() {
            At::field(obj, "maximumVolumeSize").non_negative_quantity(&mut errs);
        }
        selectors::label_selector(&At::field(obj, "nodeTopology"), &mut errs);
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = self.validate(ctx, obj);
        for field in ["nodeTopology", "storageClassName"] {
            At::field(obj, field).immutable(&At::field(old, field), &mut errs);
        }
        errs
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_gets_its_defaults_and_warns_of_tokens() {
        let mut obj = Object::from_value(json!({"metadata": {"name": "d"}, "spec": {"tokenRequests": [{"audience": "x"}]}})).unwrap();
        default_driver(&mut obj);
        assert_eq!(obj.0["spec"]["volumeLifecycleModes"], json!(["Persistent"]));
        assert_eq!(obj.0["spec"]["attachRequired"], true);
        assert!(validate_driver(&obj).is_empty());
        assert_eq!((driver_warnings(&obj).len(), audiences(&obj)), (1, json!("x")));
    }

    #[test]
    fn node_drivers_have_ids_and_keys() {
        let spec = json!({"drivers": [{"name": "a", "nodeID": ""}, {"name": "a", "nodeID": "n", "topologyKeys": ["k", "k"]}]});
        let errs = validate_node(&Object::from_value(json!({"spec": spec})).unwrap());
        assert_eq!(
            errs.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "spec.drivers[0].nodeID: Required value",
                r#"spec.drivers[1].name: Duplicate value: "a""#,
                r#"spec.drivers[1]: Duplicate value: "k""#
            ]
        );
    }
}
