//! Secrets.

use std::borrow::Cow;

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
};
use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    configmap::{MAX_BYTES, key_name},
    immutable,
};
use crate::{
    registry::{
        Column, Strategy,
        check::At,
        edit::{default_zero, drop_zero, ensure_object},
        print::age,
    },
    request::RequestContext,
};

/// The rules of secrets.
pub(crate) struct Secret;

/// Types and the keys they must have.
const NEEDED: [(&str, &[&str]); 3] = [
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
];
const ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

#[async_trait]
impl Strategy for Secret {
    fn default(&self, obj: &mut Object) {
        default_zero(&mut obj.0, "type", "Opaque");
        if let Some(Value::Object(given)) = obj.0.remove("stringData") {
            let data = ensure_object(&mut obj.0, "data");
            for (key, value) in given {
                data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
            }
        }
        drop_zero(&mut obj.0, "data");
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let data = At::field(obj, "data");
        let mut size = 0;
        for (key, value) in data.entries() {
            key_name(key, &value, &mut errs);
            size += value.str().len() / 4 * 3;
        }
        if size > MAX_BYTES {
            errs.push(Error::too_long(&data.path, "", MAX_BYTES));
        }
        typed(obj, &data, &mut errs);
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        At::field(obj, "type").immutable(&At::field(old, "type"), &mut errs);
        immutable::check(obj, old, &["data"], &mut errs);
        errs.extend(self.validate(ctx, obj));
        errs
    }

    fn field_labels(&self) -> Vec<Cow<'static, str>> {
        vec!["type".into()]
    }

    fn selectable_fields(&self, obj: &Object) -> Vec<(Cow<'static, str>, String)> {
        vec![("type".into(), obj.str_at("/type").into())]
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the secret."),
            Column::new("Type", "string", "What programs expect to find in it."),
            Column::new("Data", "string", "Number of entries."),
            Column::new("Age", "string", "Time since creation."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        vec![obj.name().into(), obj.str_at("/type").into(), At::field(obj, "data").size().into(), age(obj, now)]
    }
}

/// What a secret's type asks for.
fn typed(obj: &Object, data: &At<'_>, errs: &mut ErrorList) {
    let kind = obj.str_at("/type");
    if let Some((_, keys)) = NEEDED.iter().find(|(name, _)| *name == kind) {
        errs.extend(keys.iter().map(|key| data.key(key)).filter(|at| !at.is_set()).map(|at| at.required("")));
    }
    match kind {
        ACCOUNT_TOKEN if obj.annotation(ACCOUNT_NAME).unwrap_or_default().is_empty() => {
            errs.push(Error::required(&Path::new("metadata").child("annotations").key(ACCOUNT_NAME), ""));
        }
        "kubernetes.io/basic-auth" if !data.key("username").is_set() && !data.key("password").is_set() => {
            errs.extend(["username", "password"].map(|key| data.key(key).required("")));
        }
        "kubernetes.io/dockercfg" => json_under(&data.key(".dockercfg"), errs),
        "kubernetes.io/dockerconfigjson" => {
            let config = data.key(".dockerconfigjson");
            if config.is_set() { json_under(&config, errs) } else { errs.push(config.required("")) }
        }
        _ => {}
    }
}

fn json_under(at: &At<'_>, errs: &mut ErrorList) {
    let bytes = STANDARD.decode(at.str()).unwrap_or_default();
    if !at.is_set() {
        return;
    }
    if let Err(error) = serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes) {
        let detail = if error.is_eof() { "unexpected end of JSON input".to_owned() } else { "invalid JSON".to_owned() };
        errs.push(Error::invalid(&at.path, "<secret contents redacted>", detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(value: Value) -> Object {
        let mut obj = Object::from_value(value).unwrap();
        Secret.default(&mut obj);
        obj
    }

    #[test]
    fn string_data_is_merged_over_data() {
        let obj = secret(json!({"data": {"a": "b2xk", "k": "a2VlcA=="}, "stringData": {"a": "new", "u": "é"}}));
        assert_eq!(obj.value(), json!({"type": "Opaque", "data": {"a": "bmV3", "k": "a2VlcA==", "u": "w6k="}}));
    }

    #[test]
    fn types_ask_for_their_keys() {
        for (given, expected) in [
            (json!({"type": "kubernetes.io/tls"}), vec!["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
            (json!({"type": "kubernetes.io/basic-auth"}), vec!["data[username]: Required value", "data[password]: Required value"]),
            (json!({"type": ACCOUNT_TOKEN}), vec!["metadata.annotations[kubernetes.io/service-account.name]: Required value"]),
            (
                json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{"}}),
                vec![r#"data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": unexpected end of JSON input"#],
            ),
        ] {
            let errs = Secret.validate(&RequestContext::for_tests(), &secret(given));
            assert_eq!(errs.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        }
    }
}
