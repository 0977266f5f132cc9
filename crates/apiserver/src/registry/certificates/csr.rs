//! Certificate signing requests.

use std::collections::BTreeSet;

use apimachinery::{
    Object,
    field::{Error, ErrorList},
    names, time,
};
use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    registry::{
        Column, Strategy,
        check::At,
        edit::{copy, each, ensure_object},
        print::age,
    },
    request::RequestContext,
};

/// The rules of signing requests.
pub(crate) struct SigningRequest;

/// `/approval`: approves or denies.
pub(crate) struct Approval;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// Conditions that stay once set.
const LASTING: [&str; 3] = ["Approved", "Denied", "Failed"];
const SHORTEST: i64 = 600;

#[async_trait]
impl Strategy for SigningRequest {
    fn unmanaged_fields(&self) -> &'static [&'static str] {
        &["spec"]
    }

    fn prepare_for_create(&self, ctx: &RequestContext, obj: &mut Object) {
        obj.0.insert("status".into(), json!({}));
        let user = &ctx.user;
        let spec = ensure_object(&mut obj.0, "spec");
        for field in ["username", "uid", "groups", "extra"] {
            spec.remove(field);
        }
        spec.insert("username".into(), user.name.clone().into());
        if !user.uid.is_empty() {
            spec.insert("uid".into(), user.uid.clone().into());
        }
        if !user.groups.is_empty() {
            spec.insert("groups".into(), user.groups.clone().into());
        }
        if !user.extra.is_empty() {
            spec.insert("extra".into(), json!(user.extra));
        }
    }

    fn prepare_for_update(&self, _ctx: &RequestContext, obj: &mut Object, old: &Object) {
        copy(&mut obj.0, &old.0, "spec");
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let spec = At::field(obj, "spec");
        request(&spec.get("request"), &mut errs);
        usages(&spec.get("usages"), &mut errs);
        signer(&spec.get("signerName"), &mut errs);
        let seconds = spec.get("expirationSeconds");
        if seconds.int().is_some_and(|n| n < SHORTEST) {
            errs.push(seconds.invalid("may not specify a duration less than 600 seconds (10 minutes)"));
        }
        errs
    }

    fn validate_update(&self, _ctx: &RequestContext, _obj: &Object, _old: &Object) -> ErrorList {
        ErrorList::new()
    }

    fn prepare_for_status_update(&self, ctx: &RequestContext, obj: &mut Object, old: &Object) {
        let conditions = with_conditions_of(obj, old, |kind| ["Approved", "Denied"].contains(&kind));
        ensure_object(&mut obj.0, "status").insert("conditions".into(), conditions.into());
        stamp(ctx.now, obj, old);
    }

    fn validate_status_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        conditions(obj, old)
    }

    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::is_path_segment_name(name)
    }

    fn field_labels(&self) -> Vec<std::borrow::Cow<'static, str>> {
        vec!["spec.signerName".into()]
    }

    fn selectable_fields(&self, obj: &Object) -> Vec<(std::borrow::Cow<'static, str>, String)> {
        vec![("spec.signerName".into(), obj.str_at("/spec/signerName").into())]
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the request."),
            Column::new("Age", "string", "Time since creation."),
            Column::new("SignerName", "string", "Who is to sign."),
            Column::new("Requestor", "string", "Who asks."),
            Column::new("RequestedDuration", "string", "How long the certificate shall be valid."),
            Column::new("Condition", "string", "Pending, approved, denied, failed, issued."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let spec = At::field(obj, "spec");
        let wanted = spec.get("expirationSeconds").int().map_or("<none>".to_owned(), time::human_duration);
        vec![
            obj.name().into(),
            age(obj, now),
            spec.get("signerName").str().into(),
            spec.get("username").str().into(),
            wanted.into(),
            state(obj).into(),
        ]
    }
}

#[async_trait]
impl Strategy for Approval {
    fn prepare_for_update(&self, ctx: &RequestContext, obj: &mut Object, old: &Object) {
        let wanted: Vec<Value> = At::field(obj, "status").get("conditions").items().iter().map(|c| c.value.clone()).collect();
        copy(&mut obj.0, &old.0, "spec");
        copy(&mut obj.0, &old.0, "status");
        ensure_object(&mut obj.0, "status").insert("conditions".into(), wanted.into());
        stamp(ctx.now, obj, old);
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        conditions(obj, old)
    }
}

/// The object's conditions, but those of some types as they were.
fn with_conditions_of(obj: &Object, old: &Object, keep: impl Fn(&str) -> bool) -> Vec<Value> {
    let of = |obj: &Object, kept: bool| -> Vec<Value> {
        let all = At::field(obj, "status").get("conditions").items();
        all.iter().filter(|c| keep(c.get("type").str()) == kept).map(|c| c.value.clone()).collect()
    };
    [of(old, true), of(obj, false)].concat()
}

