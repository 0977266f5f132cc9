//! A small API server for tests: things of `ext.example.com/v1` over TLS, for front proxies of one authority only.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use axum::{Router, body::to_bytes};
use component::Shutdown;
use component::serve::Peer;
use component::tls::{ClientAuth, ServerTls};
use futures::StreamExt as _;
use http::{HeaderMap, StatusCode, header};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;

/// Its group.
pub(crate) const GROUP: &str = "ext.example.com";
const V1: &str = "/apis/ext.example.com/v1";

/// The keys of the server and the authority that vouches for it.
pub(crate) struct Keys {
    /// The authority's certificate.
    pub(crate) ca: String,
    certificate: String,
    key: String,
}

impl Keys {
    /// New ones for a host name.
    pub(crate) fn new(host: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "extension-ca");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap().pem();
        Self { ca: authority.pem(), certificate, key: key.serialize_pem() }
    }
}

#[derive(Clone)]
struct World {
    things: Arc<Mutex<BTreeMap<String, Value>>>,
    events: broadcast::Sender<Value>,
}

/// The running server; it ends when dropped.
pub(crate) struct Extension {
    stop: Shutdown,
    runtime: Option<Runtime>,
    /// Where it listens.
    pub(crate) port: u16,
}

impl Extension {
    /// Listens on an address; port 0 takes a free one. Clients must come with a certificate of that authority.
    pub(crate) fn start(address: SocketAddr, keys: &Keys, clients: &Path, directory: &Path) -> Self {
        component::install_crypto_provider();
        let (cert_file, key_file) = (directory.join("extension.crt"), directory.join("extension.key"));
        std::fs::write(&cert_file, &keys.certificate).unwrap();
        std::fs::write(&key_file, &keys.key).unwrap();
        let tls = ServerTls { cert_file, key_file, client_ca_file: Some(clients.to_owned()), client_auth: ClientAuth::Required };
        let tls = tls.load().unwrap();
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind(address)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let world = World { things: Arc::default(), events: broadcast::channel(16).0 };
        let router = Router::new().fallback(serve).with_state(world);
        let stop = Shutdown::new();
        runtime.spawn(component::serve::serve(listener, Some(tls), router, stop.clone(), Duration::ZERO));
        Self { stop, runtime: Some(runtime), port }
    }
}

