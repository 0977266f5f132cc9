//! Encodings beside JSON: CBOR behind its feature, protobuf before any handler, watches over WebSockets.

use apimachinery::cbor;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};

use super::*;

const SECRETS: &str = "/api/v1/namespaces/a/secrets";
const CBOR: &str = "application/cbor";
const APPLY_CBOR: &str = "application/apply-patch+cbor";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn speaking_cbor() -> Service {
    let loopback = Loopback::default();
    let hub = Hub::new(Arc::new(Memory::new()), "/registry", &Wiring::default(), Chain::default(), loopback.clone());
    api_speaking(Arc::new(hub), &loopback, true)
}

/// An answer as it came.
struct Raw {
    code: u16,
    content_type: String,
    body: Bytes,
}

impl Raw {
    fn of_cbor(&self) -> Value {
        assert_eq!(self.content_type, CBOR, "{:?}", self.body);
        assert!(cbor::is_sealed(&self.body));
        cbor::decode(&self.body).unwrap().to_value()
    }
}

async fn raw(api: &Service, method: &str, url: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Raw {
    let mut request = Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = api.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let content_type = parts.headers[header::CONTENT_TYPE].to_str().unwrap().to_owned();
    Raw { code: parts.status.as_u16(), content_type, body: body.collect().await.unwrap().to_bytes() }
}

/// A request and its answer in CBOR.
async fn ask(api: &Service, method: &str, url: &str, content_type: &str, body: &Value) -> Raw {
    raw(api, method, url, &[("accept", CBOR), ("content-type", content_type)], cbor::encode(body, None)).await
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"k": "AAH/"}})
}

#[tokio::test]
async fn objects_are_written_and_read_in_cbor_where_its_feature_is_on() {
    let api = speaking_cbor();
    let created = ask(&api, "POST", SECRETS, CBOR, &secret("s")).await;
    assert_eq!((created.code, &created.of_cbor()["data"]), (201, &json!({"k": "AAH/"})));
    assert!(created.body.windows(5).any(|part| part == [0xd6, 0x43, 0, 1, 0xff]), "bytes are bytes: {:?}", created.body);
    assert_eq!(get(&api, &format!("{SECRETS}/s")).await.body, created.of_cbor());

    let list = ask(&api, "GET", SECRETS, "", &Value::Null).await.of_cbor();
    assert_eq!((&list["kind"], &list["items"][0]["data"]["k"]), (&json!("SecretList"), &json!("AAH/")));
    let accept = [("accept", "application/cbor;as=Table;v=v1;g=meta.k8s.io")];
    assert_eq!(raw(&api, "GET", SECRETS, &accept, Vec::new()).await.of_cbor()["kind"], "Table");

    let url = format!("{SECRETS}/t?fieldManager=test");
    assert_eq!(ask(&api, "PATCH", &url, APPLY_CBOR, &secret("t")).await.code, 201);
    let other = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "another"}});
    let refused = ask(&api, "DELETE", &format!("{SECRETS}/t"), CBOR, &other).await;
    assert_eq!((refused.code, &refused.of_cbor()["reason"]), (409, &json!("Conflict")));
    assert_eq!(ask(&api, "GET", "/apis/apps", "", &Value::Null).await.of_cbor()["kind"], "APIGroup");
}

