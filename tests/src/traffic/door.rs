//! One member's door for clients: history's requests in, its outcomes out.

use std::{fmt, sync::Arc, time::Duration};

use etcd::{
    client::Tls,
    etcdserverpb::{
        Compare as WireCompare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, ResponseHeader, ResponseOp, TxnRequest,
        TxnResponse,
        compare::{CompareResult, CompareTarget, TargetUnion},
        kv_client::KvClient,
        request_op::Request as WireOp,
        response_op::Response as WireFound,
    },
    mvccpb,
};
use tonic::{
    Code, ConnectError, Request as Rpc, Status,
    body::Body,
    client::GrpcService,
    codegen::{Body as HttpBody, Bytes, StdError},
    transport::{Certificate, ClientTlsConfig, Endpoint, Identity},
};
use tower::{ServiceExt as _, util::BoxCloneSyncService};

use crate::history::{Answer, Compare, Event, Found, Kind, Op, Outcome, Pair, Range, Request};

/// A connection is made in this time, and given up when it stays silent twice as long.
const SILENCE: Duration = Duration::from_secs(2);

/// A connection to a member: requests in, responses out.
pub type Way = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Broken>;

/// A connection that could not be made, or broke.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Broken(#[source] pub StdError);

/// A member as its clients reach it. Clones share a connection; [`Door::again`] makes another.
#[derive(Clone)]
pub struct Door {
    name: String,
    connect: Arc<dyn Fn() -> Way + Send + Sync>,
    way: Way,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Door({})", self.name)
    }
}

impl Door {
    /// The member called `name`, at `http://…`, or at `https://…` with keys.
    pub fn new(name: &str, url: &str, tls: Option<&Tls>) -> Self {
        let endpoint = Endpoint::from_shared(url.to_owned()).unwrap();
        let endpoint = endpoint.connect_timeout(SILENCE).http2_keep_alive_interval(SILENCE).keep_alive_timeout(SILENCE).tcp_nodelay(true);
        let endpoint = match tls {
            Some(tls) => endpoint.tls_config(keys(tls)).unwrap(),
            None => endpoint,
        };
        Self::by(name, move || Way::new(endpoint.connect_lazy().map_err(|error| Broken(error.into()))))
    }

    /// The member called `name`, wherever `connect` leads.
    pub fn by(name: &str, connect: impl Fn() -> Way + Send + Sync + 'static) -> Self {
        Self { name: name.to_owned(), way: connect(), connect: Arc::new(connect) }
    }

    /// The member's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its connection.
    pub fn way(&self) -> Way {
        self.way.clone()
    }

    /// The same member, by a connection of its own.
    pub fn again(&self) -> Self {
        Self { way: (self.connect)(), ..self.clone() }
    }

    /// One call, with a client's deadline.
    pub async fn call(&self, request: &Request, deadline: Duration) -> Outcome {
        let kv = KvClient::new(self.way()).max_decoding_message_size(usize::MAX);
        match tokio::time::timeout(deadline, call(kv, request, deadline)).await {
            Ok(Ok(answer)) => Outcome::Done(answer),
            Ok(Err(status)) if surely_nothing(&status) => Outcome::Refused,
            Ok(Err(_)) | Err(_) => Outcome::Unknown,
        }
    }
}

/// One call over any connection, with a client's deadline on it.
pub async fn call<T>(mut kv: KvClient<T>, request: &Request, deadline: Duration) -> Result<Answer, Status>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    // What is one plain step goes the way of its own that the store has for it.
    match &request.then[..] {
        [Op::Get(range)] if request.compare.is_empty() => {
            let range = RangeRequest { serializable: request.serializable, ..wire_range(range) };
            let found = kv.range(limited(range, deadline)).await?.into_inner();
            Ok(plain(found.header, Found::Pairs(found.kvs.into_iter().map(pair).collect())))
        }
        [Op::Put { key, value }] if request.compare.is_empty() => {
            let put = kv.put(limited(wire_put(key, value), deadline)).await?.into_inner();
            Ok(plain(put.header, Found::Put))
        }
        [Op::Delete { key }] if request.compare.is_empty() => {
            let deleted = kv.delete_range(limited(wire_delete(key), deadline)).await?.into_inner();
            Ok(plain(deleted.header, Found::Deleted(deleted.deleted)))
        }
        _ => Ok(answer(kv.txn(limited(wire(request), deadline)).await?.into_inner())),
    }
}

