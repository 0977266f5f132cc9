//! A way back: members that can be dialed call on it those that cannot.
//!
//! A member that hears nothing of a peer dials it and asks to be called on that connection; from then on who dialed serves
//! it. So, as in etcd, a cluster works where only one of two members reaches the other.

use std::{collections::BTreeMap, io, time::Duration};

use anyhow::ensure;
use axum::{
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use component::tls;
use http::{
    HeaderMap, StatusCode, Uri,
    header::{CONNECTION, HOST, UPGRADE},
};
use http_body_util::Empty;
use hyper::{
    client::conn::{http1, http2},
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::TcpStream,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tonic::body::Body;
use tower::{BoxError, service_fn};

use super::{
    member::RaftNode,
    membership::Identity,
    peers::{CONNECT_TIMEOUT, KEEP_ALIVE, PeerTls, Peers, Wire, WireError},
    stamp::{CLUSTER, FROM, TO, sender},
    types::Member,
};

/// Where a way back is offered.
pub(super) const PATH: &str = "/raft/way-back";
const PROTOCOL: &str = "store-peer";
/// A round of probes, with one peer that does not answer, takes seven seconds at most: one that says nothing for longer cannot reach
/// this member, or does not run.
const SILENT: Duration = Duration::from_secs(8);
/// Many times what hyper takes for one stream.
const CONNECTION_WINDOW: u32 = 32 << 20;
/// Calls that were given up before they were taken; at its own limit the library ends the connection.
const MAX_RESETS: usize = 1 << 16;
/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// To dial, ask and be answered.
const HANDSHAKE: Duration = Duration::from_secs(3);

/// Calls to a member on a connection that it made.
pub(super) type WayBack = http2::SendRequest<Body>;

/// A bare connection to a peer.
pub(crate) type Bare = Box<dyn Duplex>;

/// Bytes in both directions.
pub(crate) trait Duplex: hyper::rt::Read + hyper::rt::Write + Unpin + Send {}

impl<T: hyper::rt::Read + hyper::rt::Write + Unpin + Send> Duplex for T {}

/// Makes a bare connection.
pub(super) async fn connect(url: &str, files: &PeerTls) -> io::Result<Bare> {
    let uri: Uri = url.parse().map_err(io::Error::other)?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    if uri.scheme_str() == Some("https") {
        let config = files.config().map_err(io::Error::other)?;
        return Ok(Box::new(tls::client::connect(host, uri.port_u16().unwrap_or(443), config, CONNECT_TIMEOUT).await?));
    }
    Ok(Box::new(TokioIo::new(TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await?)))
}

/// Offers a way back to every peer that is silent, until the member stops.
pub(super) async fn offer(node: RaftNode) {
    let mut offered = BTreeMap::<u64, JoinHandle<()>>::new();
    while !node.stopped() {
        sleep(LOOK).await;
        offered.retain(|_, task| !task.is_finished());
        for (id, member, _) in node.members() {
            let silent = id != node.identity().member_id && node.peers().silence_of(id) > SILENT;
            if silent && !offered.contains_key(&id) {
                offered.insert(id, tokio::spawn(serve(node.clone(), id, member)));
            }
        }
    }
    offered.into_values().for_each(|task| task.abort());
}

async fn serve(node: RaftNode, id: u64, member: Member) {
    let peer = format!("{id:x}");
    let connection = match timeout(HANDSHAKE, turned(&node, id, &member)).await.map_err(anyhow::Error::from).flatten() {
        Ok(Some(connection)) => connection,
        Ok(None) => return,
        Err(error) => return tracing::debug!(peer, %error, "offer a way back"),
    };
    tracing::info!(peer, "a peer that cannot reach this member calls it on a connection from here");
    let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    server.timer(TokioTimer::new()).keep_alive_interval(KEEP_ALIVE).keep_alive_timeout(KEEP_ALIVE);
    // All lanes share it: bytes of a snapshot that nobody has read yet must leave room for heartbeats.
    server.initial_connection_window_size(CONNECTION_WINDOW).max_concurrent_streams(u32::MAX);
    server.max_pending_accept_reset_streams(MAX_RESETS).max_local_error_reset_streams(None);
    let ended = server.serve_connection(connection, TowerToHyperService::new(node.peer_router())).await;
    tracing::info!(peer, ?ended, "the way back is gone");
}

/// A connection to a peer that has agreed to call there; none where nobody dials so.
async fn turned(node: &RaftNode, id: u64, member: &Member) -> anyhow::Result<Option<Upgraded>> {
    let Some(bare) = node.peers().bare(id, member).await else { return Ok(None) };
    let (mut asking, connection) = http1::handshake(bare?).await?;
    tokio::spawn(connection.with_upgrades());
    let Identity { cluster_id, member_id } = *node.identity();
    let request = http::Request::get(PATH).header(HOST, "peer").header(CONNECTION, "upgrade").header(UPGRADE, PROTOCOL);
    let request = request.header(CLUSTER, cluster_id).header(TO, id).header(FROM, member_id).body(Empty::<Bytes>::new())?;
    let answer = asking.send_request(request).await?;
    node.peers().removed().listen(&answer);
    ensure!(answer.status() == StatusCode::SWITCHING_PROTOCOLS, "it says {}", answer.status());
    Ok(Some(hyper::upgrade::on(answer).await?))
}

/// Takes a way back that a member offers.
pub(super) async fn accept(State(node): State<RaftNode>, mut request: Request) -> Response {
    let (identity, from) = (node.identity(), sender(request.headers()));
    let meant =
        number(request.headers(), CLUSTER) == Some(identity.cluster_id) && number(request.headers(), TO) == Some(identity.member_id);
    if !meant || !node.peers().knows(from) {
        return (StatusCode::PRECONDITION_FAILED, "etcdserver: cluster ID mismatch").into_response();
    }
    if request.headers().get(UPGRADE).is_none_or(|protocol| protocol != PROTOCOL) {
        return StatusCode::UPGRADE_REQUIRED.into_response();
    }
    tokio::spawn(take(node.peers().clone(), from, hyper::upgrade::on(&mut request)));
    (StatusCode::SWITCHING_PROTOCOLS, [(CONNECTION, "upgrade"), (UPGRADE, PROTOCOL)]).into_response()
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

async fn take(peers: Peers, from: u64, upgrade: OnUpgrade) {
    let mut client = http2::Builder::new(TokioExecutor::new());
    client.timer(TokioTimer::new()).keep_alive_interval(KEEP_ALIVE).keep_alive_timeout(KEEP_ALIVE).keep_alive_while_idle(true);
    let turn = async { Ok::<_, BoxError>(client.handshake(upgrade.await?).await?) };
    let (calls, connection) = match timeout(HANDSHAKE, turn).await.map_err(BoxError::from).flatten() {
        Ok(turned) => turned,
        Err(error) => return tracing::debug!(peer = format!("{from:x}"), %error, "take a way back"),
    };
    peers.lay_way_back(from, calls);
    let ended = connection.await;
    tracing::debug!(peer = format!("{from:x}"), ?ended, "a way back is gone");
}

/// The way back as a connection like others.
pub(super) fn wire(calls: WayBack) -> Wire {
    let call = |mut calls: WayBack, request: http::Request<Body>| async move {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        parts.uri = Uri::builder().scheme("http").authority("peer").path_and_query(path).build().map_err(BoxError::from)?;
        calls.ready().await.map_err(BoxError::from)?;
        let answer = calls.send_request(http::Request::from_parts(parts, body)).await.map_err(BoxError::from)?;
        Ok::<_, WireError>(answer.map(Body::new))
    };
    Wire::new(service_fn(move |request| call(calls.clone(), request)))
}
