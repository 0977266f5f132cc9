//! `serviceaccounts/token`: signs a token for a service account, bound to a pod, node or secret if asked.

use std::sync::Arc;

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
    gvk::{GroupKind, GroupResource},
    status::Status,
    time,
};
use async_trait::async_trait;
use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    loopback::Loopback,
    registry::{
        Answer, Call, Connect, TokenIssuer,
        edit::{default_to, ensure_object, object, strings},
    },
    request::RequestContext,
};

/// Serves token requests; without a signing key all are refused.
pub(crate) struct Token(pub(crate) Option<Arc<dyn TokenIssuer>>);

const HOUR: i64 = 3600;
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;
/// Tokens of this lifetime come from older pods that never reload them: they get a year, and are warned after an hour.
const WARN_AFTER: i64 = 3607;
const YEAR: i64 = 365 * 24 * HOUR;

#[async_trait]
impl Connect for Token {
    fn default(&self, body: &mut Object) {
        default_to(ensure_object(&mut body.0, "spec"), "expirationSeconds", HOUR);
    }

    async fn call(&self, ctx: &RequestContext, api: &Loopback, call: Call) -> Result<Answer, Status> {
        let issuer = self.0.as_ref().ok_or_else(|| Status::service_unavailable("no service account signing key is configured"))?;
        let mut request = call.body.unwrap_or_default();
        match_name(&request, ctx.namespace(), &call.name)?;
        let account = api.namespaced("v1", "serviceaccounts", ctx.namespace()).get(&call.name).await?;
        default_audiences(&mut request, issuer.audiences());
        check(&request)?;
        let bound = bound_object(api, ctx, &request, &call.name).await?;
        let seconds = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(HOUR).min(issuer.max_seconds());
        let now = ctx.now.as_second();
        let extends = seconds == WARN_AFTER && bound.as_ref().is_some_and(|bound| bound.kind == "pod");
        let lifetime = if extends { YEAR.min(issuer.max_seconds()) } else { seconds };
        let mut claims = claims(issuer.issuer(), &request, &account, bound.as_ref(), now, lifetime);
        if extends {
            claims["kubernetes.io"]["warnafter"] = json!(now + WARN_AFTER);
        }
        let token = issuer.sign(&claims)?;
        Ok(Answer::Object(StatusCode::CREATED, answer(request, &account, seconds, token, ctx)))
    }
}

fn match_name(request: &Object, namespace: &str, name: &str) -> Result<(), Status> {
    if !request.name().is_empty() && request.name() != name {
        let text = format!("metadata.name: Invalid value: {:?}: must match the service account name if specified", request.name());
        return Err(Status::bad_request(text));
    }
    if !request.namespace().is_empty() && request.namespace() != namespace {
        return Err(Status::bad_request("the namespace of the provided object does not match the namespace sent on the request"));
    }
    Ok(())
}

fn default_audiences(request: &mut Object, audiences: &[String]) {
    let spec = ensure_object(&mut request.0, "spec");
    if strings(spec, "audiences").is_empty() {
        spec.insert("audiences".into(), json!(audiences));
    }
}

fn check(request: &Object) -> Result<(), Status> {
    let at = Path::new("spec").child("expirationSeconds");
    let seconds = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(HOUR);
    let mut errs = ErrorList::new();
    if seconds < SHORTEST {
        errs.push(Error::invalid(&at, seconds, "may not specify a duration less than 10 minutes"));
    }
    if seconds > LONGEST {
        errs.push(Error::invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds"));
    }
    if errs.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("authentication.k8s.io", "TokenRequest"), request.name(), errs))
}

/// What a token dies with.
struct Bound {
    /// The claim's name: pod, secret, node.
    kind: &'static str,
    name: String,
    uid: String,
    /// The node of a bound pod.
    node: Option<(String, String)>,
}

/// Looks up the object a token is to be bound to.
async fn bound_object(api: &Loopback, ctx: &RequestContext, request: &Object, account: &str) -> Result<Option<Bound>, Status> {
    let reference = |field: &str| request.str_at(&format!("/spec/boundObjectRef/{field}")).to_owned();
    if request.pointer("/spec/boundObjectRef").is_none_or(Value::is_null) {
        return Ok(None);
    }
    let (version, kind, name, uid) = (reference("apiVersion"), reference("kind"), reference("name"), reference("uid"));
    let found = match (version.as_str(), kind.as_str()) {
        ("v1", "Pod") => pod(api, ctx, &name, account).await?,
        ("v1", "Secret") => bare("secret", &api.namespaced("v1", "secrets", ctx.namespace()).get(&name).await?),
        ("v1", "Node") => bare("node", &api.api("v1", "nodes").get(&name).await?),
        _ => {
            let (group, version) = version.split_once('/').unwrap_or(("", &version));
            return Err(Status::bad_request(format!("cannot bind token to object of type {group}/{version}, Kind={kind}")));
        }
    };
    if !uid.is_empty() && uid != found.uid {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. \
            The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(&GroupResource::new("", kind), &name, why));
    }
    Ok(Some(found))
}

