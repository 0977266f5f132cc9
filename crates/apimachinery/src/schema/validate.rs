//! Validation of custom resources by their OpenAPI schema, with the errors upstream's validator (`kube-openapi`) gives.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use crate::field::{Error, ErrorKind, ErrorList, Path};
use crate::go;

mod format;

/// A schema ready to validate with: patterns are compiled once.
#[derive(Debug, Clone, Default)]
pub struct Validator {
    types: Vec<&'static str>,
    nullable: bool,
    format: String,
    allowed: Vec<Value>,
    number: NumberRules,
    min_length: Option<usize>,
    max_length: Option<usize>,
    pattern: Option<Regex>,
    min_items: Option<usize>,
    max_items: Option<usize>,
    unique: bool,
    items: Option<Box<Validator>>,
    min_properties: Option<usize>,
    max_properties: Option<usize>,
    properties: BTreeMap<String, Validator>,
    additional: Option<Box<Validator>>,
    required: Vec<String>,
    all_of: Vec<Validator>,
    any_of: Vec<Validator>,
    one_of: Vec<Validator>,
    not: Option<Box<Validator>>,
}

#[derive(Debug, Clone, Default)]
struct NumberRules {
    minimum: Option<Value>,
    exclusive_minimum: bool,
    maximum: Option<Value>,
    exclusive_maximum: bool,
    multiple_of: Option<Value>,
}

impl Validator {
    /// Reads an OpenAPI schema. Patterns that do not compile are left out; definitions with such are refused before.
    pub fn new(schema: &Value) -> Self {
        let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
        let count = |name: &str| schema.get(name).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
        let one = |name: &str| schema.get(name).filter(|inner| inner.is_object()).map(|inner| Box::new(Self::new(inner)));
        let list = |name: &str| schema.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let many = |name: &str| list(name).iter().map(Self::new).collect();
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        Self {
            types: if flag("x-kubernetes-int-or-string") {
                vec!["integer", "string"]
            } else {
                known_type(text("type")).into_iter().collect()
            },
            nullable: flag("nullable"),
            format: text("format").into(),
            allowed: list("enum").to_vec(),
            number: NumberRules {
                minimum: schema.get("minimum").cloned(),
                exclusive_minimum: flag("exclusiveMinimum"),
                maximum: schema.get("maximum").cloned(),
                exclusive_maximum: flag("exclusiveMaximum"),
                multiple_of: schema.get("multipleOf").cloned(),
            },
            min_length: count("minLength"),
            max_length: count("maxLength"),
            pattern: schema.get("pattern").and_then(Value::as_str).and_then(|pattern| Regex::new(pattern).ok()),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            unique: flag("uniqueItems"),
            items: one("items"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            properties: properties.map(|(name, property)| (name.clone(), Self::new(property))).collect(),
            additional: one("additionalProperties"),
            required: list("required").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            all_of: many("allOf"),
            any_of: many("anyOf"),
            one_of: many("oneOf"),
            not: one("not"),
        }
    }

    /// All that is wrong with a value at `path`. Type and metadata of a resource are not in its schema and checked elsewhere.
    pub fn validate(&self, value: &Value, path: &Path) -> ErrorList {
        let mut errors = Vec::new();
        self.check(value, path, &mut errors);
        errors
    }

    fn check(&self, value: &Value, path: &Path, errors: &mut ErrorList) {
        self.check_type(value, path, errors);
        if value.is_null() {
            return;
        }
        self.check_combinations(value, path, errors);
        match value {
            Value::String(text) => self.check_text(text, path, errors),
            Value::Number(_) => self.check_number(value, path, errors),
            Value::Array(items) => self.check_items(items, path, errors),
            _ => {}
        }
        if !self.allowed.is_empty() && !self.allowed.contains(value) {
            let allowed: Vec<String> = self.allowed.iter().map(go::print).collect();
            errors.push(Error::not_supported(path, value.clone(), &allowed));
        }
        if let Value::Object(members) = value {
            self.check_members(members, path, errors);
        }
    }

    fn check_type(&self, value: &Value, path: &Path, errors: &mut ErrorList) {
        let found = type_of(value);
        let fits = self.types.is_empty()
            || (value.is_null() && self.nullable)
            || self.types.contains(&found)
            || (found == "integer" && self.types.contains(&"number"));
        if !fits {
            let detail = format!("{} in body must be of type {}: {}", path.as_str(), self.types.join(","), go::quote(found));
            errors.push(Error::type_invalid(path, found, detail));
            if found == "number" && self.types == ["integer"] {
                errors.push(general(format!("Checked value must be of type integer (default format) in {}", path.as_str())));
            }
        }
    }

    fn check_combinations(&self, value: &Value, path: &Path, errors: &mut ErrorList) {
        let shown = go::quote(path.as_str());
        let results = |schemas: &[Self]| -> Vec<ErrorList> { schemas.iter().map(|schema| schema.validate(value, path)).collect() };
        if !self.any_of.is_empty() {
            let results = results(&self.any_of);
            if !results.iter().any(Vec::is_empty) {
                errors.push(general(format!("{shown} must validate at least one schema (anyOf)")));
                errors.extend(results.into_iter().next().unwrap_or_default());
            }
        }
        if !self.one_of.is_empty() {
            let results = results(&self.one_of);
            let valid = results.iter().filter(|result| result.is_empty()).count();
            let words = format!("{shown} must validate one and only one schema (oneOf).");
            match valid {
                1 => {}
                0 => {
                    errors.push(general(format!("{words} Found none valid")));
                    errors.extend(results.into_iter().next().unwrap_or_default());
                }
                many => errors.push(general(format!("{words} Found {many} valid alternatives"))),
            }
        }
        if !self.all_of.is_empty() {
            let results = results(&self.all_of);
            if !results.iter().all(Vec::is_empty) {
                let none = if results.iter().any(Vec::is_empty) { "" } else { ". None validated" };
                errors.push(general(format!("{shown} must validate all the schemas (allOf){none}")));
                errors.extend(results.into_iter().flatten());
            }
        }
        if self.not.as_ref().is_some_and(|not| not.validate(value, path).is_empty()) {
            errors.push(general(format!("{shown} must not validate the schema (not)")));
        }
    }

    fn check_text(&self, text: &str, path: &Path, errors: &mut ErrorList) {
        let length = text.chars().count();
        if let Some(max) = self.max_length.filter(|max| length > *max) {
            errors.push(Error::too_long(path, text, max));
        }
        if let Some(min) = self.min_length.filter(|min| length < *min) {
            errors.push(Error::invalid(path, text, format!("{} in body should be at least {min} chars long", path.as_str())));
        }
        if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            errors.push(Error::invalid(path, text, format!("{} in body should match '{pattern}'", path.as_str())));
        }
        if !format::fits(&self.format, text) {
            let detail = format!("{} in body must be of type {}: {}", path.as_str(), self.format, go::quote(text));
            errors.push(Error::invalid(path, text, detail));
        }
    }

