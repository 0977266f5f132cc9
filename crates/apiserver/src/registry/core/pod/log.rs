//! `pods/log`: streams a container's log from the kubelet of the pod's node.

use std::sync::Arc;

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
    gvk::GroupKind,
    status::Status,
};
use async_trait::async_trait;
use axum::body::Body;
use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::{
    loopback::Loopback,
    registry::{Answer, Call, Connect, Kubelet, check::At, core::forward},
    request::RequestContext,
};

/// Serves logs. Without a kubelet client every log is refused as unavailable.
pub(crate) struct Log(pub(crate) Option<Arc<dyn Kubelet>>);

/// Query parameters handed on to the kubelet.
const PASSED: [&str; 9] =
    ["follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes", "insecureSkipTLSVerifyBackend", "stream"];

#[async_trait]
impl Connect for Log {
    async fn call(&self, ctx: &RequestContext, api: &Loopback, call: Call) -> Result<Answer, Status> {
        check(&call)?;
        let pod = api.namespaced("v1", "pods", ctx.namespace()).get(&call.name).await?;
        let container = container(&pod, call.query("container").unwrap_or_default())?;
        let node = pod.str_at("/spec/nodeName");
        if node.is_empty() {
            // The pod is not scheduled yet: as upstream, an empty log and no error.
            return Ok(Answer::Raw(text(Body::empty())));
        }
        let kubelet = self.0.as_ref().ok_or_else(|| Status::service_unavailable("no kubelet client is configured"))?;
        let (host, port) = address(&api.api("v1", "nodes").get(node).await?, kubelet.address_types())?;
        let path = format!("/containerLogs/{}/{}/{container}{}", ctx.namespace(), pod.name(), query(&call));
        let response = kubelet.get(&host, port, &path).await?;
        match response.status() {
            StatusCode::OK => Ok(Answer::Raw(text(forward::streamed(response.into_body())))),
            code => Err(refused(code, response.into_body(), &container, pod.name()).await),
        }
    }
}

fn text(body: Body) -> http::Response<Body> {
    let mut response = http::Response::new(body);
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
    response
}

/// What the kubelet said instead of a log.
async fn refused(code: StatusCode, body: Body, container: &str, pod: &str) -> Status {
    const MOST: usize = 64 * 1024;
    let bytes = axum::body::to_bytes(body, MOST).await.unwrap_or_default();
    let said = String::from_utf8_lossy(&bytes).trim().to_owned();
    match code {
        StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST => Status::bad_request(said),
        _ => Status::internal(format!("getting the log of container {container:?} in pod {pod:?}: the kubelet answered {code}: {said}")),
    }
}

fn query(call: &Call) -> String {
    let encode = |value: &str| utf8_percent_encode(value, NON_ALPHANUMERIC).to_string();
    let given = PASSED.iter().filter_map(|key| Some(format!("{key}={}", encode(call.query(key)?))));
    let pairs: Vec<String> = given.collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// Numbers in range, and one way to say since when.
fn check(call: &Call) -> Result<(), Status> {
    let mut errs = ErrorList::new();
    for (key, least) in [("tailLines", 0), ("limitBytes", 1), ("sinceSeconds", 1)] {
        let Some(number) = call.query(key).and_then(|text| text.parse::<i64>().ok()) else { continue };
        if number < least {
            let detail = if least == 0 { "must be greater than or equal to 0" } else { "must be greater than 0" };
            errs.push(Error::invalid(&Path::new(key), number, detail));
        }
    }
    if call.query("sinceSeconds").is_some() && call.query("sinceTime").is_some() {
        errs.push(Error::forbidden(&Path::root(), "at most one of `sinceTime` or `sinceSeconds` may be specified"));
    }
    match errs.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid(&GroupKind::new("", "PodLogOptions"), &call.name, errs)),
    }
}

/// The container meant: the one named, or the only one.
pub(crate) fn container(pod: &Object, wanted: &str) -> Result<String, Status> {
    let spec = At::field(pod, "spec");
    let names = |list: &str| spec.get(list).items().iter().map(|c| c.get("name").str().to_owned()).collect::<Vec<_>>();
    let (init, main, ephemeral) = (names("initContainers"), names("containers"), names("ephemeralContainers"));
    let name = pod.name();
    if wanted.is_empty() {
        let default = pod.annotation("kubectl.kubernetes.io/default-container").unwrap_or_default();
        return match &main[..] {
            [only] if init.is_empty() && ephemeral.is_empty() => Ok(only.clone()),
            _ if main.iter().any(|container| container == default) => Ok(default.to_owned()),
            [] => Err(Status::bad_request(format!("a container name must be specified for pod {name}"))),
            _ => Err(Status::bad_request(choose(name, &init, &main, &ephemeral))),
        };
    }
    if [&init, &main, &ephemeral].iter().any(|list| list.iter().any(|container| container == wanted)) {
        return Ok(wanted.to_owned());
    }
    Err(Status::bad_request(format!("container {wanted} is not valid for pod {name}")))
}

fn choose(pod: &str, init: &[String], main: &[String], ephemeral: &[String]) -> String {
    let all: Vec<&str> = init.iter().chain(main).chain(ephemeral).map(String::as_str).collect();
    format!("a container name must be specified for pod {pod}, choose one of: [{}]", all.join(" "))
}

/// Where the node's kubelet listens: the first address by preference, the port it reported.
pub(crate) fn address(node: &Object, preferred: &[String]) -> Result<(String, u16), Status> {
    let addresses = At::field(node, "status").get("addresses").items();
    let of_type = |kind: &String| addresses.iter().find(|a| a.get("type").str() == kind).map(|a| a.get("address").str());
    let host = preferred.iter().find_map(of_type);
    let host = host.ok_or_else(|| Status::internal(format!("node {} has reported no address", node.name())))?;
    let port = node.pointer("/status/daemonEndpoints/kubeletEndpoint/Port").and_then(Value::as_u64).unwrap_or(0);
    let port = u16::try_from(port).ok().filter(|port| *port != 0).unwrap_or(10250);
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn with_several_containers_one_must_be_named() {
        let pod = |spec: Value| Object::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
        let one = pod(json!({"containers": [{"name": "a"}]}));
        assert_eq!(container(&one, "").unwrap(), "a");
        let three = pod(json!({"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}));
        let message = container(&three, "").unwrap_err().message;
        assert_eq!(message, "a container name must be specified for pod p, choose one of: [i a b]");
        assert_eq!(container(&three, "i").unwrap(), "i");
        assert_eq!(container(&three, "x").unwrap_err().message, "container x is not valid for pod p");
    }

    #[test]
    fn the_internal_address_and_the_reported_port_are_used() {
        let node = json!({"status": {"addresses": [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.9"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10255}}}});
        assert_eq!(address(&Object::from_value(node).unwrap(), &["InternalIP".to_owned()]).unwrap(), ("10.0.0.9".into(), 10255));
    }
}
