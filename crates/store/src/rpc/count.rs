//! Counts calls, their messages and bytes under the names etcd's gRPC server has for them, and logs slow ones.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use component::{metrics::Registry, serve::Peer};
use http::HeaderMap;
use http_body_util::BodyExt;
use parking_lot::RwLock;
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};
use tonic::{Code, Status};

use super::methods::{METHODS, code_name};
use crate::{
    metrics::{Frames, KnownLabels, Metrics},
    refusal::Refusal,
};

/// Versions of clients counted apart; their names come from outside, too.
const VERSIONS: usize = 64;
/// Bounds of the histogram of durations, in seconds; those of Prometheus' libraries.
const SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

type Durations = Family<KnownLabels<3>, Histogram, fn() -> Histogram>;

/// The counters.
#[derive(Debug)]
pub(crate) struct Calls {
    methods: Vec<Method>,
    handled: Family<KnownLabels<4>, Counter>,
    /// How long calls take, where that is wanted.
    durations: Option<Durations>,
    metrics: Metrics,
    /// Requests by version of the client: unary ones, streams.
    versions: RwLock<HashMap<String, [Counter; 2]>>,
    /// A unary call that takes longer is logged.
    slow: Duration,
}

/// What is counted of one method.
#[derive(Debug)]
struct Method {
    service: &'static str,
    name: &'static str,
    kind: &'static str,
    started: Counter,
    received: Counter,
    sent: Counter,
}

impl Method {
    fn unary(&self) -> bool {
        self.kind == "unary"
    }

    fn labels(&self) -> KnownLabels<3> {
        [("grpc_method", self.name), ("grpc_service", self.service), ("grpc_type", self.kind)]
    }
}

impl Calls {
    /// Registers the counters, those of every method at 0.
    pub(crate) fn register(registry: &Registry, metrics: Metrics, extensive: bool, slow: Duration) -> Arc<Self> {
        let family = |name, help| {
            let family = Family::<KnownLabels<3>, Counter>::default();
            registry.register_counter(name, help, family.clone());
            family
        };
        let started = family("grpc_server_started_total", "Total number of RPCs started on the server");
        let received = family("grpc_server_msg_received_total", "Total number of RPC stream messages received on the server");
        let sent = family("grpc_server_msg_sent_total", "Total number of gRPC stream messages sent by the server");
        let handled = Family::<KnownLabels<4>, Counter>::default();
        let help = "Total number of RPCs completed on the server, regardless of success or failure";
        registry.register_counter("grpc_server_handled_total", help, handled.clone());
        let durations = extensive.then(|| Durations::new_with_constructor(|| Histogram::new(SECONDS)));
        if let Some(durations) = &durations {
            let help = "Histogram of response latency (seconds) of gRPC that had been application-level handled by the server";
            registry.register("grpc_server_handling_seconds", help, durations.clone());
        }
        let method = |&(service, name, kind): &(&'static str, &'static str, &'static str)| {
            let labels = [("grpc_method", name), ("grpc_service", service), ("grpc_type", kind)];
            let (started, received) = (started.get_or_create_owned(&labels), received.get_or_create_owned(&labels));
            let method = Method { service, name, kind, started, received, sent: sent.get_or_create_owned(&labels) };
            drop(handled.get_or_create(&with_code(Code::Ok, &method)));
            method
        };
        let methods = METHODS.iter().map(method).collect();
        Arc::new(Self { methods, handled, durations, metrics, versions: RwLock::default(), slow })
    }

    /// Where the method of a path is among those counted.
    fn find(&self, path: &str) -> Option<usize> {
        let (service, name) = path.strip_prefix('/')?.split_once('/')?;
        self.methods.iter().position(|method| method.service == service && method.name == name)
    }

