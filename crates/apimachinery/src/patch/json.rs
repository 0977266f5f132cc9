//! JSON patch (RFC 6902), with the liberties upstream's library takes: negative indices, and a copy of nothing is null.

use serde_json::Value;

use super::{Error, Patched};
use crate::raw::{self, Node};

/// Most operations in one patch.
const MAX_OPERATIONS: usize = 10_000;
/// What a copy may add to the object in all, in bytes.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Applies a JSON patch as it was sent. Nothing is changed unless all operations succeed.
pub fn apply(doc: &Value, patch: &[u8]) -> Result<Patched, Error> {
    let node = raw::parse_json(patch).map_err(|error| Error::Malformed(format!("error decoding patch: {error}")))?;
    let strict = check(&node)?;
    let patch = node.to_value();
    let operations = patch.as_array().map(Vec::as_slice).unwrap_or_default();
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        return Err(Error::TooLarge(format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}")));
    }
    let mut value = doc.clone();
    let mut copied = 0;
    for operation in operations {
        step(&mut value, operation, &mut copied)?;
    }
    Ok(Patched { value, patch, strict })
}

/// Checks that the patch is a list of operations, and tells unknown and duplicate members of them.
fn check(patch: &Node<'_>) -> Result<Vec<String>, Error> {
    let wrong = |node: &Node<'_>, target: &str| {
        Error::Malformed(format!("error decoding patch: json: cannot unmarshal {} into Go {target}", node.type_name()))
    };
    let operations = match patch {
        Node::Null => return Ok(Vec::new()),
        Node::Array(operations) => operations,
        other => return Err(wrong(other, "value of type []handlers.jsonPatchOp")),
    };
    let mut strict = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let members = match operation {
            Node::Null => continue,
            Node::Object(members) => members,
            other => return Err(wrong(other, "value of type handlers.jsonPatchOp")),
        };
        for (at, (key, value)) in members.iter().enumerate() {
            let known = matches!(&**key, "op" | "path" | "from" | "value");
            if known && members[..at].iter().any(|(earlier, _)| earlier == key) {
                strict.push(format!("json patch duplicate field \"[{index}].{key}\""));
            } else if !known {
                strict.push(format!("json patch unknown field \"[{index}].{key}\""));
            }
            if known && key != "value" && !matches!(value, Node::String(_) | Node::Null) {
                return Err(wrong(value, &format!("struct field jsonPatchOp.{key} of type string")));
            }
        }
    }
    Ok(strict)
}

fn step(doc: &mut Value, operation: &Value, copied: &mut usize) -> Result<(), Error> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    let path = || text("path").ok_or_else(|| missing("path"));
    let from = || text("from").ok_or_else(|| missing("from"));
    match text("op").unwrap_or("unknown") {
        "add" => add(doc, path()?, value()),
        "remove" => remove(doc, path()?).map(drop),
        "replace" => replace(doc, path()?, value()),
        "test" => test(doc, path()?, &value()),
        "move" => {
            let moved = remove(doc, from()?)?;
            add(doc, path()?, moved)
        }
        "copy" => {
            let value = lookup(doc, from()?)?.cloned().unwrap_or(Value::Null);
            *copied += value.to_string().len();
            if *copied > MAX_COPIED {
                return Err(refused(format!("copied more than {MAX_COPIED} bytes")));
            }
            add(doc, path()?, value)
        }
        other => Err(refused(format!("Unexpected kind: {other}"))),
    }
}

fn refused(message: String) -> Error {
    Error::Unprocessable(message)
}

fn missing(what: &str) -> Error {
    refused(format!("operation missing {what} field"))
}

