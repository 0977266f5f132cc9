//! Printer columns: the Table form of custom resources.

use std::{borrow::Cow, sync::LazyLock};

use apimachinery::{Object, jsonpath, jsonpath::JsonPath, time};
use jiff::Timestamp;
use serde_json::Value;

use crate::{openapi::describe, registry::Column, schema::OBJECT_META};

static NAME: LazyLock<String> = LazyLock::new(|| describe::field(OBJECT_META, "name"));
static CREATED: LazyLock<String> = LazyLock::new(|| describe::field(OBJECT_META, "creationTimestamp"));

/// The columns after the name, each with where its cells come from.
pub(super) struct Columns(Vec<(Column, JsonPath)>);

impl Columns {
    /// From `additionalPrinterColumns`; without any, the age. What follows a path that cannot be read is left out.
    pub(super) fn new(columns: &[Value]) -> Self {
        if columns.is_empty() {
            return Self(column("Age", "date", "", 0, &CREATED, ".metadata.creationTimestamp").into_iter().collect());
        }
        Self(columns.iter().map_while(read).collect())
    }

    pub(super) fn columns(&self) -> Vec<Column> {
        let name = Column {
            name: Cow::Borrowed("Name"),
            kind: Cow::Borrowed("string"),
            format: Cow::Borrowed("name"),
            priority: 0,
            description: Cow::Borrowed(&**NAME),
        };
        std::iter::once(name).chain(self.0.iter().map(|(column, _)| column.clone())).collect()
    }

    pub(super) fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let value = obj.value();
        let show = |(column, path): &(Column, JsonPath)| path.first(&value).map_or(Value::Null, |found| cell(&column.kind, found, now));
        std::iter::once(Value::from(obj.name())).chain(self.0.iter().map(show)).collect()
    }
}

fn read(column: &Value) -> Option<(Column, JsonPath)> {
    let text = |name: &str| column.get(name).and_then(Value::as_str).unwrap_or_default();
    let priority = column.get("priority").and_then(Value::as_i64).and_then(|priority| i32::try_from(priority).ok()).unwrap_or_default();
    let path = text("jsonPath");
    let description = match text("description") {
        "" => format!("Custom resource definition column (in JSONPath format): {path}"),
        own => own.to_owned(),
    };
    self::column(text("name"), text("type"), text("format"), priority, &description, path)
}

fn column(name: &str, kind: &str, format: &str, priority: i32, description: &str, path: &str) -> Option<(Column, JsonPath)> {
    let owned = |text: &str| Cow::Owned(text.to_owned());
    let column = Column { name: owned(name), kind: owned(kind), format: owned(format), priority, description: owned(description) };
    Some((column, JsonPath::parse(path).ok()?))
}

/// A value as the column's type shows it; null where it is of another type.
fn cell(kind: &str, found: &Value, now: Timestamp) -> Value {
    match (kind, found) {
        ("string", found) => jsonpath::print(found).into(),
        ("integer", Value::Number(number)) => number.as_i64().or_else(|| number.as_f64().map(|float| float as i64)).into(),
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => found.clone(),
        ("date", Value::String(text)) if text.is_empty() => time::age(None, now).into(),
        ("date", Value::String(text)) => match time::parse_rfc3339(text) {
            Some(at) => time::age(Some(at), now).into(),
            None => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}
