//! The fields behind `/scale`: they must be what a Scale can show.

use apimachinery::{
    field::{Error, ErrorList, Path},
    go,
};
use serde_json::Value;

use crate::registry::ScalePaths;

/// Where replicas and selector lie, as the definition writes it: `.spec.replicas`.
#[derive(Clone)]
pub(super) struct Paths {
    spec: String,
    status: String,
    selector: Option<String>,
}

impl Paths {
    /// From `subresources.scale`.
    pub(super) fn new(scale: &Value) -> Self {
        let text = |name: &str| scale.get(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            spec: text("specReplicasPath").unwrap_or_default(),
            status: text("statusReplicasPath").unwrap_or_default(),
            selector: text("labelSelectorPath").filter(|path| !path.is_empty()),
        }
    }

    /// As the subresource takes them.
    pub(super) fn pointers(&self) -> ScalePaths {
        let pointer = |path: &str| path.replace('.', "/");
        ScalePaths {
            spec_replicas: pointer(&self.spec),
            status_replicas: pointer(&self.status),
            selector: self.selector.as_deref().map(pointer),
        }
    }

    pub(super) fn validate_spec(&self, value: &Value) -> ErrorList {
        replicas(value, &self.spec)
    }

    pub(super) fn validate_status(&self, value: &Value) -> ErrorList {
        let mut errors = replicas(value, &self.status);
        if let Some(path) = &self.selector
            && let Err(why) = find(value, path, "string", Value::is_string)
        {
            errors.push(Error::invalid(&Path::new(path), "", why));
        }
        errors
    }
}

fn replicas(value: &Value, path: &str) -> ErrorList {
    let at = Path::new(path);
    let complain = |number: i64, why: String| vec![Error::invalid(&at, number, why)];
    match find(value, path, "int64", Value::is_i64) {
        Err(why) => complain(0, why),
        Ok(found) => match found.and_then(Value::as_i64).unwrap_or_default() {
            number if number < 0 => complain(number, "should be a non-negative integer".into()),
            number if number > i64::from(i32::MAX) => complain(number, format!("should be less than or equal to {}", i32::MAX)),
            _ => ErrorList::new(),
        },
    }
}

/// The value at a dotted path, if there is one. Errors: it, or what is on the way, is of another type.
fn find<'a>(value: &'a Value, path: &str, wanted: &str, fits: fn(&Value) -> bool) -> Result<Option<&'a Value>, String> {
    let mut at = value;
    let mut seen = String::new();
    for name in path.trim_start_matches('.').split('.') {
        let Value::Object(members) = at else { return Err(mismatch(&seen, at, "map[string]interface{}")) };
        seen = format!("{seen}.{name}");
        match members.get(name) {
            Some(member) => at = member,
            None => return Ok(None),
        }
    }
    if fits(at) { Ok(Some(at)) } else { Err(mismatch(&seen, at, wanted)) }
}

fn mismatch(path: &str, value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    format!("{path} accessor error: {} is of the type {found}, expected {wanted}", go::print(value))
}
