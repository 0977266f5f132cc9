//! Counts calls under the names etcd's gRPC server has for them.

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use component::metrics::Registry;
use http::HeaderMap;
use http_body_util::BodyExt;
use prometheus_client::metrics::{counter::Counter, family::Family};
use tonic::Code;

/// Every method that is served, with its kind. Others are not counted: their names come from outside.
const METHODS: [(&str, &str, &str); 36] = [
    ("etcdserverpb.KV", "Range", "unary"),
    ("etcdserverpb.KV", "Put", "unary"),
    ("etcdserverpb.KV", "DeleteRange", "unary"),
    ("etcdserverpb.KV", "Txn", "unary"),
    ("etcdserverpb.KV", "Compact", "unary"),
    ("etcdserverpb.Watch", "Watch", "bidi_stream"),
    ("etcdserverpb.Lease", "LeaseGrant", "unary"),
    ("etcdserverpb.Lease", "LeaseRevoke", "unary"),
    ("etcdserverpb.Lease", "LeaseKeepAlive", "bidi_stream"),
    ("etcdserverpb.Lease", "LeaseTimeToLive", "unary"),
    ("etcdserverpb.Lease", "LeaseLeases", "unary"),
    ("etcdserverpb.Cluster", "MemberAdd", "unary"),
    ("etcdserverpb.Cluster", "MemberRemove", "unary"),
    ("etcdserverpb.Cluster", "MemberUpdate", "unary"),
    ("etcdserverpb.Cluster", "MemberList", "unary"),
    ("etcdserverpb.Cluster", "MemberPromote", "unary"),
    ("etcdserverpb.Maintenance", "Alarm", "unary"),
    ("etcdserverpb.Maintenance", "Status", "unary"),
    ("etcdserverpb.Maintenance", "Defragment", "unary"),
    ("etcdserverpb.Maintenance", "Hash", "unary"),
    ("etcdserverpb.Maintenance", "HashKV", "unary"),
    ("etcdserverpb.Maintenance", "Snapshot", "server_stream"),
    ("etcdserverpb.Maintenance", "MoveLeader", "unary"),
    ("etcdserverpb.Maintenance", "Downgrade", "unary"),
    ("v3lockpb.Lock", "Lock", "unary"),
    ("v3lockpb.Lock", "Unlock", "unary"),
    ("v3electionpb.Election", "Campaign", "unary"),
    ("v3electionpb.Election", "Proclaim", "unary"),
    ("v3electionpb.Election", "Leader", "unary"),
    ("v3electionpb.Election", "Observe", "server_stream"),
    ("v3electionpb.Election", "Resign", "unary"),
    ("etcdserverpb.Auth", "AuthEnable", "unary"),
    ("etcdserverpb.Auth", "AuthDisable", "unary"),
    ("etcdserverpb.Auth", "AuthStatus", "unary"),
    ("etcdserverpb.Auth", "Authenticate", "unary"),
    ("etcdserverpb.Auth", "UserList", "unary"),
];

type Labels<const N: usize> = [(&'static str, &'static str); N];

/// The counters; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    started: Family<Labels<3>, Counter>,
    handled: Family<Labels<4>, Counter>,
}

impl Calls {
    /// Registers the counters.
    pub(crate) fn register(registry: &Registry) -> Self {
        let calls = Self::default();
        let help = "Total number of RPCs started on the server";
        registry.register("grpc_server_started", help, calls.started.clone());
        let help = "Total number of RPCs completed on the server, regardless of success or failure";
        registry.register("grpc_server_handled", help, calls.handled.clone());
        calls
    }

    fn ended(&self, [service, method, kind]: Labels<3>, trailers: &HeaderMap) {
        let status = trailers.get("grpc-status").map_or(Code::Unknown, |status| Code::from_bytes(status.as_bytes()));
        self.handled.get_or_create(&[("grpc_code", name(status)), method, service, kind]).inc();
    }
}

/// Go's name of a code.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

/// Counts one call at its start and, by the code in its trailers, at its end.
pub(super) async fn count(State(calls): State<Calls>, request: Request, next: Next) -> Response {
    let mut path = request.uri().path().trim_start_matches('/').splitn(2, '/');
    let (service, method) = (path.next().unwrap_or_default(), path.next().unwrap_or_default());
    let Some((service, method, kind)) = METHODS.iter().find(|known| known.0 == service && known.1 == method) else {
        return next.run(request).await;
    };
    let labels = [("grpc_service", *service), ("grpc_method", *method), ("grpc_type", *kind)];
    calls.started.get_or_create(&labels).inc();
    let response = next.run(request).await;
    if response.headers().contains_key("grpc-status") {
        calls.ended(labels, response.headers());
        return response;
    }
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            if let Some(trailers) = frame.trailers_ref() {
                calls.ended(labels, trailers);
            }
            frame
        }))
    })
}