/// Splits a pointer into its parent and its last token.
fn split(path: &str) -> Result<(&str, String), Error> {
    let (parent, last) = path.rsplit_once('/').ok_or_else(|| refused(format!("no pointer: {path}")))?;
    Ok((parent, unescape(last)))
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

fn container<'a>(doc: &'a mut Value, pointer: &str) -> Result<&'a mut Value, Error> {
    let absent = || refused(format!("doc is missing path: {pointer}"));
    let mut current = doc;
    for token in pointer.split('/').skip(1) {
        let token = unescape(token);
        current = match current {
            Value::Object(fields) => fields.get_mut(&token).ok_or_else(absent)?,
            Value::Array(items) => {
                let index = index(&token, items.len())?;
                items.get_mut(index).ok_or_else(absent)?
            }
            _ => return Err(absent()),
        };
    }
    Ok(current)
}

/// An index below `length`, counted from the end if negative.
fn index(token: &str, length: usize) -> Result<usize, Error> {
    let number: i64 = token.parse().map_err(|_| refused(format!("not an index: {token}")))?;
    let from_start = if number < 0 { number + length as i64 } else { number };
    usize::try_from(from_start).map_err(|_| refused(format!("Unable to access invalid index: {token}")))
}

fn lookup<'a>(doc: &'a Value, path: &str) -> Result<Option<&'a Value>, Error> {
    let absent = || refused(format!("doc is missing path: {path}"));
    if path.is_empty() {
        return Ok(Some(doc));
    }
    let (parent, last) = split(path)?;
    let mut current = doc;
    for token in parent.split('/').skip(1) {
        current = child(current, &unescape(token))?.ok_or_else(absent)?;
    }
    child(current, &last)
}

fn child<'a>(value: &'a Value, token: &str) -> Result<Option<&'a Value>, Error> {
    match value {
        Value::Object(fields) => Ok(fields.get(token)),
        Value::Array(items) => {
            let index = index(token, items.len())?;
            items.get(index).map(Some).ok_or_else(|| refused(format!("Unable to access invalid index: {token}")))
        }
        _ => Err(refused(format!("no container at {token}"))),
    }
}

fn add(doc: &mut Value, path: &str, value: Value) -> Result<(), Error> {
    if path.is_empty() {
        *doc = value;
        return Ok(());
    }
    let (parent, last) = split(path)?;
    match container(doc, parent)? {
        Value::Object(fields) => _ = fields.insert(last, value),
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(&last, items.len() + 1)?;
            if at > items.len() {
                return Err(refused(format!("Unable to access invalid index: {last}")));
            }
            items.insert(at, value);
        }
        _ => return Err(refused(format!("add operation does not apply: {path}"))),
    }
    Ok(())
}

fn remove(doc: &mut Value, path: &str) -> Result<Value, Error> {
    let absent = || refused(format!("Unable to remove nonexistent key: {path}"));
    let (parent, last) = split(path)?;
    match container(doc, parent)? {
        Value::Object(fields) => fields.remove(&last).ok_or_else(absent),
        Value::Array(items) => {
            let at = index(&last, items.len())?;
            if at < items.len() { Ok(items.remove(at)) } else { Err(absent()) }
        }
        _ => Err(absent()),
    }
}

fn replace(doc: &mut Value, path: &str, value: Value) -> Result<(), Error> {
    let absent = || refused(format!("replace operation does not apply: doc is missing key: {path}"));
    if path.is_empty() {
        *doc = value;
        return Ok(());
    }
    let (parent, last) = split(path)?;
    let place = match container(doc, parent)? {
        Value::Object(fields) => fields.get_mut(&last),
        Value::Array(items) => {
            let at = index(&last, items.len())?;
            items.get_mut(at)
        }
        _ => None,
    };
    *place.ok_or_else(absent)? = value;
    Ok(())
}

fn test(doc: &Value, path: &str, expected: &Value) -> Result<(), Error> {
    let found = lookup(doc, path)?.unwrap_or(&Value::Null);
    if same(found, expected) { Ok(()) } else { Err(refused(format!("testing value {path} failed"))) }
}