    fn count_version(&self, headers: &HeaderMap, unary: bool) -> Result<(), Refusal> {
        let version = headers.get("client-api-version").map_or(Ok("unknown"), |version| std::str::from_utf8(version.as_bytes()));
        let version = version.map_err(|_| Refusal::InvalidClientApiVersion)?;
        let at = usize::from(!unary);
        if let Some(counters) = self.versions.read().get(version) {
            counters[at].inc();
            return Ok(());
        }
        let mut versions = self.versions.write();
        let version = if versions.len() < VERSIONS { version } else { "unknown" };
        let counter = |kind: &str| {
            let labels = vec![("client_api_version", version.to_owned()), ("type", kind.to_owned())];
            self.metrics.client_requests.get_or_create_owned(&labels)
        };
        versions.entry(version.to_owned()).or_insert_with(|| [counter("unary"), counter("stream")])[at].inc();
        Ok(())
    }
}

fn with_code(code: Code, method: &Method) -> KnownLabels<4> {
    let [name, service, kind] = method.labels();
    [("grpc_code", code_name(code)), name, service, kind]
}

/// A call under way. One that is dropped before its end was cancelled.
struct Call {
    calls: Arc<Calls>,
    method: usize,
    start: Instant,
    remote: Option<SocketAddr>,
    received: Arc<AtomicU64>,
    sent: u64,
    ended: bool,
}

impl Call {
    fn begin(calls: Arc<Calls>, method: usize, request: &Request) -> Self {
        let remote = request.extensions().get::<Peer>().map(|peer| peer.addr);
        calls.methods[method].started.inc();
        Self { calls, method, start: Instant::now(), remote, received: Arc::default(), sent: 0, ended: false }
    }

    fn method(&self) -> &Method {
        &self.calls.methods[self.method]
    }

    /// Counts the messages of a request's body as they come in.
    fn receive(&self, request: Request) -> Request {
        let (calls, method, received, mut frames) = (self.calls.clone(), self.method, self.received.clone(), Frames::default());
        request.map(|body| {
            Body::new(body.map_frame(move |frame| {
                if let Some(data) = frame.data_ref() {
                    let (messages, bytes) = frames.see(data);
                    calls.methods[method].received.inc_by(messages);
                    calls.metrics.client_received.inc_by(bytes);
                    received.fetch_add(bytes, Relaxed);
                }
                frame
            }))
        })
    }

    /// Counts the messages of the answer as they go out, and how it ends.
    fn answer(mut self, response: Response) -> Response {
        if let Some(code) = code(response.headers()) {
            self.end(code);
            return response;
        }
        let mut frames = Frames::default();
        response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                if let Some(data) = frame.data_ref() {
                    let (messages, bytes) = frames.see(data);
                    self.method().sent.inc_by(messages);
                    self.calls.metrics.client_sent.inc_by(bytes);
                    self.sent += bytes;
                }
                if let Some(trailers) = frame.trailers_ref() {
                    self.end(code(trailers).unwrap_or(Code::Unknown));
                }
                frame
            }))
        })
    }

    fn end(&mut self, code: Code) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let took = self.start.elapsed();
        self.calls.handled.get_or_create(&with_code(code, self.method())).inc();
        if let Some(durations) = &self.calls.durations {
            durations.get_or_create(&self.method().labels()).observe(took.as_secs_f64());
        }
        if self.method().unary() && took > self.calls.slow {
            tracing::warn!(
                ?took,
                remote = ?self.remote,
                method = format!("/{}/{}", self.method().service, self.method().name),
                request_size = self.received.load(Relaxed),
                response_size = self.sent,
                code = code_name(code),
                "request stats"
            );
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.end(Code::Cancelled);
    }
}

/// How an answer ended, where that is said.
fn code(headers: &HeaderMap) -> Option<Code> {
    headers.get("grpc-status").map(|status| Code::from_bytes(status.as_bytes()))
}

/// Counts one call.
pub(super) async fn count(State(calls): State<Arc<Calls>>, request: Request, next: Next) -> Response {
    let Some(method) = calls.find(request.uri().path()) else { return next.run(request).await };
    if let Err(refusal) = calls.count_version(request.headers(), calls.methods[method].unary()) {
        return Status::from(refusal).into_http::<Body>().into_response();
    }
    let call = Call::begin(calls, method, &request);
    let request = call.receive(request);
    let response = next.run(request).await;
    call.answer(response)
}
