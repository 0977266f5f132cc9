//! Bytes to and from peers, counted as they pass by.

use std::task::{Context, Poll};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use prometheus_client::metrics::counter::Counter;
use tonic::{
    body::Body,
    codegen::{Body as HttpBody, Service},
};

use super::{
    peers::{Peers, Wire, WireError},
    removed::Removed,
    stamp::sender,
};
use crate::metrics::{Frames, Metrics, member_label};

/// A connection to a peer that counts, and hears when this member is told that it is none any more.
#[derive(Clone)]
pub(crate) struct Counted {
    wire: Wire,
    sent: Counter,
    received: Counter,
    removed: Removed,
}

impl Counted {
    pub(crate) fn new(wire: Wire, peers: &Peers, peer: u64) -> Self {
        let [sent, received] = counters(peers.metrics(), peer);
        Self { wire, sent, received, removed: peers.removed().clone() }
    }
}

impl Service<http::Request<Body>> for Counted {
    type Response = http::Response<Body>;
    type Error = WireError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.wire.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (sent, received, removed) = (self.sent.clone(), self.received.clone(), self.removed.clone());
        let response = self.wire.call(request.map(|body| Body::new(watched(body, sent))));
        Box::pin(async move {
            let response = response.await?;
            removed.listen(&response);
            Ok(response.map(|body| Body::new(watched(body, received))))
        })
    }
}

/// Counts what a peer asks and is answered.
pub(super) async fn count(State(peers): State<Peers>, request: Request, next: Next) -> Response {
    let peer = sender(request.headers());
    // Names of labels come from members only.
    if !peers.knows(peer) {
        return next.run(request).await;
    }
    peers.heard_from(peer);
    let [sent, received] = counters(peers.metrics(), peer);
    let response = next.run(request.map(|body| axum::body::Body::new(watched(body, received)))).await;
    response.map(|body| axum::body::Body::new(watched(body, sent)))
}

/// Bytes sent to and received from a peer.
fn counters(metrics: &Metrics, peer: u64) -> [Counter; 2] {
    let sent = metrics.peer_sent.get_or_create_owned(&member_label("To", peer));
    [sent, metrics.peer_received.get_or_create_owned(&member_label("From", peer))]
}

fn watched<B: HttpBody<Data = Bytes>>(body: B, counter: Counter) -> impl HttpBody<Data = Bytes, Error = B::Error> {
    let mut frames = Frames::default();
    body.map_frame(move |frame| {
        if let Some(data) = frame.data_ref() {
            counter.inc_by(frames.see(data).1);
        }
        frame
    })
}
