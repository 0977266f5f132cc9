//! At the server's door: what is refused, and what reaches the runtime's streaming server and comes back.

use std::{net::SocketAddr, time::Duration};

use axum::body::Body;
use component::Shutdown;
use http::Method;
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use serde_json::json;
use streaming::remote_command::{self, Outcome};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::{
    node::{
        fixture::{fake_api, hollow_node, node, pod},
        paths::Paths,
    },
    runtime,
};

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n";

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(component::serve::serve(listener, None, router, Shutdown::new(), Duration::ZERO));
    address
}

/// The server of a node with the pod `shop/web`.
async fn door() -> SocketAddr {
    let (client, _) = fake_api();
    let node = hollow_node(1, &client);
    node.pods.set(&node, pod("web", json!({})));
    serve(routes(Streams { nodes: Arc::new([node]) })).await
}

async fn send(to: SocketAddr, method: &Method, path: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: node-1\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// A message's head: lines up to the empty one.
async fn head(stream: &mut TcpStream) -> String {
    let mut text = vec![];
    while !text.ends_with(b"\r\n\r\n") {
        text.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(text).unwrap()
}

/// Code and body of a whole answer.
async fn answer(to: SocketAddr, method: &Method, path: &str) -> (u16, String) {
    let mut stream = send(to, method, path, "Connection: close\r\n").await;
    read_answer(&mut stream).await
}

async fn read_answer(stream: &mut TcpStream) -> (u16, String) {
    let head = head(stream).await.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), String::from_utf8(body).unwrap())
}

#[tokio::test]
async fn what_is_not_there_is_named_as_upstream_does() {
    let door = door().await;
    let plain = |code: u16, text: &str| (code, text.to_owned());
    let one = "you must specify at least 1 of stdin, stdout, stderr";
    for (path, expected) in [
        ("/exec/shop/web/main", plain(400, one)),
        ("/attach/shop/web/main?tty=1&error=1", plain(400, one)),
        ("/exec/shop/gone/main?output=1", plain(404, "pod does not exist")),
        ("/attach/shop/gone/main?output=1", plain(404, "pod does not exist")),
        ("/exec/shop/web/another-uid/main?output=1", plain(404, "pod not found")),
        ("/portForward/shop/gone", plain(404, "pod does not exist")),
        ("/portForward/shop/web/another-uid", plain(404, "pod not found")),
        ("/exec/shop/web/other?output=1&command=ls", plain(500, "container not found (\"other\")")),
        ("/exec/shop/web/uid-web/other?output=1&command=ls", plain(500, "container not found (\"other\")")),
    ] {
        for method in [Method::GET, Method::POST] {
            assert_eq!(answer(door, &method, path).await, expected, "{method} {path}");
        }
    }
    assert_eq!(answer(door, &Method::POST, "/run/shop/gone/main?cmd=ls").await, plain(404, "pod does not exist"));
    assert_eq!(answer(door, &Method::GET, "/run/shop/web/main?cmd=ls").await.0, 405);
}

#[tokio::test]
async fn a_websocket_must_name_its_ports() {
    let door = door().await;
    let headers = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    let mut stream = send(door, &Method::GET, "/portForward/shop/web", headers).await;
    let refused = head(&mut stream).await;
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
}

/// A server that passes every request on to `location`.
async fn passing_on(location: String) -> SocketAddr {
    let handler = move |request: Request| async move { proxy::upgrade(request, &location).await };
    serve(Router::new().fallback(handler)).await
}

#[tokio::test]
async fn bytes_pass_both_ways_untouched_and_half_a_close_passes() {
    let runtime = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let runtime_address = runtime.local_addr().unwrap();
    let door = passing_on(format!("http://{runtime_address}/exec/t0ken")).await;
    let backend = async {
        let mut stream = runtime.accept().await.unwrap().0;
        let asked = head(&mut stream).await.to_lowercase();
        assert!(asked.starts_with("post /exec/t0ken http/1.1"), "{asked}");
        assert!(asked.contains("upgrade: spdy/3.1") && asked.contains("x-stream-protocol-version: v4.channel.k8s.io"), "{asked}");
        assert!(asked.contains(&format!("host: {runtime_address}")) && !asked.contains("authorization"), "{asked}");
        let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n\x00early";
        stream.write_all(switch.as_bytes()).await.unwrap();
        let mut said = vec![];
        stream.read_to_end(&mut said).await.unwrap();
        said.reverse();
        stream.write_all(&said).await.unwrap();
    };
    let client = async {
        let headers = format!("{UPGRADE}Authorization: Bearer secret\r\nContent-Length: 0\r\n");
        let mut stream = send(door, &Method::POST, "/anything", &headers).await;
        let switched = head(&mut stream).await.to_lowercase();
        assert!(switched.starts_with("http/1.1 101 ") && switched.contains("upgrade: spdy/3.1"), "{switched}");
        stream.write_all(b"\xff\x00abc").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut heard = vec![];
        stream.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"\x00earlycba\x00\xff");
    };
    tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(backend, client) }).await.unwrap();
}

