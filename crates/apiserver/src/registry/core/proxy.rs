//! `proxy` of pods, services and nodes: plain HTTP to what runs behind them.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use apimachinery::{Object, gvk::GroupResource, status::Status};
use async_trait::async_trait;
use axum::body::Body;
use http::{Request, Response, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::{forward, pod};
use crate::{
    loopback::Loopback,
    registry::{Answer, Call, Connect, Kubelet, Streams, Subresource, Wiring, check::At},
    request::RequestContext,
};

/// What is behind the proxy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Pod,
    Service,
    Node,
}

struct Proxy {
    target: Target,
    kubelet: Option<Arc<dyn Kubelet>>,
    /// Whether loopback addresses may be asked.
    local: bool,
    streams: Streams,
}

const VERBS: &[&str] = &["create", "delete", "get", "patch", "update"];
const CONNECT: Duration = Duration::from_secs(10);

/// The `proxy` subresource of pods; with loopback addresses where the server itself has one.
pub(crate) fn of_pods(wiring: &Wiring) -> Subresource {
    Subresource::call("proxy", VERBS, ("", "v1", "PodProxyOptions"), Proxy::new(Target::Pod, wiring))
}

/// The `proxy` subresource of services; loopback addresses as for pods.
pub(crate) fn of_services(wiring: &Wiring) -> Subresource {
    Subresource::call("proxy", VERBS, ("", "v1", "ServiceProxyOptions"), Proxy::new(Target::Service, wiring))
}

/// The `proxy` subresource of nodes, which leads to their kubelets.
pub(crate) fn of_nodes(wiring: &Wiring) -> Subresource {
    Subresource::call("proxy", VERBS, ("", "v1", "NodeProxyOptions"), Proxy::new(Target::Node, wiring))
}

impl Proxy {
    fn new(target: Target, wiring: &Wiring) -> Self {
        Self { target, kubelet: wiring.kubelet.clone(), local: wiring.local, streams: wiring.streams.clone() }
    }
}

#[async_trait]
impl Connect for Proxy {
    async fn call(&self, ctx: &RequestContext, api: &Loopback, mut call: Call) -> Result<Answer, Status> {
        let name = Name::parse(&call.name)?;
        let path = path(&ctx.info.rest, call.parts.uri.query());
        if self.target == Target::Node {
            let node = api.api("v1", "nodes").get(name.object).await?;
            let kubelet = self.kubelet.as_ref().ok_or_else(|| Status::service_unavailable("no kubelet client is configured"))?;
            let (host, port) = pod::kubelet_address(&node, kubelet.address_types())?;
            let response = kubelet.send(&host, port, forward::request(&mut call, &path)?).await.map_err(unreachable)?;
            return Ok(Answer::Raw(forward::answer(&mut call.parts, response, &self.streams)));
        }
        let (host, port) = match self.target {
            Target::Pod => pod_address(&api.namespaced("v1", "pods", ctx.namespace()).get(name.object).await?, name.port)?,
            _ => service_address(api, ctx.namespace(), &name).await?,
        };
        if name.scheme == "https" {
            return Err(Status::bad_request("proxying to https is not supported"));
        }
        let address = SocketAddr::new(proxyable(&host, self.local)?, port);
        let response = send(address, forward::request(&mut call, &path)?).await?;
        Ok(Answer::Raw(forward::answer(&mut call.parts, response, &self.streams)))
    }

    fn raw(&self) -> bool {
        true
    }
}

/// Path and query at whoever is behind.
fn path(rest: &str, query: Option<&str>) -> String {
    let rest = if rest.is_empty() { "/" } else { rest };
    query.map_or_else(|| rest.to_owned(), |query| format!("{rest}?{query}"))
}

/// `[scheme:]name[:port]`.
struct Name<'a> {
    scheme: &'a str,
    object: &'a str,
    port: &'a str,
}

impl<'a> Name<'a> {
    fn parse(text: &'a str) -> Result<Self, Status> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            [object] => Ok(Self { scheme: "", object, port: "" }),
            [object, port] => Ok(Self { scheme: "", object, port }),
            [scheme @ ("" | "http" | "https"), object, port] => Ok(Self { scheme, object, port }),
            _ => Err(Status::bad_request(format!("invalid service request {text:?}"))),
        }
    }
}

/// The address, if it is one of the cluster's network and not of the server's own machine: who may write a pod's status must
/// not reach through the proxy what listens only there. Upstream: `IsProxyableIP`. Errors: 400.
fn proxyable(host: &str, local: bool) -> Result<IpAddr, Status> {
    let refused = || Status::bad_request("address not allowed");
    let address = host.parse::<IpAddr>().map_err(|_| refused())?.to_canonical();
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.octets()[..3] == [224, 0, 0],
        // Unicast, and multicast of interface or link scope.
        IpAddr::V6(v6) => v6.is_unicast_link_local() || (v6.is_multicast() && matches!(v6.octets()[1] & 0xf, 1 | 2)),
    };
    let own = (address.is_loopback() && !local) || address.is_unspecified() || link_local;
    if own { Err(refused()) } else { Ok(address) }
}

fn pod_address(pod: &Object, port: &str) -> Result<(String, u16), Status> {
    let ip = pod.str_at("/status/podIP");
    if ip.is_empty() {
        return Err(Status::bad_request("address not allowed"));
    }
    let declared = At::field(pod, "spec").get("containers").items();
    let ports: Vec<At<'_>> = declared.iter().flat_map(|container| container.get("ports").items()).collect();
    let first = ports.first().and_then(|port| port.get("containerPort").int());
    let named = ports.iter().find(|at| at.get("name").str() == port).and_then(|at| at.get("containerPort").int());
    let chosen = if port.is_empty() { first.unwrap_or(80) } else { port.parse().ok().or(named).unwrap_or(0) };
    let number = u16::try_from(chosen).ok().filter(|n| *n != 0);
    number.map(|number| (ip.to_owned(), number)).ok_or_else(|| Status::bad_request(format!("pod has no port {port:?}")))
}

