//! The streams' way through this server: a client's connection in front, a kubelet's behind.

use std::{convert::Infallible, sync::Arc, time::Duration};

use apimachinery::{Object, status::Status};
use async_trait::async_trait;
use axum::body::Body;
use component::Shutdown;
use futures::{SinkExt, StreamExt};
use http::{Method, Request, Response, StatusCode, header, request::Parts};
use hyper::{body::Incoming, service::service_fn, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use streaming::{
    Limits,
    port_forward::TUNNEL,
    remote_command::{self, Outcome, Session, Streams as Wanted},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};

use super::{ANSWER, Kind, Stream, Target, translate, tunnel};
use crate::{
    authz::{Attributes, Authorizer, Decision},
    registry::{Call, Kubelet, Streams, core::forward},
    request::{RequestContext, RequestInfo, UserInfo, parse_query},
};

type Serve = fn(&mut Parts) -> Response<Body>;

/// A kubelet in memory.
enum Node {
    Answers(Serve),
    IsAway,
    IsSilent,
}

/// Serves one connection in memory; yields the answer to one request on it.
async fn ask<F>(mut request: Request<Body>, serve: impl Fn(Parts) -> F + Clone + Send + 'static) -> Response<Body>
where
    F: Future<Output = Response<Body>> + Send,
{
    let (near, far) = duplex(64 * 1024);
    tokio::spawn(async move {
        let service = service_fn(move |request: Request<Incoming>| {
            let serve = serve.clone();
            async move { Ok::<_, Infallible>(serve(request.into_parts().0).await) }
        });
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service).with_upgrades().await
    });
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    request.headers_mut().insert(header::HOST, "test".parse().unwrap());
    sender.send_request(request).await.unwrap().map(Body::new)
}

#[async_trait]
impl Kubelet for Node {
    async fn get(&self, _: &str, _: u16, _: &str) -> Result<Response<Body>, Status> {
        Err(Status::internal("only streams are asked for"))
    }

    async fn send(&self, host: &str, port: u16, request: Request<Body>) -> Result<Response<Body>, String> {
        match *self {
            Self::Answers(serve) => Ok(ask(request, move |mut parts| std::future::ready(serve(&mut parts))).await),
            Self::IsSilent => std::future::pending().await,
            Self::IsAway => Err(format!("dial tcp {host}:{port}: connect: connection refused")),
        }
    }

    fn address_types(&self) -> &[String] {
        &[]
    }
}

/// `cat; exit 3`
fn cat(request: &mut Parts) -> Response<Body> {
    assert_eq!((&request.method, request.uri.path()), (&Method::POST, "/exec/n/p/c"));
    let wanted = Wanted { stdin: true, stdout: true, ..Wanted::default() };
    let (response, opening) = remote_command::accept(request, wanted, Limits::default()).unwrap();
    tokio::spawn(async move {
        let Session { stdin, stdout, client, .. } = opening.await.unwrap();
        tokio::io::copy(&mut stdin.unwrap(), &mut stdout.unwrap()).await.unwrap();
        client.finish(Outcome::exited(3, "exit status 3")).await
    });
    response.map(|()| Body::empty())
}

fn no_container(_: &mut Parts) -> Response<Body> {
    let mut refused = Response::new(Body::from("container not found (\"c\")\n"));
    *refused.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    refused
}

fn unauthorized(_: &mut Parts) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "go away", "code": 401});
    let mut refused = Response::new(Body::from(status.to_string()));
    *refused.status_mut() = StatusCode::UNAUTHORIZED;
    refused
}

fn said(status: Status) -> Response<Body> {
    let mut response = Response::new(Body::from(status.message.clone()));
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap();
    response
}

