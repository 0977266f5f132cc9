//! Priority classes.

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    registry::{
        Column, Generation, Strategy,
        check::At,
        edit::default_to,
        print::{age, count},
    },
    request::RequestContext,
};

/// The rules of priority classes.
pub(crate) struct PriorityClass;

/// Highest priority users may give.
const HIGHEST_USER: i64 = 1_000_000_000;
/// The two classes the system brings along.
const SYSTEM: [(&str, i64); 2] = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

#[async_trait]
impl Strategy for PriorityClass {
    fn default(&self, obj: &mut Object) {
        default_to(&mut obj.0, "preemptionPolicy", "PreemptLowerPriority");
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let (name, value) = (obj.name(), At::field(obj, "value"));
        let number = value.int().unwrap_or(0);
        if name.starts_with("system-") {
            if let Err(why) = is_system(obj, number) {
                let text = format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}");
                errs.push(Error::forbidden(&Path::new("metadata").child("name"), text));
            }
        } else if number > HIGHEST_USER {
            errs.push(value.forbidden(format!("maximum allowed value of a user defined priority is {HIGHEST_USER}")));
        }
        At::field(obj, "preemptionPolicy").one_of_if_set(&["PreemptLowerPriority", "Never"], &mut errs);
        errs
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let (value, was) = (At::field(obj, "value"), At::field(old, "value"));
        if value.int().unwrap_or(0) != was.int().unwrap_or(0) {
            errs.push(value.forbidden("may not be changed in an update."));
        }
        At::field(obj, "preemptionPolicy").immutable(&At::field(old, "preemptionPolicy"), &mut errs);
        errs
    }

    fn generation(&self) -> Generation {
        Generation::Fields(&[])
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the priority class."),
            Column::new("Value", "integer", "The priority its pods get."),
            Column::new("Global-Default", "boolean", "Whether pods without a class get it."),
            Column::new("Age", "string", "Time since creation."),
            Column::new("PreemptionPolicy", "string", "Whether its pods push others off nodes."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let default = At::field(obj, "globalDefault").is_true();
        vec![obj.name().into(), count(&At::field(obj, "value")), default.into(), age(obj, now), obj.str_at("/preemptionPolicy").into()]
    }
}

/// A class with a system name is one of the known ones, with its value.
fn is_system(obj: &Object, value: i64) -> Result<(), String> {
    let name = obj.name();
    match SYSTEM.iter().find(|(known, _)| *known == name) {
        None => Err(format!("{name} is not a known system priority class")),
        Some((_, wanted)) if *wanted != value => Err(format!("value of {name} PriorityClass must be {wanted}")),
        Some(_) if At::field(obj, "globalDefault").is_true() => Err(format!("globalDefault of {name} must be false")),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn high_values_and_the_system_prefix_are_reserved() {
        let check = |name: &str, value: i64| {
            let obj = Object::from_value(json!({"metadata": {"name": name}, "value": value})).unwrap();
            PriorityClass.validate(&RequestContext::for_tests(), &obj).first().map(ToString::to_string).unwrap_or_default()
        };
        assert_eq!(check("x", 1_000_000_001), "value: Forbidden: maximum allowed value of a user defined priority is 1000000000");
        assert_eq!(
            check("system-x", 1),
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved \
            for system use only. error: system-x is not a known system priority class"
        );
        assert_eq!(check("system-node-critical", 2_000_001_000), "");
    }
}