#[tokio::test]
async fn an_error_of_the_streaming_server_reaches_the_client_and_other_answers_do_not() {
    for (said, expected) in [
        ("404 Not Found\r\nContent-Length: 5\r\n\r\ngone\n", (404, "gone\n")),
        ("200 OK\r\nContent-Length: 2\r\n\r\nhi", (500, "invalid upgrade response: status code 200\n")),
    ] {
        let runtime = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = passing_on(format!("http://{}/exec/used", runtime.local_addr().unwrap())).await;
        let mut stream = send(door, &Method::GET, "/", UPGRADE).await;
        let mut backend = runtime.accept().await.unwrap().0;
        head(&mut backend).await;
        backend.write_all(format!("HTTP/1.1 {said}").as_bytes()).await.unwrap();
        assert_eq!(read_answer(&mut stream).await, (expected.0, expected.1.to_owned()));
    }
}

#[tokio::test]
async fn only_upgrades_are_passed_on_and_only_to_http() {
    let door = passing_on("https://127.0.0.1:1/exec/x".to_owned()).await;
    assert_eq!(answer(door, &Method::GET, "/").await, (500, "Upgrade request required\n".to_owned()));
    let mut stream = send(door, &Method::GET, "/", UPGRADE).await;
    let wrong = "invalid streaming URL \"https://127.0.0.1:1/exec/x\" of the container runtime\n";
    assert_eq!(read_answer(&mut stream).await, (500, wrong.to_owned()));
}

/// The status line's code of a POST, or the connection that was switched.
async fn post(door: SocketAddr, path: &str) -> Result<TokioIo<hyper::upgrade::Upgraded>, (u16, String)> {
    let stream = TcpStream::connect(door).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let mut request = Request::post(path).body(Body::empty()).unwrap();
    *request.headers_mut() = remote_command::request_headers();
    let mut answer = sender.send_request(request).await.unwrap();
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap()));
    }
    let code = answer.status().as_u16();
    Err((code, String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_in_a_pod_of_plain_processes_is_reached_through_the_door() {
    let root = tempfile::tempdir().unwrap();
    let (client, _) = fake_api();
    let paths = Paths::new(root.path(), root.path().join("logs"));
    let node = node("node-1", runtime::process::tests::open(root.path()), paths, &client);
    let mut web = pod("web", json!({}));
    web.spec.as_mut().unwrap().containers[0].command = Some(vec!["/bin/sleep".into(), "60".into()]);
    node.pods.set(&node, web);
    let door = serve(routes(Streams { nodes: Arc::new([node.clone()]) })).await;
    let path = "/exec/shop/web/main?input=1&output=1&error=1&command=sh&command=-c&command=cat%3B%20exit%203";
    let switched = async {
        loop {
            match post(door, path).await {
                Ok(switched) => return switched,
                // The pod is just starting.
                Err(refused) => assert_eq!(refused, (500, "container not found (\"main\")".to_owned())),
            }
        }
    };
    let switched = tokio::time::timeout(Duration::from_secs(30), switched).await.unwrap();
    let all = remote_command::Streams { stdin: true, stdout: true, stderr: true, tty: false };
    let mut remote = remote_command::connect(switched, all).await.unwrap();
    let mut stdin = remote.stdin.take().unwrap();
    stdin.write_all(b"there and back").await.unwrap();
    stdin.shutdown().await.unwrap();
    let mut heard = String::new();
    remote.stdout.take().unwrap().read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "there and back");
    assert_eq!(remote.end.outcome().await, Outcome::exited(3, "command terminated with exit code 3"));
    assert_eq!(answer(door, &Method::POST, "/run/shop/web/main?cmd=echo+some+words").await, (200, "some words\n".to_owned()));
    let failed = (500, "command 'false' exited with 1: ".to_owned());
    assert_eq!(answer(door, &Method::POST, "/run/shop/web/main?cmd=false").await, failed);
    for sandbox in observed::observe(&*node.cri, "uid-web").await.unwrap().sandboxes {
        node.cri.stop_pod_sandbox(v1::StopPodSandboxRequest { pod_sandbox_id: sandbox.id }).await.unwrap();
    }
}