fn bare(kind: &'static str, found: &Object) -> Bound {
    Bound { kind, name: found.name().to_owned(), uid: found.uid().to_owned(), node: None }
}

/// A pod must run under the account; its node goes into the token too.
async fn pod(api: &Loopback, ctx: &RequestContext, name: &str, account: &str) -> Result<Bound, Status> {
    let pod = api.namespaced("v1", "pods", ctx.namespace()).get(name).await?;
    let runs_under = pod.str_at("/spec/serviceAccountName");
    if runs_under != account {
        let text = format!("cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name.");
        return Err(Status::bad_request(text));
    }
    let node = pod.str_at("/spec/nodeName");
    let node = match node.is_empty() {
        true => None,
        false => {
            let found = api.api("v1", "nodes").get_opt(node).await?;
            Some((node.to_owned(), found.map(|node| node.uid().to_owned()).unwrap_or_default()))
        }
    };
    Ok(Bound { node, ..bare("pod", &pod) })
}

fn claims(issuer: &str, request: &Object, account: &Object, bound: Option<&Bound>, now: i64, lifetime: i64) -> Value {
    let (namespace, name) = (account.namespace(), account.name());
    let mut private = json!({"namespace": namespace, "serviceaccount": {"name": name, "uid": account.uid()}});
    if let Some(bound) = bound {
        private[bound.kind] = json!({"name": bound.name, "uid": bound.uid});
        if let Some((node, uid)) = &bound.node {
            private["node"] = if uid.is_empty() { json!({"name": node}) } else { json!({"name": node, "uid": uid}) };
        }
    }
    json!({
        "iss": issuer, "sub": format!("system:serviceaccount:{namespace}:{name}"),
        "aud": request.pointer("/spec/audiences"), "iat": now, "nbf": now, "exp": now + lifetime,
        "jti": uuid::Uuid::new_v4().to_string(), "kubernetes.io": private})
}

fn answer(mut request: Object, account: &Object, seconds: i64, token: String, ctx: &RequestContext) -> Object {
    let expires = ctx.now + jiff::SignedDuration::from_secs(seconds);
    request.0.insert("apiVersion".into(), "authentication.k8s.io/v1".into());
    request.0.insert("kind".into(), "TokenRequest".into());
    let meta = request.meta_mut();
    meta.insert("name".into(), account.name().into());
    meta.insert("namespace".into(), account.namespace().into());
    meta.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    meta.insert("creationTimestamp".into(), time::format_rfc3339_seconds(ctx.now).into());
    if let Some(spec) = object(&mut request.0, "spec") {
        spec.insert("expirationSeconds".into(), seconds.into());
    }
    let status = json!({"token": token, "expirationTimestamp": time::format_rfc3339_seconds(expires)});
    request.0.insert("status".into(), status);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    #[test]
    fn claims_name_the_account_and_what_the_token_is_bound_to() {
        let account = object(json!({"metadata": {"name": "s", "namespace": "n", "uid": "u1"}}));
        let request = object(json!({"spec": {"audiences": ["a"]}}));
        let bound = Bound { kind: "pod", name: "p".into(), uid: "u2".into(), node: Some(("x".into(), "u3".into())) };
        let claims = claims("https://issuer", &request, &account, Some(&bound), 100, 600);
        assert_eq!((&claims["sub"], &claims["exp"]), (&json!("system:serviceaccount:n:s"), &json!(700)));
        assert_eq!(
            claims["kubernetes.io"],
            json!({"namespace": "n", "serviceaccount": {"name": "s", "uid": "u1"},
            "pod": {"name": "p", "uid": "u2"}, "node": {"name": "x", "uid": "u3"}})
        );
    }

    #[test]
    fn lifetimes_below_ten_minutes_are_refused() {
        let mut request = object(json!({"spec": {"expirationSeconds": 10}}));
        default_audiences(&mut request, &["me".into()]);
        assert_eq!(request.0["spec"]["audiences"], json!(["me"]));
        assert!(check(&request).unwrap_err().message.contains("may not specify a duration less than 10 minutes"));
    }
}