    fn check_number(&self, value: &Value, path: &Path, errors: &mut ErrorList) {
        let rules = &self.number;
        let number = value.as_f64().unwrap_or_default();
        let place = path.as_str();
        let mut complain = |detail: String| errors.push(Error::invalid(path, value.clone(), detail));
        if let Some(of) = rules.multiple_of.as_ref()
            && let Some(factor) = of.as_f64().filter(|factor| *factor > 0.0)
            && (number / factor).fract() != 0.0
        {
            complain(format!("{place} in body should be a multiple of {of}"));
        }
        if let Some(bound) = &rules.maximum {
            let limit = bound.as_f64().unwrap_or_default();
            if number > limit || (rules.exclusive_maximum && number == limit) {
                let or_equal = if rules.exclusive_maximum { "" } else { " or equal to" };
                complain(format!("{place} in body should be less than{or_equal} {bound}"));
            }
        }
        if let Some(bound) = &rules.minimum {
            let limit = bound.as_f64().unwrap_or_default();
            if number < limit || (rules.exclusive_minimum && number == limit) {
                let or_equal = if rules.exclusive_minimum { "" } else { " or equal to" };
                complain(format!("{place} in body should be greater than{or_equal} {bound}"));
            }
        }
        if !format::fits_integer(&self.format, value) {
            errors.push(general(format!("Checked value must be of type integer with format {} in {place}", self.format)));
        }
    }

    fn check_items(&self, items: &[Value], path: &Path, errors: &mut ErrorList) {
        if let Some(schema) = &self.items {
            for (index, item) in items.iter().enumerate() {
                schema.check(item, &path.index(index), errors);
            }
        }
        if let Some(min) = self.min_items.filter(|min| items.len() < *min) {
            let detail = format!("{} in body should have at least {min} items", path.as_str());
            errors.push(Error::invalid(path, items.len(), detail));
        }
        if let Some(max) = self.max_items.filter(|max| items.len() > *max) {
            errors.push(Error::too_many(path, items.len(), max));
        }
        if self.unique && items.iter().enumerate().any(|(at, item)| items[..at].contains(item)) {
            errors.push(Error::invalid(path, "", format!("{} in body shouldn't contain duplicates", path.as_str())));
        }
    }

