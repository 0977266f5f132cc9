//! Filling in: zero values Go would write, and defaults.

use serde_json::{Map, Value};

use super::{Arena, Field, Id, Kind, Presence, Schema};
use crate::quantity::Quantity;

impl Schema {
    /// Fills in the defaults the schema states, in place. Defaults that depend on other fields are the strategies' business.
    ///
    /// A default that is itself an object is filled in too. Amounts in resource lists are rounded up to thousandths.
    pub fn default(&self, value: &mut Value) {
        default(self.arena(), self.id(), value);
    }

    /// Makes empty lists that are always written null, in place: upstream stores protobuf, which does not tell the two apart.
    pub fn fold_empty_lists(&self, value: &mut Value) {
        fold(self.arena(), self.id(), value);
    }

    /// The value Go would write for an empty struct of this type.
    pub fn zero(&self) -> Value {
        zero(self.arena(), self.id())
    }
}

/// What Go writes for the zero value of a type.
pub(super) fn zero(arena: &Arena, id: Id) -> Value {
    match &arena.node(id).kind {
        Kind::Object(fields) => {
            let mut out = Map::new();
            absent(arena, fields, &mut out);
            Value::Object(out)
        }
        Kind::String => "".into(),
        Kind::Int32 | Kind::Int64 | Kind::Number | Kind::IntOrString => 0.into(),
        Kind::Boolean => false.into(),
        Kind::Quantity => "0".into(),
        _ => Value::Null,
    }
}

/// Writes the fields Go always writes.
pub(super) fn absent(arena: &Arena, fields: &[Field], out: &mut Map<String, Value>) {
    for field in fields {
        match field.presence {
            Presence::Always if !out.contains_key(&field.name) => _ = out.insert(field.name.clone(), zero(arena, field.node)),
            Presence::NullIfAbsent if !out.contains_key(&field.name) => _ = out.insert(field.name.clone(), Value::Null),
            _ => {}
        }
    }
}

/// Whether Go's `omitempty` drops the value. Structs are never empty.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn default(arena: &Arena, id: Id, value: &mut Value) {
    let node = arena.node(id);
    match (&node.kind, value) {
        (Kind::Object(fields), Value::Object(members)) => {
            for field in fields {
                default_field(arena, field, members);
                let null = members.get(&field.name).is_some_and(Value::is_null);
                if null && field.presence == Presence::Kept && !arena.node(field.node).nullable {
                    members.remove(&field.name);
                }
            }
        }
        (Kind::Map(inner), Value::Object(members)) => {
            if arena.custom.is_some() && !arena.node(*inner).nullable {
                members.retain(|_, member| !member.is_null());
            }
            for (_, member) in members.iter_mut() {
                default(arena, *inner, member);
                if arena.node(*inner).kind == Kind::Quantity && node.go_name.ends_with(".ResourceList") {
                    round_to_milli(member);
                }
            }
        }
        (Kind::Array(inner), Value::Array(items)) => items.iter_mut().for_each(|item| default(arena, *inner, item)),
        (Kind::ObjectOr(inner), value @ Value::Object(_)) => default(arena, *inner, value),
        _ => {}
    }
}

fn fold(arena: &Arena, id: Id, value: &mut Value) {
    match (&arena.node(id).kind, value) {
        (Kind::Object(fields), Value::Object(members)) => {
            for (name, member) in members.iter_mut() {
                let Ok(at) = fields.binary_search_by(|field| field.name.as_str().cmp(name)) else {
                    continue;
                };
                if fields[at].presence == Presence::Always && member.as_array().is_some_and(Vec::is_empty) {
                    *member = Value::Null;
                } else {
                    fold(arena, fields[at].node, member);
                }
            }
        }
        (Kind::Map(inner), Value::Object(members)) => members.iter_mut().for_each(|(_, member)| fold(arena, *inner, member)),
        (Kind::Array(inner), Value::Array(items)) => items.iter_mut().for_each(|item| fold(arena, *inner, item)),
        _ => {}
    }
}

fn default_field(arena: &Arena, field: &Field, members: &mut Map<String, Value>) {
    if let Some(value) = &field.default {
        let nullable = arena.node(field.node).nullable;
        let unset = match members.get(&field.name) {
            None => true,
            Some(Value::Null) => field.presence != Presence::Kept || !nullable,
            Some(present) => field.presence != Presence::Kept && field.presence != Presence::Pointer && is_zero(present),
        };
        if unset {
            members.insert(field.name.clone(), value.clone());
        }
    }
    if let Some(member) = members.get_mut(&field.name) {
        default(arena, field.node, member);
    }
}

/// Whether a scalar is its type's zero value, which Go's defaulting cannot tell from an absent one.
fn is_zero(value: &Value) -> bool {
    !matches!(value, Value::Array(_) | Value::Object(_)) && is_empty(value)
}

fn round_to_milli(value: &mut Value) {
    let Some(mut quantity) = value.as_str().and_then(|text| Quantity::parse(text).ok()) else {
        return;
    };
    if !quantity.round_up(-3) {
        *value = quantity.to_string().into();
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use serde_json::json;

    #[test]
    fn defaults_reach_into_lists_but_not_into_absent_structs() {
        let mut value = json!({"spec": {"containers": [{"name": "c", "ports": [{"port": 80}, {"port": 81, "protocol": "UDP"}]}]}});
        sample::pod().default(&mut value);
        let ports = json!([{"port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "UDP"}]);
        assert_eq!(value["spec"]["containers"][0]["ports"], ports);
        assert!(value.get("other").is_none());
    }

    #[test]
    fn empty_lists_that_are_always_written_are_stored_as_null() {
        let mut value = json!({"spec": {"containers": [], "volumes": []}});
        sample::pod().fold_empty_lists(&mut value);
        assert_eq!(value, json!({"spec": {"containers": null, "volumes": []}}));
    }

    #[test]
    fn resource_amounts_are_rounded_up_to_thousandths() {
        let mut value = json!({"spec": {"containers": [{"limits": {"cpu": "1000100u", "memory": "1Gi"}}]}});
        sample::pod().default(&mut value);
        assert_eq!(value["spec"]["containers"][0]["limits"], json!({"cpu": "1001m", "memory": "1Gi"}));
    }
}
