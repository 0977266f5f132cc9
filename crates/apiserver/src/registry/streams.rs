//! Streams that go on after their request was answered: exec, attach, port-forward and whatever a proxied server switches to.

use axum::body::Body;
use component::Shutdown;
use http::Response;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Code {
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Way {
    subresource: String,
    proxy_type: &'static str,
}

/// Runs them until the server stops, and counts them under kube-apiserver's names.
#[derive(Clone, Default)]
pub(crate) struct Streams {
    shutdown: Shutdown,
    translations: Family<Code, Counter>,
    tunnels: Family<Code, Counter>,
    websockets: Family<Way, Counter>,
}

/// An extension of an answer whose stream goes on: cancelled at its end. Until then the request counts as being served.
#[derive(Clone)]
pub(crate) struct Running(pub(crate) CancellationToken);

/// Runs what goes on behind `response`.
pub(crate) fn go_on(response: &mut Response<Body>, stream: impl Future<Output = ()> + Send + 'static) {
    let running = CancellationToken::new();
    let end = running.clone().drop_guard();
    response.extensions_mut().insert(Running(running));
    tokio::spawn(async move {
        stream.await;
        drop(end);
    });
}

impl Streams {
    /// Those of a server that stops with `shutdown`.
    pub(crate) fn new(shutdown: Shutdown, registry: &component::metrics::Registry) -> Self {
        let streams = Self { shutdown, ..Self::default() };
        let of = |what: &str| format!("Total number of {what}");
        let names = ["apiserver_stream_translator_requests", "apiserver_stream_tunnel_requests", "apiserver_websocket_streaming_requests"];
        registry.register(names[0], &of("requests of exec and attach carried from WebSocket to SPDY"), streams.translations.clone());
        registry.register(names[1], &of("requests of port-forward tunnelled through WebSockets"), streams.tunnels.clone());
        registry.register(names[2], &of("WebSocket requests of exec, attach and port-forward"), streams.websockets.clone());
        streams
    }

    /// Cancelled when the server stops.
    pub(crate) fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Runs what goes on behind `response`; it has to end by itself when the server stops.
    pub(crate) fn run(&self, response: &mut Response<Body>, stream: impl Future<Output = ()> + Send + 'static) {
        go_on(response, stream);
    }

    /// Counts a command whose WebSocket was carried to SPDY.
    pub(crate) fn count_translation(&self, code: u16) {
        self.translations.get_or_create(&Code { code }).inc();
    }

    /// Counts an answered request for a tunnel.
    pub(crate) fn count_tunnel(&self, code: u16) {
        self.tunnels.get_or_create(&Code { code }).inc();
    }

    /// Counts a WebSocket request by the way it goes.
    pub(crate) fn count_websocket(&self, subresource: &str, proxy_type: &'static str) {
        self.websockets.get_or_create(&Way { subresource: subresource.to_owned(), proxy_type }).inc();
    }
}