/// Gives new conditions their times.
fn stamp(now: Timestamp, obj: &mut Object, old: &Object) {
    let now = Value::from(time::format_rfc3339_seconds(now));
    let known = At::field(old, "status").get("conditions").items();
    let times = |kind: &str| known.iter().find(|c| c.get("type").str() == kind).map(|c| c.get("lastTransitionTime").value.clone());
    for condition in each(ensure_object(&mut obj.0, "status"), "conditions") {
        let kind = crate::registry::edit::text(condition, "type").to_owned();
        for field in ["lastUpdateTime", "lastTransitionTime"] {
            let unset = condition.get(field).is_none_or(Value::is_null);
            if unset {
                condition.insert(field.into(), times(&kind).unwrap_or_else(|| now.clone()));
            }
        }
    }
}

fn request(request: &At<'_>, errs: &mut ErrorList) {
    let bytes = STANDARD.decode(request.str()).unwrap_or_default();
    let block = x509_parser::pem::parse_x509_pem(&bytes).ok().map(|(_, pem)| pem.label);
    if block.as_deref() != Some("CERTIFICATE REQUEST") {
        errs.push(request.invalid("PEM block type must be CERTIFICATE REQUEST"));
    }
}

fn usages(list: &At<'_>, errs: &mut ErrorList) {
    if list.size() == 0 {
        errs.push(list.required(""));
    }
    let mut seen = BTreeSet::new();
    for usage in list.items() {
        if !USAGES.contains(&usage.str()) {
            errs.push(usage.not_supported(&USAGES));
        }
        if !seen.insert(usage.str()) {
            errs.push(usage.duplicate());
        }
    }
}

fn signer(name: &At<'_>, errs: &mut ErrorList) {
    const FORM: &str = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
    if !name.require_str("", errs) {
        return;
    }
    let parts: Vec<&str> = name.str().splitn(2, '/').collect();
    let [domain, path] = parts[..] else {
        errs.push(name.invalid(FORM));
        return;
    };
    let messages = names::is_dns1123_subdomain(domain);
    if messages.is_empty() && !domain.contains('.') {
        errs.push(name.invalid("should be a domain with at least two segments separated by dots"));
    }
    name.each_of(messages, errs);
    name.each_of(path.split('.').flat_map(names::is_dns1123_label).collect(), errs);
}

fn conditions(obj: &Object, old: &Object) -> ErrorList {
    let mut errs = ErrorList::new();
    let (list, was) = (At::field(obj, "status").get("conditions"), At::field(old, "status").get("conditions"));
    let kinds: BTreeSet<&str> = list.items().iter().map(|c| c.get("type").str()).collect();
    for condition in list.items() {
        condition.get("type").require_str("", &mut errs);
        let status = condition.get("status");
        if LASTING.contains(&condition.get("type").str()) {
            status.one_of(&["True"], &mut errs);
        } else {
            status.one_of(&["False", "True", "Unknown"], &mut errs);
        }
    }
    if kinds.contains("Approved") && kinds.contains("Denied") {
        let second = list
            .items()
            .iter()
            .map(|c| c.get("type").str())
            .filter(|kind| ["Approved", "Denied"].contains(kind))
            .nth(1)
            .unwrap_or_default();
        errs.push(Error::invalid(&list.path, second, "Approved and Denied conditions are mutually exclusive"));
    }
    for kind in was.items().iter().map(|c| c.get("type").str()).filter(|kind| LASTING.contains(kind)) {
        if !kinds.contains(kind) {
            errs.push(list.forbidden(format!("updates may not remove a condition of type {kind:?}")));
        }
    }
    errs
}

fn state(obj: &Object) -> String {
    let status = At::field(obj, "status");
    let kinds: Vec<&str> = status.get("conditions").items().iter().map(|c| c.get("type").str()).collect();
    let mut state = match () {
        () if kinds.contains(&"Denied") => "Denied",
        () if kinds.contains(&"Approved") => "Approved",
        () => "Pending",
    }
    .to_owned();
    if kinds.contains(&"Failed") {
        state += ",Failed";
    }
    if !status.get("certificate").is_empty() {
        state += ",Issued";
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(conditions: Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "x"}, "status": {"conditions": conditions}})).unwrap()
    }

    #[test]
    fn approved_and_denied_exclude_each_other_and_stay() {
        let approved = json!({"type": "Approved", "status": "True"});
        let denied = json!({"type": "Denied", "status": "True"});
        let errs = conditions(&with(json!([approved, denied])), &with(json!([approved])));
        assert_eq!(
            errs[0].to_string(),
            r#"status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive"#
        );
        let errs = conditions(&with(json!([])), &with(json!([approved])));
        assert_eq!(errs[0].to_string(), r#"status.conditions: Forbidden: updates may not remove a condition of type "Approved""#);
    }

    #[test]
    fn the_requestor_is_the_caller() {
        let ctx = RequestContext::for_tests();
        let mut obj =
            Object::from_value(json!({"spec": {"username": "somebody-else", "signerName": "nodomain", "request": "AAAA"}})).unwrap();
        SigningRequest.prepare_for_create(&ctx, &mut obj);
        assert_eq!(obj.0["spec"]["username"], "admin");
        let texts: Vec<String> = SigningRequest.validate(&ctx, &obj).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                r#"spec.request: Invalid value: "AAAA": PEM block type must be CERTIFICATE REQUEST"#,
                "spec.usages: Required value",
                r#"spec.signerName: Invalid value: "nodomain": must be a fully qualified domain and path of the form 'example.com/signer-name'"#
            ]
        );
    }
}
