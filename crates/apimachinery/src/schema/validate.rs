//! Validation of custom resources by their OpenAPI schema, with the errors upstream's validator (`kube-openapi`) gives.

use serde_json::Value;

use crate::field::{Error, ErrorKind, ErrorList, Path};
use crate::go;

mod format;
mod rules;

pub use format::is_known as is_known_format;
use rules::{NumberRules, Pattern};

/// A schema ready to validate with: patterns are compiled once, when they first have something to match.
#[derive(Debug, Clone, Default)]
pub struct Validator {
    types: Vec<&'static str>,
    nullable: bool,
    format: String,
    allowed: Vec<Value>,
    number: Option<Box<NumberRules>>,
    min_length: Option<usize>,
    max_length: Option<usize>,
    pattern: Option<Box<Pattern>>,
    min_items: Option<usize>,
    max_items: Option<usize>,
    unique: bool,
    items: Option<Box<Validator>>,
    /// The fields that tell items apart, where the list is a map.
    keys: Vec<String>,
    min_properties: Option<usize>,
    max_properties: Option<usize>,
    /// Sorted by name.
    properties: Vec<(String, Validator)>,
    additional: Option<Box<Validator>>,
    required: Vec<String>,
    all_of: Vec<Validator>,
    any_of: Vec<Validator>,
    one_of: Vec<Validator>,
    not: Option<Box<Validator>>,
}

impl Validator {
    /// Reads an OpenAPI schema. Patterns that do not compile fit everything; definitions with such are refused before.
    pub fn new(schema: &Value) -> Self {
        let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
        let count = |name: &str| schema.get(name).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
        let one = |name: &str| schema.get(name).filter(|inner| inner.is_object()).map(|inner| Box::new(Self::new(inner)));
        let list = |name: &str| schema.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let texts = |name: &str| list(name).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let many = |name: &str| list(name).iter().map(Self::new).collect();
        let pattern = schema.get("pattern").and_then(Value::as_str);
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let mut properties: Vec<_> = properties.map(|(name, property)| (name.clone(), Self::new(property))).collect();
        properties.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self {
            types: if flag("x-kubernetes-int-or-string") {
                vec!["integer", "string"]
            } else {
                known_type(text("type")).into_iter().collect()
            },
            nullable: flag("nullable"),
            format: text("format").into(),
            allowed: list("enum").to_vec(),
            number: NumberRules::of(schema).map(Box::new),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            pattern: pattern.map(Pattern::new).map(Box::new),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            unique: flag("uniqueItems"),
            items: one("items"),
            keys: if text("x-kubernetes-list-type") == "map" { texts("x-kubernetes-list-map-keys") } else { Vec::new() },
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            properties,
            additional: one("additionalProperties"),
            required: texts("required"),
            all_of: many("allOf"),
            any_of: many("anyOf"),
            one_of: many("oneOf"),
            not: one("not"),
        }
    }

    /// The rules of one property, where the schema names it.
    pub fn property(&self, name: &str) -> Option<&Self> {
        let found = self.properties.binary_search_by(|(other, _)| other.as_str().cmp(name));
        found.ok().map(|at| &self.properties[at].1)
    }

    /// All that is wrong with a value at `path`. Type and metadata of a resource are not in its schema and checked elsewhere.
    pub fn validate(&self, value: &Value, path: &Path) -> ErrorList {
        let mut errors = Vec::new();
        self.check(value, None, path, &mut errors);
        errors
    }

    /// What is wrong with a value that replaces `old`: parts that stay as they were may go on breaking rules they broke before.
    pub fn validate_update(&self, value: &Value, old: Option<&Value>, path: &Path) -> ErrorList {
        let mut errors = Vec::new();
        self.check(value, old, path, &mut errors);
        errors
    }

    /// [`Validator::validate_update`] for a value that lies at `path`, where upstream's messages do not name the place but its fields do.
    pub fn validate_part(&self, value: &Value, old: Option<&Value>, path: &Path) -> ErrorList {
        let mut errors = self.validate_update(value, old, &Path::root());
        for error in &mut errors {
            error.field = if error.field.is_root() { path.clone() } else { path.child(error.field.as_str()) };
        }
        errors
    }

    fn check(&self, value: &Value, old: Option<&Value>, path: &Path, errors: &mut ErrorList) {
        if old == Some(value) {
            return;
        }
        self.check_type(value, path, errors);
        if value.is_null() {
            return self.check_allowed(value, path, errors);
        }
        self.check_combinations(value, old, path, errors);
        match value {
            Value::String(text) => self.check_text(text, path, errors),
            Value::Number(_) => self.check_number(value, path, errors),
            Value::Array(items) => self.check_items(items, old, path, errors),
            _ => {}
        }
        self.check_allowed(value, path, errors);
        if let Value::Object(members) = value {
            self.check_members(members, old, path, errors);
        }
    }

    fn check_allowed(&self, value: &Value, path: &Path, errors: &mut ErrorList) {
        // Null is never found among the values: a nullable field with a list of them cannot be null.
        if !self.allowed.is_empty() && (value.is_null() || !self.allowed.contains(value)) {
            let allowed: Vec<String> = self.allowed.iter().map(go::print).collect();
            errors.push(Error::not_supported(path, value.clone(), &allowed));
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

    fn check_combinations(&self, value: &Value, old: Option<&Value>, path: &Path, errors: &mut ErrorList) {
        let shown = go::quote(path.as_str());
        let results =
            |schemas: &[Self]| -> Vec<ErrorList> { schemas.iter().map(|schema| schema.validate_update(value, old, path)).collect() };
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
        if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.fits(text)) {
            errors.push(Error::invalid(path, text, format!("{} in body should match '{}'", path.as_str(), pattern.text())));
        }
        if !format::fits(&self.format, text) {
            let detail = format!("{} in body must be of type {}: {}", path.as_str(), self.format, go::quote(text));
            errors.push(Error::invalid(path, text, detail));
        }
    }

    fn check_number(&self, value: &Value, path: &Path, errors: &mut ErrorList) {
        let place = path.as_str();
        if !format::fits_integer(&self.format, value) {
            errors.push(general(format!("Checked value must be of type integer with format {} in {place}", self.format)));
        }
        if let Some(rules) = &self.number {
            rules.check(value, path, errors);
        }
    }

    fn check_items(&self, items: &[Value], old: Option<&Value>, path: &Path, errors: &mut ErrorList) {
        if let Some(schema) = &self.items {
            for (index, item) in items.iter().enumerate() {
                schema.check(item, self.old_item(item, old), &path.index(index), errors);
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

    /// The item an item replaces: only in maps it can be told.
    fn old_item<'a>(&self, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
        let same = |other: &&Value| self.keys.iter().all(|key| other.get(key) == item.get(key));
        old?.as_array()?.iter().find(same).filter(|_| !self.keys.is_empty())
    }

    fn check_members(&self, members: &serde_json::Map<String, Value>, old: Option<&Value>, path: &Path, errors: &mut ErrorList) {
        if let Some(min) = self.min_properties.filter(|min| members.len() < *min) {
            let detail = format!("{} in body should have at least {min} properties", path.as_str());
            return errors.push(Error::invalid(path, members.len(), detail));
        }
        if let Some(max) = self.max_properties.filter(|max| members.len() > *max) {
            return errors.push(Error::too_many(path, members.len(), max));
        }
        for (name, member) in members {
            let schema = self.property(name).or(self.additional.as_deref());
            if let Some(schema) = schema {
                schema.check(member, old.and_then(|old| old.get(name)), &path.child(name), errors);
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
mod tests;
