//! Rules of a validator that few types have: what numbers may be, and what texts must look like.

use std::sync::OnceLock;

use regex::Regex;
use serde_json::Value;

use crate::field::{Error, ErrorList, Path};

/// What numbers may be.
#[derive(Debug, Clone)]
pub(super) struct NumberRules {
    minimum: Option<Value>,
    exclusive_minimum: bool,
    maximum: Option<Value>,
    exclusive_maximum: bool,
    multiple_of: Option<Value>,
}

impl NumberRules {
    /// Those of a schema, if it has any.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
        let rules = Self {
            minimum: schema.get("minimum").cloned(),
            exclusive_minimum: flag("exclusiveMinimum"),
            maximum: schema.get("maximum").cloned(),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: schema.get("multipleOf").cloned(),
        };
        (rules.minimum.is_some() || rules.maximum.is_some() || rules.multiple_of.is_some()).then_some(rules)
    }

    /// What is wrong with a number.
    pub(super) fn check(&self, value: &Value, path: &Path, errors: &mut ErrorList) {
        let number = value.as_f64().unwrap_or_default();
        let place = path.as_str();
        let mut complain = |detail: String| errors.push(Error::invalid(path, value.clone(), detail));
        if let Some(of) = self.multiple_of.as_ref()
            && let Some(factor) = of.as_f64().filter(|factor| *factor > 0.0)
            && (number / factor).fract() != 0.0
        {
            complain(format!("{place} in body should be a multiple of {of}"));
        }
        if let Some(bound) = &self.maximum {
            let limit = bound.as_f64().unwrap_or_default();
            if number > limit || (self.exclusive_maximum && number == limit) {
                let or_equal = if self.exclusive_maximum { "" } else { " or equal to" };
                complain(format!("{place} in body should be less than{or_equal} {bound}"));
            }
        }
        if let Some(bound) = &self.minimum {
            let limit = bound.as_f64().unwrap_or_default();
            if number < limit || (self.exclusive_minimum && number == limit) {
                let or_equal = if self.exclusive_minimum { "" } else { " or equal to" };
                complain(format!("{place} in body should be greater than{or_equal} {bound}"));
            }
        }
    }
}

/// What a text must look like.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    text: String,
    /// Compiled when there is first something to match: that takes a hundred times the memory. `None` inside: it cannot be.
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    /// As the schema's author wrote it.
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), compiled: OnceLock::new() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether a text matches.
    pub(super) fn fits(&self, text: &str) -> bool {
        let compiled = self.compiled.get_or_init(|| Regex::new(&self.text).ok());
        compiled.as_ref().is_none_or(|pattern| pattern.is_match(text))
    }
}