/// A client that asks for `protocol` through this server.
async fn through(node: Node, protocol: &str, streams: Streams) -> Response<Body> {
    let request = Request::get("/exec?stdin=true&stdout=true")
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==")
        .header(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    let node = Arc::new(node);
    ask(request.body(Body::empty()).unwrap(), move |parts| {
        let patience = if matches!(*node, Node::IsSilent) { Duration::from_millis(1) } else { ANSWER };
        let target = Target { kubelet: node.clone(), host: "10.0.0.1".into(), port: 10250, path: "/exec/n/p/c".into(), patience };
        let query = parse_query(parts.uri.query().unwrap_or_default());
        let mut call = Call { method: Method::GET, query, name: "p".into(), body: None, parts, stream: None };
        let streams = streams.clone();
        async move {
            if tunnel::is_asked_for(&call.parts.headers) {
                return tunnel::open(&mut call, &target, &streams).await.unwrap_or_else(said);
            }
            translate::open(&mut call, target, &streams)
        }
    })
    .await
}

type Socket = WebSocketStream<TokioIo<Upgraded>>;

async fn websocket(node: Node, protocol: &str, streams: Streams) -> Socket {
    let mut response = through(node, protocol, streams).await;
    assert_eq!(response.headers()[header::SEC_WEBSOCKET_PROTOCOL], protocol);
    let io = hyper::upgrade::on(&mut response).await.unwrap();
    WebSocketStream::from_raw_socket(TokioIo::new(io), Role::Client, None).await
}

/// What comes on stdout, and the outcome.
async fn told(mut socket: Socket) -> (Vec<u8>, Value) {
    let (mut output, mut outcome) = (Vec::new(), Value::Null);
    while let Some(message) = socket.next().await {
        let Message::Binary(bytes) = message.unwrap() else { continue };
        match bytes.split_first().unwrap() {
            (1, bytes) => output.extend(bytes),
            (3, bytes) => outcome = serde_json::from_slice(bytes).unwrap(),
            other => panic!("{other:?}"),
        }
    }
    (output, outcome)
}

#[tokio::test]
async fn a_websockets_command_runs_over_spdy_behind() {
    let mut socket = websocket(Node::Answers(cat), "v5.channel.k8s.io", Streams::default()).await;
    socket.send(Message::binary(b"\0in and out".to_vec())).await.unwrap();
    socket.send(Message::binary(vec![255, 0])).await.unwrap();
    let (output, outcome) = told(socket).await;
    assert_eq!(output, b"in and out");
    assert_eq!(outcome["message"], "command terminated with non-zero exit code: command terminated with exit code 3");
    assert_eq!(outcome["details"]["causes"], json!([{"reason": "ExitCode", "message": "3"}]));
}

#[tokio::test]
async fn what_fails_behind_is_the_commands_outcome() {
    let outcome = async |node| told(websocket(node, "v4.channel.k8s.io", Streams::default()).await).await.1;
    let refused = outcome(Node::Answers(no_container)).await;
    assert_eq!(refused["message"], "Internal error occurred: unable to upgrade connection: container not found (\"c\")");
    assert_eq!(outcome(Node::Answers(unauthorized)).await["code"], 401);
    let away = outcome(Node::IsAway).await;
    let cause = "error sending request: Post \"https://10.0.0.1:10250/exec/n/p/c\": dial tcp 10.0.0.1:10250: connect: connection refused";
    assert_eq!(away["message"], format!("Internal error occurred: {cause}"));
}

#[tokio::test]
async fn a_command_is_told_that_the_server_stops() {
    let shutdown = Shutdown::new();
    let streams = Streams::new(shutdown.clone(), &component::metrics::Registry::new());
    let socket = websocket(Node::Answers(cat), "v5.channel.k8s.io", streams).await;
    shutdown.cancel();
    assert_eq!(told(socket).await.1["message"], "Internal error occurred: the server is shutting down");
}

/// Switches to SPDY and says again what it hears, as bytes.
fn echo(request: &mut Parts) -> Response<Body> {
    assert_eq!(request.headers[header::UPGRADE], "SPDY/3.1");
    assert_eq!(request.headers["x-stream-protocol-version"], "portforward.k8s.io");
    let switching = request.extensions.remove::<hyper::upgrade::OnUpgrade>().unwrap();
    tokio::spawn(async move {
        let mut io = TokioIo::new(switching.await.unwrap());
        let mut heard = [0; 5];
        io.read_exact(&mut heard).await.unwrap();
        io.write_all(&heard).await.unwrap();
    });
    let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    let response = response.header(header::CONNECTION, "Upgrade").header(header::UPGRADE, "SPDY/3.1");
    response.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_tunnels_content_is_the_kubelets_connection() {
    let mut socket = websocket(Node::Answers(echo), TUNNEL, Streams::default()).await;
    socket.send(Message::binary(b"hel".to_vec())).await.unwrap();
    socket.send(Message::binary(b"lo".to_vec())).await.unwrap();
    let mut heard = Vec::new();
    while let Some(Ok(Message::Binary(bytes))) = socket.next().await {
        heard.extend(bytes);
    }
    assert_eq!(heard, b"hello");
}

#[tokio::test]
async fn a_kubelet_that_refuses_a_tunnel_answers_the_client() {
    let response = through(Node::Answers(unauthorized), TUNNEL, Streams::default()).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_kubelet_that_does_not_answer_is_not_waited_for_for_ever() {
    let response = through(Node::IsSilent, TUNNEL, Streams::default()).await;
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let body = axum::body::to_bytes(response.into_body(), 1024).await.unwrap();
    assert_eq!(body, "error dialing backend: timeout awaiting response headers");
    let socket = websocket(Node::IsSilent, "v5.channel.k8s.io", Streams::default()).await;
    let message = told(socket).await.1["message"].clone();
    assert!(message.as_str().unwrap().ends_with("timeout awaiting response headers"), "{message}");
}

#[tokio::test]
async fn a_refused_handshake_is_counted_under_its_own_code() {
    let registry = component::metrics::Registry::new();
    let streams = Streams::new(Shutdown::new(), &registry);
    let refused = through(Node::Answers(cat), "v9.channel.k8s.io", streams).await.status();
    assert_eq!(refused, StatusCode::FORBIDDEN);
    let metrics = registry.encode();
    assert!(metrics.contains("apiserver_stream_translator_requests_total{code=\"403\"} 1"), "{metrics}");
}

/// A client whose protocol is the kubelet's own, or that of whatever else is behind this server.
#[tokio::test]
async fn another_protocol_goes_through_as_it_is() {
    let request = Request::post("/portforward")
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "SPDY/3.1")
        .header("x-stream-protocol-version", "portforward.k8s.io");
    let mut response = ask(request.body(Body::empty()).unwrap(), |parts| async {
        let mut call = Call { method: Method::POST, query: Vec::new(), name: "p".into(), body: None, parts, stream: None };
        let behind = Node::Answers(echo).send("10.0.0.1", 10250, forward::request(&mut call, "/portForward/n/p").unwrap()).await;
        forward::answer(&mut call.parts, behind.unwrap(), &Streams::default())
    })
    .await;
    assert_eq!(response.headers()[header::UPGRADE], "SPDY/3.1");
    let mut io = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    io.write_all(b"hello").await.unwrap();
    let mut heard = String::new();
    io.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "hello");
}

/// Allows one verb.
struct Only(&'static str);

#[async_trait]
impl Authorizer for Only {
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.info.verb == self.0 { Decision::Allow(String::new()) } else { Decision::NoOpinion("no rule".into()) }
    }
}

#[tokio::test]
async fn a_websockets_get_needs_the_right_to_create() {
    let info = RequestInfo::parse(&Method::GET, "/api/v1/namespaces/n/pods/p/exec", "");
    let ctx = RequestContext { info, user: UserInfo::new("jane", &[]), ..RequestContext::for_tests() };
    let stream = |verb| Stream { kind: Kind::Exec, kubelet: None, authorizer: Some(Arc::new(Only(verb))), streams: Streams::default() };
    let refused = stream("get").may_create(&ctx).await.unwrap_err();
    assert_eq!((refused.code, refused.message.as_str()), (403, "pods \"p\" is forbidden: no rule"));
    assert!(stream("create").may_create(&ctx).await.is_ok());
}

fn asking(query: &[(&str, &str)]) -> Call {
    let query = query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let (parts, ()) = Request::new(()).into_parts();
    Call { method: Method::GET, query, name: "p".into(), body: None, parts, stream: None }
}

#[test]
fn the_kubelet_has_names_of_its_own() {
    let exec = asking(&[("command", "sh"), ("stdin", "true"), ("command", "-c"), ("stderr", "false"), ("container", "c"), ("tty", "1")]);
    let pod = Object::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}, {"name": "d"}]}})).unwrap();
    let path =
        |kind, call: &Call| Stream { kind, kubelet: None, authorizer: None, streams: Streams::default() }.path("n", &pod, call).unwrap();
    assert_eq!(path(Kind::Exec, &exec), "/exec/n/p/c?command=sh&command=%2Dc&input=1&tty=1");
    assert_eq!(path(Kind::PortForward, &asking(&[("ports", "80"), ("ports", "443")])), "/portForward/n/p?port=80%2C443");
    assert_eq!(path(Kind::PortForward, &asking(&[])), "/portForward/n/p");
}