#[tokio::test]
async fn a_watch_in_cbor_is_a_sequence_of_items() {
    let api = speaking_cbor();
    post(&api, SECRETS, &secret("s")).await;
    let url = format!("{SECRETS}?watch=1&resourceVersion=0&timeoutSeconds=30");
    let response = api.clone().oneshot(Request::get(url).header("accept", CBOR).body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/cbor-seq");
    let item = response.into_body().into_data_stream().next().await.unwrap().unwrap();
    let event = cbor::decode(&item).unwrap().to_value();
    assert_eq!((&event["type"], &event["object"]["data"]["k"]), (&json!("ADDED"), &json!("AAH/")));
}

#[tokio::test]
async fn cbor_that_cannot_be_read_is_refused() {
    let api = speaking_cbor();
    let broken = |content_type| [("content-type", content_type), ("accept", "application/json")];
    let text = |answer: Raw| (answer.code, serde_json::from_slice::<Value>(&answer.body).unwrap()["message"].as_str().unwrap().to_owned());
    let begun = vec![0xd9, 0xd9, 0xf7, 0xa1];
    assert_eq!(
        text(raw(&api, "POST", SECRETS, &broken(CBOR), begun.clone()).await),
        (400, "the object provided is unrecognized (must be of type Secret): unable to determine group/version/kind: unexpected EOF (d9d9f7a1)".into())
    );
    let url = format!("{SECRETS}/s?fieldManager=test");
    let refused = text(raw(&api, "PATCH", &url, &broken(APPLY_CBOR), begun).await);
    assert_eq!(refused, (400, "error decoding YAML: unexpected EOF".into()));
    let list = raw(&api, "PATCH", &url, &broken(APPLY_CBOR), vec![0x80]).await;
    assert_eq!(text(list).1, "error decoding YAML: cbor: cannot unmarshal array into Go value of type map[string]interface {}");
}

#[tokio::test]
async fn without_its_feature_there_is_no_cbor() {
    let api = api();
    let sent = |content_type| [("content-type", content_type), ("accept", "application/json")];
    let body = cbor::encode(&secret("s"), None);
    let refused = raw(&api, "POST", SECRETS, &sent(CBOR), body.clone()).await;
    assert_eq!((refused.code, refused.content_type.as_str()), (415, "application/json"));
    assert!(!refused.body.windows(4).any(|part| part == b"cbor"), "{:?}", refused.body);
    assert_eq!(raw(&api, "PATCH", &format!("{SECRETS}/s?fieldManager=test"), &sent(APPLY_CBOR), body).await.code, 415);
    assert_eq!(raw(&api, "GET", SECRETS, &[("accept", CBOR)], Vec::new()).await.code, 406);
}

#[tokio::test]
async fn errors_before_any_handler_are_in_protobuf_too() {
    let api = api();
    let plain = ("accept-language", "en");
    let cases = [
        ("GET", "/apis/apps/v9/deployments", 404, plain),
        ("PUT", "/api/v1/nodes", 405, plain),
        ("POST", "/api", 405, plain),
        ("GET", "/api/v1/nodes?timeout=soon", 400, plain),
        ("GET", "/api/v1/nodes", 400, ("impersonate-group", "crew")),
    ];
    for (method, url, code, header) in cases {
        let answer = raw(&api, method, url, &[header, ("accept", PROTOBUF)], Vec::new()).await;
        assert_eq!((answer.code, answer.content_type.as_str()), (code, PROTOBUF), "{method} {url}");
        assert!(apimachinery::protobuf::open(&answer.body).unwrap().kind == "Status", "{method} {url}");
    }
}

#[tokio::test]
async fn there_are_no_watches_in_yaml() {
    let refused = raw(&api(), "GET", &format!("{MAPS}?watch=1"), &[("accept", "application/yaml")], Vec::new()).await;
    assert_eq!((refused.code, refused.content_type.as_str()), (406, "application/yaml"));
}

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// Follows config maps through a connection of its own.
async fn socket(api: &Service, accept: &str) -> (http::HeaderMap, Socket) {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let service = TowerToHyperService::new(api.clone().map_request(|request: Request<Incoming>| request.map(Body::new)));
    tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service).with_upgrades());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let request = Request::get(format!("{MAPS}?watch=1&resourceVersion=0&timeoutSeconds=30"))
        .header(header::HOST, "test")
        .header(header::ACCEPT, accept)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==")
        .header(header::SEC_WEBSOCKET_PROTOCOL, "mine");
    let mut response = sender.send_request(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 101);
    let headers = response.headers().clone();
    let io = hyper::upgrade::on(&mut response).await.unwrap();
    (headers, WebSocketStream::from_raw_socket(TokioIo::new(io), Role::Client, None).await)
}

#[tokio::test]
async fn a_watch_over_a_websocket_sends_a_message_an_event() {
    let api = api();
    post(&api, MAPS, &map("x", "1")).await;
    let (headers, mut socket) = socket(&api, "application/json").await;
    assert_eq!(
        (&headers[header::SEC_WEBSOCKET_PROTOCOL], &headers[header::CONTENT_TYPE]),
        (&"mine".parse().unwrap(), &"application/json".parse().unwrap())
    );
    patch(&api, &format!("{MAPS}/x"), MERGE, &json!({"data": {"k": "2"}})).await;
    for (kind, data) in [("ADDED", "1"), ("MODIFIED", "2")] {
        let Message::Text(text) = socket.next().await.unwrap().unwrap() else { panic!("JSON is text") };
        let event: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((event["type"].as_str(), event["object"]["data"]["k"].as_str()), (Some(kind), Some(data)));
    }
}

#[tokio::test]
async fn a_message_of_protobuf_is_an_event_without_its_length() {
    let api = api();
    post(&api, MAPS, &map("x", "1")).await;
    let (headers, mut socket) = socket(&api, PROTOBUF).await;
    assert_eq!(headers[header::CONTENT_TYPE], "application/vnd.kubernetes.protobuf;stream=watch");
    let Message::Binary(bytes) = socket.next().await.unwrap().unwrap() else { panic!("protobuf is bytes") };
    // WatchEvent's field 1 is its type, field 2 around the object's wrapping.
    assert!(bytes.starts_with(b"\x0a\x05ADDED\x12") && bytes.windows(4).any(|part| part == b"k8s\0"), "{bytes:?}");
}