impl Drop for Extension {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

/// An address of this machine that others could reach; endpoints may not be on loopback.
pub(crate) fn own_address() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind(("0.0.0.0", 0)).ok()?;
    socket.connect(("192.0.2.1", 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

async fn serve(State(world): State<World>, mut request: Request) -> Response {
    if request.extensions().get::<Peer>().is_none_or(|peer| peer.certs.is_empty()) {
        return answer(StatusCode::UNAUTHORIZED, json!({"kind": "Status", "code": 401}));
    }
    let upgrade = request.headers().contains_key(header::UPGRADE).then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let accept = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let path = parts.uri.path();
    let below = path.strip_prefix(V1).unwrap_or_default().trim_matches('/');
    let segments: Vec<&str> = below.split('/').filter(|segment| !segment.is_empty()).collect();
    let watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
    match (parts.method.as_str(), path, segments.as_slice()) {
        ("GET", "/apis", _) if accept.contains("as=APIGroupDiscoveryList") => discovery(),
        ("GET", V1, _) => answer(StatusCode::OK, resources()),
        ("GET", "/openapi/v3", _) => {
            let url = json!({"serverRelativeURL": format!("/openapi/v3{V1}?hash=1")});
            answer(StatusCode::OK, json!({"paths": {V1.trim_start_matches('/'): url}}))
        }
        ("GET", "/openapi/v3/apis/ext.example.com/v1", _) => answer(StatusCode::OK, openapi_v3()),
        ("GET", "/openapi/v2", _) => answer(StatusCode::OK, openapi_v2()),
        ("GET", _, ["things"] | ["namespaces", _, "things"]) if watch => follow(&world),
        ("GET", _, ["things"] | ["namespaces", _, "things"]) => {
            let items: Vec<Value> = world.things.lock().values().cloned().collect();
            answer(StatusCode::OK, json!({"kind": "ThingList", "apiVersion": format!("{GROUP}/v1"), "metadata": {}, "items": items}))
        }
        ("POST", _, ["namespaces", namespace, "things"]) => {
            let bytes = to_bytes(body, 1 << 20).await.unwrap_or_default();
            create(&world, namespace, &bytes, &parts.headers)
        }
        ("GET", _, ["namespaces", _, "things", _, "echo"]) => match upgrade {
            Some(upgrade) => echo(upgrade),
            None => answer(StatusCode::BAD_REQUEST, json!({"kind": "Status", "code": 400})),
        },
        ("GET", _, ["namespaces", _, "things", name]) => match world.things.lock().get(*name) {
            Some(thing) => answer(StatusCode::OK, thing.clone()),
            None => not_found(),
        },
        _ => not_found(),
    }
}

fn answer(code: StatusCode, value: Value) -> Response {
    Response::builder().status(code).header(header::CONTENT_TYPE, "application/json").body(Body::from(value.to_string())).unwrap()
}

fn not_found() -> Response {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not here"});
    answer(StatusCode::NOT_FOUND, status)
}

/// The thing, with what was heard of who made it.
fn create(world: &World, namespace: &str, bytes: &Bytes, headers: &HeaderMap) -> Response {
    let mut thing: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let all = |name: &str| headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>();
    let heard = json!({"user": all("x-remote-user"), "groups": all("x-remote-group"), "authorization": all("authorization")});
    thing["heard"] = heard;
    thing["metadata"]["namespace"] = namespace.into();
    thing["metadata"]["uid"] = "1".into();
    thing["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    let name = thing["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    world.things.lock().insert(name, thing.clone());
    // Nobody may be watching.
    let _ = world.events.send(json!({"type": "ADDED", "object": thing.clone()}));
    answer(StatusCode::CREATED, thing)
}

fn follow(world: &World) -> Response {
    let events = BroadcastStream::new(world.events.subscribe());
    let lines = events.filter_map(|event| async { event.ok().map(|event| Ok::<_, std::io::Error>(format!("{event}\n"))) });
    Response::builder().header(header::CONTENT_TYPE, "application/json").body(Body::from_stream(lines)).unwrap()
}

/// Switches protocols, and says back whatever comes.
fn echo(upgrade: hyper::upgrade::OnUpgrade) -> Response {
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgrade.await.unwrap());
        let mut buffer = [0; 1024];
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            if stream.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    });
    let switched = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    switched.header(header::CONNECTION, "Upgrade").header(header::UPGRADE, "echo").body(Body::empty()).unwrap()
}

const VERBS: [&str; 4] = ["create", "get", "list", "watch"];

fn discovery() -> Response {
    let kind = json!({"group": GROUP, "version": "v1", "kind": "Thing"});
    let resource = json!({
        "resource": "things", "singularResource": "thing", "scope": "Namespaced", "responseKind": kind, "verbs": VERBS, "shortNames": ["th"],
    });
    let group = json!({"metadata": {"name": GROUP}, "versions": [{"version": "v1", "resources": [resource]}]});
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": [group]});
    let content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    Response::builder().header(header::CONTENT_TYPE, content_type).body(Body::from(list.to_string())).unwrap()
}

fn resources() -> Value {
    let thing =
        json!({"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": VERBS, "shortNames": ["th"]});
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1"), "resources": [thing]})
}

fn schema() -> Value {
    json!({
        "type": "object", "description": "A thing of somebody else's.",
        "properties": {"size": {"type": "integer", "format": "int32", "description": "How large it is."}},
        "x-kubernetes-group-version-kind": [{"group": GROUP, "version": "v1", "kind": "Thing"}],
    })
}

fn operation(action: &str) -> Value {
    json!({
        "operationId": format!("{action}Thing"), "x-kubernetes-action": action, "responses": {"200": {"description": "OK"}},
        "x-kubernetes-group-version-kind": {"group": GROUP, "version": "v1", "kind": "Thing"},
    })
}

fn openapi_v3() -> Value {
    let path = format!("{V1}/namespaces/{{namespace}}/things");
    json!({
        "openapi": "3.0.0", "info": {"title": "extension", "version": "v1"}, "paths": {path: {"get": operation("list")}},
        "components": {"schemas": {"com.example.ext.v1.Thing": schema()}},
    })
}

fn openapi_v2() -> Value {
    let mut get = operation("list");
    get["responses"]["200"]["schema"] = json!({"$ref": "#/definitions/com.example.ext.v1.Thing"});
    json!({
        "swagger": "2.0", "info": {"title": "extension", "version": "v1"},
        "paths": {format!("{V1}/namespaces/{{namespace}}/things"): {"get": get}, "/version": {"get": {}}},
        "definitions": {"com.example.ext.v1.Thing": schema(), "com.example.ext.v1.Unused": {"type": "object"}},
    })
}
