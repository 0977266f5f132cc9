//! `pods/exec`, `pods/attach`, `pods/portforward`: streams to the kubelet of the pod's node.

use std::sync::Arc;

use apimachinery::{Object, status::Status};
use async_trait::async_trait;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::log::{address, container};
use crate::{
    loopback::Loopback,
    registry::{Answer, Call, Connect, Kubelet, core::forward},
    request::RequestContext,
};

/// Which stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A command in a container.
    Exec,
    /// A container's own process.
    Attach,
    /// Ports of the pod.
    PortForward,
}

/// Serves one kind of stream.
pub(crate) struct Stream {
    /// Which.
    pub(crate) kind: Kind,
    /// Reaches kubelets; without it streams are unavailable.
    pub(crate) kubelet: Option<Arc<dyn Kubelet>>,
}

/// Query parameters and what the kubelet calls them.
const RENAMED: [(&str, &str); 6] =
    [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"), ("command", "command"), ("ports", "port")];

#[async_trait]
impl Connect for Stream {
    async fn call(&self, ctx: &RequestContext, api: &Loopback, mut call: Call) -> Result<Answer, Status> {
        let pod = api.namespaced("v1", "pods", ctx.namespace()).get(&call.name).await?;
        let path = self.path(ctx.namespace(), &pod, &call)?;
        let node = pod.str_at("/spec/nodeName");
        if node.is_empty() {
            return Err(Status::bad_request(format!("pod {} does not have a host assigned", pod.name())));
        }
        let kubelet = self.kubelet.as_ref().ok_or_else(|| Status::service_unavailable("no kubelet client is configured"))?;
        let (host, port) = address(&api.api("v1", "nodes").get(node).await?, kubelet.address_types())?;
        let request = forward::request(&mut call, &path)?;
        let response = kubelet.send(&host, port, request).await?;
        Ok(Answer::Raw(forward::answer(&mut call, response)))
    }

    fn raw(&self) -> bool {
        true
    }
}

impl Stream {
    /// Where the kubelet serves it.
    fn path(&self, namespace: &str, pod: &Object, call: &Call) -> Result<String, Status> {
        let name = pod.name();
        let base = match self.kind {
            Kind::PortForward => format!("/portForward/{namespace}/{name}"),
            kind => {
                let verb = if kind == Kind::Exec { "exec" } else { "attach" };
                format!("/{verb}/{namespace}/{name}/{}", container(pod, call.query("container").unwrap_or_default())?)
            }
        };
        Ok(base + &query(call))
    }
}

fn query(call: &Call) -> String {
    let flag = |value: &str| if value == "true" { "1".to_owned() } else { utf8_percent_encode(value, NON_ALPHANUMERIC).to_string() };
    let renamed = |key: &str| RENAMED.iter().find(|(ours, _)| *ours == key).map(|(_, theirs)| *theirs);
    let wanted = |key: &str, value: &str| key == "command" || value != "false";
    let given = call.query.iter().filter(|(key, value)| wanted(key, value));
    let pairs: Vec<String> = given.filter_map(|(key, value)| Some(format!("{}={}", renamed(key)?, flag(value)))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_kubelet_has_names_of_its_own() {
        let query = [("command", "sh"), ("command", "-c"), ("stdin", "true"), ("stderr", "false"), ("container", "c")];
        let query = query.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let (parts, ()) = http::Request::new(()).into_parts();
        let call = Call { method: http::Method::GET, query, name: "p".into(), body: None, parts, stream: None };
        let pod = Object::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}, {"name": "d"}]}})).unwrap();
        let exec = Stream { kind: Kind::Exec, kubelet: None };
        assert_eq!(exec.path("n", &pod, &call).unwrap(), "/exec/n/p/c?command=sh&command=%2Dc&input=1");
        let ports = Stream { kind: Kind::PortForward, kubelet: None };
        assert!(ports.path("n", &pod, &call).unwrap().starts_with("/portForward/n/p?"));
    }
}
