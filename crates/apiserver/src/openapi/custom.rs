//! Schemas of custom resources in OpenAPI version 2, which has no words for some of what version 3 says.

use serde_json::{Map, Value, json};

/// What has no counterpart.
const UNKNOWN: [&str; 6] = ["oneOf", "anyOf", "allOf", "not", "nullable", "default"];

/// A schema as version 2 can say it: wider where it cannot say the same, so that clients refuse nothing the server takes.
pub(super) fn v2(schema: &Value) -> Value {
    let Some(members) = schema.as_object() else { return json!({}) };
    let flag = |name: &str| members.get(name) == Some(&Value::Bool(true));
    let mut out: Map<String, Value> =
        members.iter().filter(|(name, _)| !UNKNOWN.contains(&name.as_str())).map(|(name, value)| (name.clone(), value.clone())).collect();
    if flag("x-kubernetes-int-or-string") {
        out.remove("type");
    }
    if flag("nullable") || (flag("x-kubernetes-preserve-unknown-fields") && !members.contains_key("properties")) {
        // A client would take null, or a field that is not named, for a mistake.
        for name in ["type", "items", "properties", "additionalProperties"] {
            out.remove(name);
        }
        return Value::Object(out);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = out.get_mut(name).filter(|inner| inner.is_object()) {
            *inner = v2(inner);
        }
    }
    if let Some(Value::Object(properties)) = out.get_mut("properties") {
        properties.values_mut().for_each(|property| *property = v2(property));
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_version_2_cannot_say_is_left_out() {
        let text = json!({"type": "string", "nullable": true, "description": "d"});
        let port = json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
        let list = json!({"type": "array", "items": {"type": "string", "default": "x"}});
        let schema = v2(&json!({"type": "object", "properties": {"text": text, "port": port, "list": list}}));
        assert_eq!(
            schema["properties"],
            json!({
                "text": {"description": "d"},
                "port": {"x-kubernetes-int-or-string": true},
                "list": {"type": "array", "items": {"type": "string"}},
            })
        );
    }
}