/// A ready endpoint of the service, for its port of that name or number.
async fn service_address(api: &Loopback, namespace: &str, name: &Name<'_>) -> Result<(String, u16), Status> {
    let service = api.namespaced("v1", "services", namespace).get(name.object).await?;
    let unavailable = || Status::service_unavailable(format!("no endpoints available for service {:?}", name.object));
    let ports = At::field(&service, "spec").get("ports").items();
    let matches = |at: &&At<'_>| {
        let number = at.get("port").int().unwrap_or(0).to_string();
        name.port.is_empty() || at.get("name").str() == name.port || number == name.port
    };
    let wanted = ports.iter().find(matches).ok_or_else(unavailable)?.get("name").str();
    let query = format!("labelSelector=kubernetes.io%2Fservice-name%3D{}", name.object);
    let slices = api.namespaced("discovery.k8s.io/v1", "endpointslices", namespace).list(&query).await?.items;
    if slices.is_empty() {
        return Err(Status::not_found(&GroupResource::new("", "services"), name.object));
    }
    slices.iter().find_map(|slice| ready_endpoint(slice, wanted)).ok_or_else(unavailable)
}

fn ready_endpoint(slice: &Object, port: &str) -> Option<(String, u16)> {
    let ports = At::field(slice, "ports").items();
    let number = ports.iter().find(|at| at.get("name").str() == port)?.get("port").int()?;
    let endpoints = At::field(slice, "endpoints").items();
    let ready = endpoints.iter().find(|e| e.get("conditions").get("ready").value.as_bool() != Some(false))?;
    let address = ready.get("addresses").value.pointer("/0").and_then(Value::as_str)?;
    Some((address.to_owned(), u16::try_from(number).ok()?))
}

fn unreachable(error: String) -> Status {
    Status::service_unavailable(format!("error trying to reach service: {error}"))
}

async fn send(address: SocketAddr, mut request: Request<Body>) -> Result<Response<Body>, Status> {
    let dial = tokio::time::timeout(CONNECT, TcpStream::connect(address)).await;
    let stream = dial.map_err(|_| unreachable(format!("dial tcp {address}: i/o timeout")))?;
    let stream = stream.map_err(|error| unreachable(format!("dial tcp {address}: {error}")))?;
    component::tcp::prepare(&stream);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(error.to_string()))?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a proxied connection ended");
        }
    });
    let authority = address.to_string().parse().map_err(Status::internal)?;
    request.headers_mut().insert(header::HOST, authority);
    let response = sender.send_request(request).await.map_err(|error| unreachable(error.to_string()))?;
    Ok(response.map(Body::new))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::request::RequestInfo;

    #[test]
    fn names_may_carry_scheme_and_port() {
        let parse = |text: &'static str| Name::parse(text).map(|name| [name.scheme, name.object, name.port]);
        assert_eq!(parse("x").unwrap(), ["", "x", ""]);
        assert_eq!(parse("x:http").unwrap(), ["", "x", "http"]);
        assert_eq!(parse("https:x:443").unwrap(), ["https", "x", "443"]);
        assert!(parse("a:b:c:d").is_err());
    }

    #[test]
    fn the_backend_is_asked_for_the_path_as_it_came() {
        for (asked, behind) in [
            ("", "/"),
            ("/", "/"),
            ("/d/", "/d/"),
            ("/a%20b/", "/a%20b/"),
            ("/a%3Fb", "/a%3Fb"),
            ("/x%23y%2F?q=a%20b", "/x%23y%2F?q=a%20b"),
        ] {
            let uri: http::Uri = format!("/api/v1/namespaces/n/services/dash/proxy{asked}").parse().unwrap();
            let info = RequestInfo::parse(&http::Method::GET, uri.path(), uri.query().unwrap_or_default());
            let parts = Request::get(uri).body(()).unwrap().into_parts().0;
            let path = path(&info.rest, parts.uri.query());
            let mut call = Call { method: http::Method::GET, query: Vec::new(), name: "dash".into(), body: None, parts, stream: None };
            assert_eq!(forward::request(&mut call, &path).unwrap().uri().to_string(), behind);
        }
    }

    #[test]
    fn the_servers_own_machine_is_no_target() {
        for own in
            ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1", "224.0.0.1", "ff02::1", "0.0.0.0", "::", "localhost"]
        {
            let refused = proxyable(own, false).unwrap_err();
            assert_eq!((refused.code, &*refused.message), (400, "address not allowed"), "{own}");
        }
        assert!(proxyable("10.0.0.1", false).is_ok() && proxyable("fd00::1", false).is_ok());
        // Everything is on one machine.
        assert!(proxyable("127.64.0.9", true).is_ok() && proxyable("169.254.169.254", true).is_err());
    }

    #[test]
    fn a_ready_endpoint_of_the_port_is_chosen() {
        let slice = json!({"ports": [{"name": "p", "port": 8080}], "endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {"ready": false}}, {"addresses": ["10.0.0.2"], "conditions": {}}]});
        let slice = Object::from_value(slice).unwrap();
        assert_eq!(ready_endpoint(&slice, "p"), Some(("10.0.0.2".into(), 8080)));
        assert_eq!(ready_endpoint(&slice, "q"), None);
    }
}