    fn check_members(&self, members: &serde_json::Map<String, Value>, path: &Path, errors: &mut ErrorList) {
        if let Some(min) = self.min_properties.filter(|min| members.len() < *min) {
            let detail = format!("{} in body should have at least {min} properties", path.as_str());
            return errors.push(Error::invalid(path, members.len(), detail));
        }
        if let Some(max) = self.max_properties.filter(|max| members.len() > *max) {
            return errors.push(Error::too_many(path, members.len(), max));
        }
        for (name, member) in members {
            match self.properties.get(name) {
                Some(schema) => schema.check(member, &path.child(name), errors),
                None => {
                    if let Some(schema) = &self.additional {
                        schema.check(member, &path.child(name), errors);
                    }
                }
            }
        }
        let missing = self.required.iter().filter(|name| !members.contains_key(*name));
        errors.extend(missing.map(|name| Error::required(&path.child(name), "")));
    }
}

/// An error that upstream reports at no field.
fn general(message: String) -> Error {
    Error::new(ErrorKind::Invalid, &Path::root(), Some("".into()), message)
}

fn known_type(name: &str) -> Option<&'static str> {
    ["object", "array", "string", "integer", "number", "boolean"].into_iter().find(|known| *known == name)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.as_f64().is_some_and(|number| number.fract() == 0.0) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::aggregate;
    use serde_json::json;

    fn errors(schema: Value, value: Value) -> String {
        let root = json!({"type": "object", "properties": {"spec": schema}});
        let errors = Validator::new(&root).validate(&json!({"spec": value}), &Path::root());
        if errors.is_empty() { String::new() } else { aggregate(&errors) }
    }

    #[test]
    fn types_are_named_as_upstream_names_them() {
        let object = json!({"type": "object"});
        assert_eq!(errors(object, json!("str")), "spec: Invalid value: \"string\": spec in body must be of type object: \"string\"");
        assert_eq!(errors(json!({"type": "integer"}), json!(1.0)), "");
        assert_eq!(
            errors(json!({"type": "integer"}), json!(1.5)),
            "[spec: Invalid value: \"number\": spec in body must be of type integer: \"number\", \
             <nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec]"
        );
        let either = json!({"x-kubernetes-int-or-string": true});
        assert_eq!(errors(either, json!([1])), "spec: Invalid value: \"array\": spec in body must be of type integer,string: \"array\"");
        let list = json!({"type": "array", "items": {"type": "integer"}});
        assert_eq!(
            errors(list, json!([1, "x"])),
            "spec[1]: Invalid value: \"string\": spec[1] in body must be of type integer: \"string\""
        );
    }

    #[test]
    fn texts_numbers_and_maps_have_their_limits() {
        let text = json!({"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a+$"});
        assert_eq!(errors(text.clone(), json!("a")), "spec: Invalid value: \"a\": spec in body should be at least 2 chars long");
        assert_eq!(errors(text.clone(), json!("aaaaa")), "spec: Too long: may not be more than 4 bytes");
        assert_eq!(errors(text, json!("bb")), "spec: Invalid value: \"bb\": spec in body should match '^a+$'");
        let number = json!({"type": "integer", "minimum": 1, "maximum": 5, "exclusiveMaximum": true});
        assert_eq!(errors(number.clone(), json!(0)), "spec: Invalid value: 0: spec in body should be greater than or equal to 1");
        assert_eq!(errors(number, json!(5)), "spec: Invalid value: 5: spec in body should be less than 5");
        let map = json!({"type": "object", "maxProperties": 2, "minProperties": 1, "additionalProperties": {"type": "integer"}});
        assert_eq!(errors(map.clone(), json!({})), "spec: Invalid value: 0: spec in body should have at least 1 properties");
        assert_eq!(errors(map, json!({"x": 1, "y": 2, "z": 3})), "spec: Too many: 3: must have at most 2 items");
        let allowed = json!({"type": "string", "enum": ["x", "y"]});
        assert_eq!(errors(allowed, json!("z")), "spec: Unsupported value: \"z\": supported values: \"x\", \"y\"");
        let required = json!({"type": "object", "required": ["a", "b"]});
        assert_eq!(errors(required, json!({})), "[spec.a: Required value, spec.b: Required value]");
    }

    #[test]
    fn combinations_tell_which_of_them_failed() {
        let schema = json!({
            "type": "object",
            "anyOf": [{"properties": {"a": {"minimum": 3}}}, {"required": ["b"]}],
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            "not": {"properties": {"a": {"enum": [13]}}, "required": ["a"]},
        });
        let check = |value| errors(schema.clone(), value);
        assert_eq!(check(json!({"a": 5})), "");
        assert_eq!(
            check(json!({"a": 1})),
            "[<nil>: Invalid value: \"\": \"spec\" must validate at least one schema (anyOf), \
             spec.a: Invalid value: 1: spec.a in body should be greater than or equal to 3]"
        );
        assert_eq!(
            check(json!({"a": 5, "b": 1})),
            "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives"
        );
        assert_eq!(check(json!({"a": 13})), "<nil>: Invalid value: \"\": \"spec\" must not validate the schema (not)");
    }
}
