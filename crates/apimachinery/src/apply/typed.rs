//! Values seen through their schema: which are leaves, which merge, and what tells list items apart.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::set::PathElement;
use crate::go;
use crate::schema::{Arena, Id, Kind, ListType, Schema, field};

/// The type of a value.
#[derive(Clone, Copy)]
pub(super) enum Type<'a> {
    /// A node of a schema.
    Node(&'a Arena, Id),
    /// Whatever the value is: maps merge, all else is a leaf.
    Deduced,
}

/// How a value merges.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shape<'a> {
    /// As one value.
    Leaf,
    /// Member by member.
    Map,
    /// Item by item, told apart by these fields; none for sets of scalars.
    List(&'a [String]),
}

impl<'a> Type<'a> {
    pub(super) fn of(schema: &'a Schema) -> Self {
        Self::Node(schema.arena(), schema.id())
    }

    fn kind(self) -> Option<&'a Kind> {
        match self {
            Self::Node(arena, id) => Some(&arena.node(id).kind),
            Self::Deduced => None,
        }
    }

    /// How values of the type merge; `value` matters where the type does not say.
    pub(super) fn shape(self, value: Option<&Value>) -> Shape<'a> {
        let Self::Node(arena, id) = self else {
            return if value.is_some_and(Value::is_object) { Shape::Map } else { Shape::Leaf };
        };
        let node = arena.node(id);
        if node.kind == Kind::Any && node.preserve_unknown {
            return Self::Deduced.shape(value);
        }
        match (&node.kind, &node.list) {
            (Kind::Object(_) | Kind::Map(_), _) if !node.atomic => Shape::Map,
            (Kind::Array(_), ListType::Set) => Shape::List(&[]),
            (Kind::Array(_), ListType::Map(keys)) => Shape::List(keys),
            _ => Shape::Leaf,
        }
    }

    /// The type of a member, and whether it is a named field; `None` if the schema knows no such member.
    pub(super) fn member(self, name: &str) -> Option<(Self, bool)> {
        let Self::Node(arena, id) = self else {
            return Some((Self::Deduced, false));
        };
        let node = arena.node(id);
        match &node.kind {
            Kind::Map(inner) => Some((Self::Node(arena, *inner), false)),
            Kind::AnyObject => Some((Self::Deduced, false)),
            _ => match field(node, name) {
                Some(field) => Some((Self::Node(arena, field.node), true)),
                None => node.preserve_unknown.then_some((Self::Deduced, false)),
            },
        }
    }

    /// [`Type::member`], taking unknown members as they are.
    pub(super) fn member_or_deduced(self, name: &str) -> (Self, bool) {
        self.member(name).unwrap_or((Self::Deduced, false))
    }

    /// The type of list items.
    pub(super) fn items(self) -> Self {
        match (self, self.kind()) {
            (Self::Node(arena, _), Some(Kind::Array(inner))) => Self::Node(arena, *inner),
            _ => Self::Deduced,
        }
    }

    /// What tells this list item apart. The error is upstream's.
    pub(super) fn item_element(self, keys: &[String], item: &Value) -> Result<PathElement, String> {
        if keys.is_empty() {
            return match item {
                Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
                Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
                scalar => Ok(PathElement::Value(scalar.to_string())),
            };
        }
        let fields = match item {
            Value::Null => {
                return Err("associative list with keys may not have a null element".into());
            }
            Value::Object(fields) => fields,
            _ => return Err("associative list with keys may not have non-map elements".into()),
        };
        let key: Map<String, Value> = keys.iter().filter_map(|name| Some((name.clone(), self.key(name, fields)?.into_owned()))).collect();
        if key.is_empty() {
            let names = keys.iter().map(|name| go::quote(name)).collect::<Vec<_>>().join(" ");
            let defaults = "(and doesn't have default values for any key fields)";
            return Err(format!("associative list with keys has an element that omits all key fields [{names}] {defaults}"));
        }
        Ok(PathElement::Key(Value::Object(key).to_string()))
    }

    /// The value of one key field of an item; its default where it is absent.
    fn key<'v>(self, name: &str, fields: &'v Map<String, Value>) -> Option<Cow<'v, Value>> {
        if let Some(value) = fields.get(name) {
            return Some(Cow::Borrowed(value));
        }
        let Self::Node(arena, id) = self.items() else {
            return None;
        };
        field(arena.node(id), name)?.default.clone().map(Cow::Owned)
    }

    /// What the type expects of a scalar, in upstream's words, if the value is not that.
    pub(super) fn scalar_mismatch(self, value: &Value) -> Option<&'static str> {
        let (expected, fits) = match self.kind()? {
            Kind::String | Kind::Time | Kind::MicroTime | Kind::Bytes => ("string", value.is_string()),
            Kind::Int32 | Kind::Int64 | Kind::Number => ("numeric (int or float)", value.is_number()),
            Kind::Boolean => ("boolean", value.is_boolean()),
            Kind::Quantity | Kind::IntOrString => ("any scalar", !value.is_object() && !value.is_array()),
            Kind::Object(_) | Kind::Map(_) | Kind::AnyObject => ("map", value.is_object()),
            Kind::Array(_) => ("list", value.is_array()),
            Kind::Any | Kind::ObjectOr(_) => return None,
        };
        (!fits && !value.is_null()).then_some(expected)
    }
}

/// The word upstream has for what a value is.
pub(super) fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}