fn keys(tls: &Tls) -> ClientTlsConfig {
    let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.ca));
    match &tls.identity {
        Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
        None => config,
    }
}

fn limited<T>(message: T, deadline: Duration) -> Rpc<T> {
    let mut request = Rpc::new(message);
    request.set_timeout(deadline);
    request
}

/// The request reached no log.
pub fn surely_nothing(status: &Status) -> bool {
    let mut causes = std::iter::successors(std::error::Error::source(status), |error| (*error).source());
    causes.any(|error| error.is::<ConnectError>())
        || matches!(status.code(), Code::ResourceExhausted | Code::InvalidArgument)
        || status.message() == "etcdserver: no leader"
}

fn wire_range(range: &Range) -> RangeRequest {
    RangeRequest { key: range.start.clone().into(), range_end: range.end.clone().into(), ..RangeRequest::default() }
}

fn wire_put(key: &str, value: &str) -> PutRequest {
    PutRequest { key: key.to_owned().into(), value: value.to_owned().into(), ..PutRequest::default() }
}

fn wire_delete(key: &str) -> DeleteRangeRequest {
    DeleteRangeRequest { key: key.to_owned().into(), ..DeleteRangeRequest::default() }
}

fn wire(request: &Request) -> TxnRequest {
    let compare = |compare: &Compare| WireCompare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Mod as i32,
        key: compare.key.clone().into(),
        target_union: Some(TargetUnion::ModRevision(compare.modified)),
        ..WireCompare::default()
    };
    let op = |op: &Op| {
        let request = match op {
            Op::Put { key, value } => WireOp::RequestPut(wire_put(key, value)),
            Op::Delete { key } => WireOp::RequestDeleteRange(wire_delete(key)),
            Op::Get(range) => WireOp::RequestRange(wire_range(range)),
        };
        RequestOp { request: Some(request) }
    };
    TxnRequest {
        compare: request.compare.iter().map(compare).collect(),
        success: request.then.iter().map(op).collect(),
        failure: request.otherwise.iter().map(op).collect(),
    }
}

fn answer(response: TxnResponse) -> Answer {
    let found = |op: ResponseOp| match op.response {
        Some(WireFound::ResponseRange(range)) => Found::Pairs(range.kvs.into_iter().map(pair).collect()),
        Some(WireFound::ResponseDeleteRange(deleted)) => Found::Deleted(deleted.deleted),
        Some(WireFound::ResponsePut(_)) => Found::Put,
        other => panic!("answered with {other:?}"),
    };
    Answer {
        revision: response.header.unwrap_or_default().revision,
        succeeded: response.succeeded,
        results: response.responses.into_iter().map(found).collect(),
    }
}

fn plain(header: Option<ResponseHeader>, found: Found) -> Answer {
    Answer { revision: header.unwrap_or_default().revision, succeeded: true, results: vec![found] }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn pair(kv: mvccpb::KeyValue) -> Pair {
    Pair { key: text(&kv.key), value: text(&kv.value), created: kv.create_revision, modified: kv.mod_revision, version: kv.version }
}

/// An event off the wire.
pub fn event(event: mvccpb::Event) -> Event {
    let kind = if event.r#type() == mvccpb::event::EventType::Delete { Kind::Delete } else { Kind::Put };
    Event { kind, pair: pair(event.kv.unwrap_or_default()), before: event.prev_kv.map(pair) }
}
