//! One connection: calls there, answers back, both as streams of frames that keep their order.

use std::{io, pin::pin, sync::Arc, time::Duration};

use axum::extract::Request;
use bytes::Bytes;
use component::Shutdown;
use futures::stream;
use http::Response;
use http_body::{Body as HttpBody, Frame};
use http_body_util::{BodyExt as _, Full, StreamBody};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until},
};
use tonic::body::Body;
use tower::ServiceExt as _;

use super::{
    network::{Life, Listener, Network, Place, Port},
    tally::Happening,
};

/// Frames under way on one stream at most.
const WINDOW: usize = 32;
/// A message that arrives twice does so within this time.
const ECHO: Duration = Duration::from_secs(1);
/// Messages of consensus, which must bear it to be heard twice. A forwarded proposal need not: no transport repeats it.
const REPEATABLE: [&str; 5] =
    ["/raft.v1.Peer/Append", "/raft.v1.Peer/Vote", "/raft.v1.Peer/PreVote", "/raft.v1.Peer/TransferLeader", "/raft.v1.Peer/ReadIndex"];

/// How a snapshot is sent.
const SNAPSHOT: &str = "/raft.v1.Peer/InstallSnapshot";

/// A connection between two processes.
pub(super) struct Connection {
    network: Network,
    client: Life,
    server: Life,
    routes: axum::Router,
    broken: Shutdown,
}

/// A frame and when it arrives.
type Sent = (Instant, io::Result<Frame<Bytes>>);

fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

impl Connection {
    pub(super) fn new(network: Network, client: Life, listener: Listener, port: Port) -> Self {
        let routes = match port {
            Port::Peers => listener.peers,
            Port::Clients => listener.clients,
        };
        Self { network, client, server: listener.life, routes, broken: Shutdown::new() }
    }

    /// Who dialled.
    pub(super) fn from(&self) -> Place {
        self.client.place
    }

    /// Who was dialled.
    pub(super) fn to(&self) -> Place {
        self.server.place
    }

    /// Both ends notice that it is of no use any more.
    pub(super) fn break_off(&self) {
        if !self.is_broken() {
            self.network.tally().count(Happening::BrokenConnection);
            self.broken.cancel();
        }
    }

    /// It is of no use any more.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_cancelled()
    }

    /// One call. Whoever drops it before it is done cancels it, which the other side learns later.
    pub(super) async fn call(self: Arc<Self>, request: http::Request<Body>) -> io::Result<Response<Body>> {
        if self.is_broken() || self.client.ended.is_cancelled() {
            return Err(reset());
        }
        let request = if REPEATABLE.contains(&request.uri().path()) { self.maybe_twice(request).await } else { request };
        let request = request.map(|body| self.pump(body, &self.client, self.to()));
        let (tell, told) = oneshot::channel();
        tokio::spawn(self.clone().serve(request, tell));
        tokio::select! {
            biased;
            () = self.broken.cancelled() => Err(reset()),
            response = told => response.map_err(|_| reset()),
        }
    }

    /// Lets a message arrive a second time, where chance has it.
    async fn maybe_twice(self: &Arc<Self>, request: http::Request<Body>) -> http::Request<Body> {
        let (head, body) = request.into_parts();
        // A single message is complete when it is sent.
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let request = || http::Request::from_parts(head.clone(), Body::new(Full::new(body.clone())));
        if self.network.repeats() {
            self.network.tally().count(Happening::MessageRepeated);
            let (connection, again, after) = (self.clone(), request(), self.network.some_time(ECHO));
            tokio::spawn(async move {
                sleep(after).await;
                let (tell, _told) = oneshot::channel();
                connection.serve(again, tell).await;
            });
        }
        request()
    }

    /// What becomes of a call on its way and on the other side.
    async fn serve(self: Arc<Self>, request: http::Request<Body>, mut tell: oneshot::Sender<Response<Body>>) {
        self.network.note(self.from(), self.to(), request.uri().path().as_bytes());
        let snapshot = request.uri().path() == SNAPSHOT;
        let response = tokio::select! {
            biased;
            () = self.broken.cancelled() => return,
            response = self.handle(request, &mut tell) => response,
        };
        if let Some(response) = response {
            self.network.tally().add(Happening::Snapshot, u64::from(snapshot));
            // Gone when it did not want to wait.
            let _ = tell.send(response.map(|body| self.pump(body, &self.server, self.from())));
        }
    }

    /// The answer, when it has come back; none when the call was cancelled.
    async fn handle(&self, request: http::Request<Body>, tell: &mut oneshot::Sender<Response<Body>>) -> Option<Response<axum::body::Body>> {
        self.travel(self.from(), self.to()).await;
        let cancelled = async {
            tell.closed().await;
            self.travel(self.from(), self.to()).await;
        };
        let response = tokio::select! {
            biased;
            // Who cares for it finds out when the connection breaks.
            () = self.server.ended.cancelled() => std::future::pending().await,
            response = self.routes.clone().oneshot(request.map(axum::body::Body::new) as Request) => response,
            () = cancelled => return None,
        };
        self.travel(self.to(), self.from()).await;
        Some(response.unwrap_or_else(|never| match never {}))
    }

    /// Returns when a message has arrived, unless the connection breaks over it.
    async fn travel(&self, from: Place, to: Place) {
        match self.network.depart(from, to).await {
            Some(delay) => sleep(delay).await,
            None => {
                self.break_off();
                std::future::pending().await
            }
        }
    }

    /// The far end of a stream that `sender` sends.
    fn pump<B>(self: &Arc<Self>, body: B, sender: &Life, to: Place) -> Body
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Send,
    {
        let (frames, received) = mpsc::channel(WINDOW);
        tokio::spawn(self.clone().send(body, sender.clone(), to, frames));
        let connection = self.clone();
        let received = stream::unfold(Some(received), move |received| {
            let connection = connection.clone();
            async move {
                let mut received = received?;
                let next = async {
                    let (arrives, frame): Sent = received.recv().await?;
                    sleep_until(arrives).await;
                    Some(frame)
                };
                let next = tokio::select! {
                    biased;
                    () = connection.broken.cancelled() => Some(Err(reset())),
                    next = next => next,
                };
                next.map(|frame| if frame.is_ok() { (frame, Some(received)) } else { (frame, None) })
            }
        });
        Body::new(StreamBody::new(received))
    }

    async fn send<B>(self: Arc<Self>, body: B, sender: Life, to: Place, frames: mpsc::Sender<Sent>)
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Send,
    {
        let work = async {
            let (mut body, mut arrives) = (pin!(body), Instant::now());
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|_| reset());
                let data = frame.as_ref().ok().and_then(Frame::data_ref);
                self.network.note(sender.place, to, data.map_or(&[], |data| &data[..]));
                let Some(delay) = self.network.depart(sender.place, to).await else { return self.break_off() };
                arrives = arrives.max(Instant::now() + delay);
                if frames.send((arrives, frame)).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = self.broken.cancelled() => {}
            // It does not even end.
            () = sender.ended.cancelled() => self.broken.cancelled().await,
            () = frames.closed() => {}
            () = work => {}
        }
    }
}