/// Equality in which `1` and `1.0` are the same number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;
    use serde_json::json;

    fn patched(doc: Value, patch: Value) -> Result<Value, Error> {
        apply(&doc, patch.to_string().as_bytes()).map(|patched| patched.value)
    }

    #[test]
    fn operations_do_as_the_standard_says() {
        let doc = json!({"a": {"b": 1}, "l": [1, 2, 3]});
        let cases = [
            (json!([{"op": "add", "path": "/a/c", "value": 2}]), json!({"a": {"b": 1, "c": 2}, "l": [1, 2, 3]})),
            (json!([{"op": "add", "path": "/l/1", "value": 9}]), json!({"a": {"b": 1}, "l": [1, 9, 2, 3]})),
            (json!([{"op": "add", "path": "/l/-", "value": 9}]), json!({"a": {"b": 1}, "l": [1, 2, 3, 9]})),
            (json!([{"op": "remove", "path": "/l/-1"}]), json!({"a": {"b": 1}, "l": [1, 2]})),
            (json!([{"op": "replace", "path": "/a/b", "value": "x"}]), json!({"a": {"b": "x"}, "l": [1, 2, 3]})),
            (json!([{"op": "move", "from": "/a/b", "path": "/m"}]), json!({"a": {}, "l": [1, 2, 3], "m": 1})),
            (json!([{"op": "copy", "from": "/l", "path": "/a/l"}]), json!({"a": {"b": 1, "l": [1, 2, 3]}, "l": [1, 2, 3]})),
            (json!([{"op": "copy", "from": "/none", "path": "/a/n"}]), json!({"a": {"b": 1, "n": null}, "l": [1, 2, 3]})),
            (json!([{"op": "test", "path": "/a/b", "value": 1.0}]), doc.clone()),
            (json!([{"op": "test", "path": "/none", "value": null}]), doc.clone()),
            (json!([{"op": "replace", "path": "", "value": {"z": 1}}]), json!({"z": 1})),
        ];
        for (patch, expected) in cases {
            assert_eq!(patched(doc.clone(), patch.clone()).unwrap(), expected, "{patch}");
        }
    }

    #[test]
    fn what_does_not_apply_refuses_the_whole_patch() {
        for operation in [
            json!({"op": "add", "path": "/none/x", "value": 1}),
            json!({"op": "remove", "path": "/none"}),
            json!({"op": "replace", "path": "/none", "value": 1}),
            json!({"op": "test", "path": "/a", "value": 2}),
            json!({"op": "move", "from": "/none", "path": "/b"}),
            json!({"op": "add", "path": "/l/7", "value": 1}),
            json!({"op": "frobnicate", "path": "/a"}),
        ] {
            let error = patched(json!({"a": 1, "l": []}), json!([operation])).unwrap_err();
            let status = Status::from(error);
            assert_eq!((status.code, &*status.reason), (422, "Invalid"), "{operation}");
            assert_eq!(status.message, "the server rejected our request due to an error in our request");
        }
    }

    #[test]
    fn escapes_in_pointers_are_undone() {
        let doc = json!({"a/b": 1, "t~k": 2});
        let patch = json!([{"op": "replace", "path": "/a~1b", "value": 9}, {"op": "remove", "path": "/t~0k"}, {"op": "add", "path": "/x~01y", "value": 3}]);
        assert_eq!(patched(doc, patch).unwrap(), json!({"a/b": 9, "x~1y": 3}));
    }

    #[test]
    fn members_of_operations_are_checked() {
        let patch = br#"[{"op":"add","op":"add","foo":1,"path":"/y","value":1}]"#;
        let strict = apply(&json!({}), patch).unwrap().strict;
        assert_eq!(strict, ["json patch duplicate field \"[0].op\"", "json patch unknown field \"[0].foo\""]);
        let error = apply(&json!({}), br#"{"op":"add"}"#).unwrap_err().to_string();
        assert_eq!(error, "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp");
        assert_eq!(apply(&json!({"a": 1}), b"null").unwrap().value, json!({"a": 1}));
    }
}
