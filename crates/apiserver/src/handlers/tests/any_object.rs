//! Every kind takes whatever its schema allows, and answers: stored or refused, never a panic.

use apimachinery::schema::{Kind, Schema};
use serde_json::Map;

use super::*;
use crate::{
    dice::Dice,
    registry::{Backing, builtin_resources},
    schema,
};

/// Objects of each kind.
const EACH: u64 = 12;
/// How deep an object goes; pod templates lie deep.
const DEEPEST: usize = 9;
const TEXTS: [&str; 24] = [
    "",
    "a",
    "a-b",
    "A B",
    "a/b",
    "a.io/b",
    "1",
    "-1",
    "100m",
    "1Gi",
    "50%",
    "10.0.0.1",
    "10.0.0.0/8",
    "fd00::1",
    "0.0.0.0",
    "TCP",
    "v1",
    "Pod",
    "*",
    "@daily",
    "2026-01-01T00:00:00Z",
    "YWJj",
    "ß\u{0}",
    "../..",
];
const NUMBERS: [i64; 9] = [0, 1, 2, -1, 80, 65_536, 2_147_483_647, -2_147_483_648, i64::MAX];

/// A value of the type, now and then one of another.
fn value(schema: &Schema, dice: &mut Dice, depth: usize) -> Value {
    if dice.one_in(60) {
        return dice.pick(&[Value::Null, json!(1.5), json!("x"), json!([]), json!({})].each_ref()).clone();
    }
    match &schema.node().kind {
        _ if depth == 0 => Value::Null,
        Kind::Object(_) => Value::Object(members(schema, dice, depth)),
        Kind::Map(_) => {
            let Some(inner) = schema.member("") else { return json!({}) };
            (0..dice.roll(3)).map(|_| (dice.pick(&TEXTS).to_owned(), value(&inner, dice, depth - 1))).collect()
        }
        Kind::Array(_) => {
            let Some(items) = schema.items() else { return json!([]) };
            let length = dice.pick(&[0, 1, 1, 2]);
            (0..length).map(|_| value(&items, dice, depth - 1)).collect()
        }
        Kind::Boolean => dice.one_in(2).into(),
        Kind::Int32 | Kind::Int64 | Kind::Number => dice.pick(&NUMBERS).into(),
        Kind::IntOrString if dice.one_in(2) => dice.pick(&NUMBERS).into(),
        _ => dice.pick(&TEXTS).into(),
    }
}

fn members(schema: &Schema, dice: &mut Dice, depth: usize) -> Map<String, Value> {
    let mut out = Map::new();
    for field in schema.fields() {
        // Few fields of many, so that what they lead to is reached.
        let wanted = field.required || dice.one_in(if schema.fields().len() > 12 { 4 } else { 2 });
        let Some(inner) = schema.member(&field.name).filter(|_| wanted) else { continue };
        let chosen = if field.allowed.is_empty() || dice.one_in(5) {
            value(&inner, dice, depth - 1)
        } else {
            let text = field.allowed[dice.roll(field.allowed.len() as u64) as usize].clone();
            if inner.items().is_some() { json!([text]) } else { text.into() }
        };
        out.insert(field.name.clone(), chosen);
    }
    out
}

fn metadata(dice: &mut Dice, number: u64) -> Value {
    let mut meta = json!({"name": format!("o-{number}")});
    for field in ["labels", "annotations"] {
        if dice.one_in(3) {
            meta[field] = json!({(dice.pick(&TEXTS)): (dice.pick(&TEXTS))});
        }
    }
    if dice.one_in(4) {
        meta["finalizers"] = json!([dice.pick(&TEXTS)]);
    }
    if dice.one_in(4) {
        meta["ownerReferences"] = json!([{"apiVersion": dice.pick(&TEXTS), "kind": "Pod", "name": "x", "uid": dice.pick(&TEXTS)}]);
    }
    meta
}

fn check(answer: &Answer, what: &str, object: &Value) {
    let message = answer.body["message"].as_str().unwrap_or_default();
    assert!(!message.contains("caused apiserver to panic"), "{what}: {message}\n{object}");
}

#[tokio::test]
async fn whatever_fits_a_kind_is_stored_or_refused() {
    let api = api();
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut dice = Dice::new(4711);
    for resource in builtin_resources(&Wiring::default()) {
        if !matches!(resource.backing, Backing::Stored) || resource.is_internal() {
            continue;
        }
        let root = if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
        let namespace = if resource.namespaced { "/namespaces/a" } else { "" };
        let url = format!("{root}/{}{namespace}/{}", resource.version, resource.plural);
        let schema = Schema::clone(&schema::builtin(&resource.definition));
        let object = |number: u64, dice: &mut Dice| {
            let mut object = members(&schema, dice, DEEPEST);
            object.insert("apiVersion".into(), resource.api_version().into());
            object.insert("kind".into(), resource.kind.as_str().into());
            object.insert("metadata".into(), metadata(dice, number));
            Value::Object(object)
        };
        for number in 0..EACH {
            let new = object(number, &mut dice);
            check(&post(&api, &url, &new).await, &format!("POST {url}"), &new);
            let one = format!("{url}/o-{number}");
            let changed = object(number, &mut dice);
            check(&put(&api, &one, &changed).await, &format!("PUT {one}"), &changed);
            for kind in [MERGE, "application/strategic-merge-patch+json"] {
                check(&patch(&api, &one, kind, &changed).await, &format!("PATCH {one}"), &changed);
            }
            let applied = patch(&api, &format!("{one}?fieldManager=m&force=true"), "application/apply-patch+yaml", &changed).await;
            check(&applied, &format!("apply {one}"), &changed);
            check(&patch(&api, &format!("{one}/status"), MERGE, &changed).await, &format!("PATCH {one}/status"), &changed);
        }
        let rows = send(&api, "GET", &url, &[("accept", table)], Body::empty()).await;
        assert_eq!((rows.code, rows.body["kind"].as_str()), (200, Some("Table")), "{url}: {}", rows.body);
        let gone = send(&api, "DELETE", &url, &[], Body::empty()).await;
        check(&gone, &format!("DELETE {url}"), &Value::Null);
    }
}
