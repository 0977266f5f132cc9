//! Paths to fields and the errors found there (`k8s.io/apimachinery/pkg/util/validation/field`).

use std::fmt;

use serde_json::Value;

use crate::go;

/// A path to a field, such as `spec.containers[0].name` or `metadata.labels[app]`. The empty path prints as `<nil>`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(String);

impl Path {
    /// A path of one top-level field.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The empty path, which stands for the object itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// The field `name` below this one.
    #[must_use]
    pub fn child(&self, name: impl AsRef<str>) -> Self {
        let name = name.as_ref();
        if self.0.is_empty() { Self(name.into()) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// The list item `index` below this field.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The map entry `key` below this field.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        Self(format!("{}[{}]", self.0, key.as_ref()))
    }

    /// Whether this is the empty path.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path as text; empty for the empty path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

impl From<&str> for Path {
    fn from(path: &str) -> Self {
        Self(path.into())
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// The value refers to something that is not there.
    NotFound,
    /// A value is needed.
    Required,
    /// The value must be unique and is not.
    Duplicate,
    /// The value breaks a rule.
    Invalid,
    /// The value is not one of a fixed set.
    NotSupported,
    /// The field may not be set, or not now.
    Forbidden,
    /// The text is too long.
    TooLong,
    /// The list or map has too many items.
    TooMany,
    /// Checking failed for a reason of our own.
    Internal,
    /// The value is of the wrong type.
    TypeInvalid,
}

impl ErrorKind {
    /// The cause reason in a `Status`, such as `FieldValueInvalid`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    /// The words a message starts with, such as `Invalid value`.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::Internal)
    }
}

/// One error at one field.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Where.
    pub field: Path,
    /// The value found there; `None` leaves it out of the message (CEL rules with their own reason do).
    pub value: Option<Value>,
    /// Further words; may be empty.
    pub detail: String,
    /// Where the check came from (`format=…`, …); used to compare errors, not shown.
    pub origin: &'static str,
}

/// All errors of an object, in the order they were found.
pub type ErrorList = Vec<Error>;

impl Error {
    /// An error from its parts.
    pub fn new(kind: ErrorKind, field: &Path, value: Option<Value>, detail: impl Into<String>) -> Self {
        Self { kind, field: field.clone(), value, detail: detail.into(), origin: "" }
    }

    /// The field names something that does not exist.
    pub fn not_found(field: &Path, value: impl Into<Value>) -> Self {
        Self::new(ErrorKind::NotFound, field, Some(value.into()), "")
    }

    /// A needed value is absent. `detail` may be empty.
    pub fn required(field: &Path, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Required, field, None, detail)
    }

    /// A value occurs twice where it may occur once.
    pub fn duplicate(field: &Path, value: impl Into<Value>) -> Self {
        Self::new(ErrorKind::Duplicate, field, Some(value.into()), "")
    }

    /// A value breaks the rule in `detail`.
    pub fn invalid(field: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, field, Some(value.into()), detail)
    }

    /// A value is none of `valid`; they are listed in the given order.
    pub fn not_supported<S: AsRef<str>>(field: &Path, value: impl Into<Value>, valid: &[S]) -> Self {
        let detail = if valid.is_empty() { String::new() } else { format!("supported values: {}", go::quote_all(valid)) };
        Self::new(ErrorKind::NotSupported, field, Some(value.into()), detail)
    }

    /// The field may not be set, or not now.
    pub fn forbidden(field: &Path, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, field, None, detail)
    }

    /// A text longer than `max` bytes; the text itself is not shown.
    pub fn too_long(field: &Path, _value: impl Into<Value>, max: usize) -> Self {
        Self::new(ErrorKind::TooLong, field, None, format!("may not be more than {max} {}", plural(max, "byte")))
    }

    /// A list or map of `count` items where `max` are allowed.
    pub fn too_many(field: &Path, count: usize, max: usize) -> Self {
        let detail = format!("must have at most {max} {}", plural(max, "item"));
        Self::new(ErrorKind::TooMany, field, Some(count.into()), detail)
    }

    /// Checking itself failed.
    pub fn internal(field: &Path, cause: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Internal, field, None, cause.to_string())
    }

    /// A value is of the wrong type.
    pub fn type_invalid(field: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::TypeInvalid, field, Some(value.into()), detail)
    }

    /// The message without the field, as in `details.causes[].message`.
    pub fn body(&self) -> String {
        let mut out = self.kind.words().to_owned();
        if let Some(value) = self.value.as_ref().filter(|_| self.kind.shows_value()) {
            out.push_str(": ");
            out.push_str(&shown(value));
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.into() } else { format!("{word}s") }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => go::quote(text),
        other => go::json(other),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for Error {}

/// All messages as one, the way Go's aggregate error prints: alone as it is, several as `[a, b]`, equal ones once.
pub fn aggregate(errors: &[Error]) -> String {
    let mut messages: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let message = error.to_string();
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    match &messages[..] {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_print_children_items_and_keys() {
        let path = Path::new("spec").child("containers").index(0).child("resources").key("cpu");
        assert_eq!(path.to_string(), "spec.containers[0].resources[cpu]");
        assert_eq!(Path::root().to_string(), "<nil>");
    }

    #[test]
    fn each_kind_has_its_message() {
        let at = Path::new("a");
        let cases = [
            (Error::required(&at, ""), "a: Required value"),
            (Error::required(&at, "need"), "a: Required value: need"),
            (Error::invalid(&at, -1, "no"), "a: Invalid value: -1: no"),
            (Error::invalid(&at, "x", "no"), "a: Invalid value: \"x\": no"),
            (Error::invalid(&at, Value::Null, "no"), "a: Invalid value: null: no"),
            (Error::invalid(&at, json!(["v"]), "no"), "a: Invalid value: [\"v\"]: no"),
            (Error::not_supported(&at, "z", &["x", "y"]), "a: Unsupported value: \"z\": supported values: \"x\", \"y\""),
            (Error::duplicate(&at, "d"), "a: Duplicate value: \"d\""),
            (Error::forbidden(&at, "no"), "a: Forbidden: no"),
            (Error::too_long(&at, "abc", 2), "a: Too long: may not be more than 2 bytes"),
            (Error::too_many(&at, 3, 2), "a: Too many: 3: must have at most 2 items"),
            (Error::not_found(&at, "n"), "a: Not found: \"n\""),
            (Error::internal(&at, "boom"), "a: Internal error: boom"),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn aggregates_print_equal_messages_once() {
        let at = Path::new("a");
        let twice = [Error::required(&at, ""), Error::required(&at, "")];
        assert_eq!(aggregate(&twice), "a: Required value");
        let two = [Error::required(&at, ""), Error::forbidden(&at, "no")];
        assert_eq!(aggregate(&two), "[a: Required value, a: Forbidden: no]");
    }
}
