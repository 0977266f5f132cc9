//! Serving HTTP/1.1 and HTTP/2, plain or over TLS, until shutdown, then draining.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tower::{Service, ServiceExt};

use crate::Shutdown;
use crate::tls::ReloadingServerConfig;

/// A handshake that takes longer is dropped.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Request headers that take longer end the connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Open connections at most; further ones wait in the listen queue.
const MAX_CONNECTIONS: usize = 16 * 1024;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How HTTP/2 connections are kept.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// Streams on one of them.
    pub max_streams: u32,
    /// How often an idle peer is asked whether it is still there; zero for never.
    pub ask_every: Duration,
    /// How long it has to answer; zero for as long as the library gives it.
    pub answer_within: Duration,
}

/// kube-apiserver's.
impl Default for Connections {
    fn default() -> Self {
        Self { max_streams: 250, ask_every: Duration::from_secs(30), answer_within: Duration::from_secs(20) }
    }
}

impl Connections {
    /// Unread bytes of all streams of a connection together. The library ends a connection on which too many small frames
    /// wait to be read: 256 bytes less its own count for each, up to half of this. Every call may have one.
    fn window(&self) -> u32 {
        self.max_streams.saturating_mul(512).clamp(1 << 20, 32 << 20)
    }

    /// Streams that may end by themselves before they are taken up, and those refused halfway in a connection's life; with
    /// more the library ends the connection and all its calls. Both may befall every call a client may make.
    fn resets(&self) -> (usize, usize) {
        let most = usize::try_from(self.max_streams).unwrap_or(usize::MAX);
        (most.min(1 << 16), most.max(1024))
    }
}

/// Who is at the other end; an extension of every request.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where the connection comes from.
    pub addr: SocketAddr,
    /// The client certificate chain, leaf first; empty without one. It is verified unless certificates may be
    /// [anybody's](crate::tls::ClientAuth::Anybody).
    pub certs: Arc<[CertificateDer<'static>]>,
}

/// Accepts connections and hands their requests to `service` until `shutdown`; then lets running requests finish,
/// for `drain` at the most.
pub async fn serve<S, B>(listener: TcpListener, tls: Option<Arc<ReloadingServerConfig>>, service: S, shutdown: Shutdown, drain: Duration)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    serve_kept(listener, tls, service, shutdown, drain, Connections::default()).await;
}

/// [`serve`] with connections that are kept otherwise.
pub async fn serve_kept<S, B>(
    listener: TcpListener,
    tls: Option<Arc<ReloadingServerConfig>>,
    service: S,
    shutdown: Shutdown,
    drain: Duration,
    kept: Connections,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Some((stream, addr, place)) = accept(&listener, &places, &shutdown).await {
        let (tls, service, watcher) = (tls.clone(), service.clone(), graceful.watcher());
        tokio::spawn(async move {
            let served = match tls {
                Some(tls) => serve_tls(stream, addr, &tls, service, watcher, kept).await,
                None => serve_stream(stream, Peer { addr, certs: Arc::new([]) }, service, watcher, kept).await,
            };
            if let Err(error) = served {
                tracing::debug!(peer = %addr, %error, "connection ended");
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish within {drain:?} of the shutdown");
    }
}

type Accepted = (TcpStream, SocketAddr, OwnedSemaphorePermit);

/// The next connection; `None` once `shutdown` is cancelled.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>, shutdown: &Shutdown) -> Option<Accepted> {
    let next = async {
        let place = places.clone().acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((stream, addr)) => {
                    crate::tcp::prepare(&stream);
                    return Some((stream, addr, place));
                }
                Err(error) => {
                    // Out of file descriptors, mostly: give running connections the time to end.
                    tracing::warn!(%error, "accept connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    };
    tokio::select! { accepted = next => accepted, () = shutdown.cancelled() => None }
}

async fn serve_tls<S, B>(
    stream: TcpStream,
    addr: SocketAddr,
    tls: &ReloadingServerConfig,
    service: S,
    watcher: Watcher,
    kept: Connections,
) -> Result<(), BoxError>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let handshake = TlsAcceptor::from(tls.config()).accept(stream);
    let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await??;
    let certs = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let certs = certs.iter().map(|certificate| certificate.clone().into_owned()).collect();
    serve_stream(stream, Peer { addr, certs }, service, watcher, kept).await
}

async fn serve_stream<I, S, B>(stream: I, peer: Peer, service: S, watcher: Watcher, kept: Connections) -> Result<(), BoxError>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        service.clone().oneshot(request)
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let ask_every = Some(kept.ask_every).filter(|every| !every.is_zero());
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(kept.max_streams).keep_alive_interval(ask_every);
    let (early, halfway) = kept.resets();
    builder.http2().max_pending_accept_reset_streams(early).max_local_error_reset_streams(halfway);
    builder.http2().initial_connection_window_size(kept.window());
    if !kept.answer_within.is_zero() {
        builder.http2().keep_alive_timeout(kept.answer_within);
    }
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    watcher.watch(connection).await
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use axum::{Extension, Router};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn get_root(addr: SocketAddr) -> String {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn serves_with_the_peers_address_and_finishes_running_requests_at_shutdown() {
        let shutdown = Shutdown::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, running) = (shutdown.clone(), Duration::from_millis(50));
        let router = Router::new().route(
            "/",
            get(move |Extension(peer): Extension<Peer>| async move {
                stop.cancel();
                tokio::time::sleep(running).await;
                peer.addr.ip().to_string()
            }),
        );
        let server = tokio::spawn(serve(listener, None, router, shutdown, Duration::from_secs(5)));
        let answer = get_root(addr).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("127.0.0.1"), "{answer}");
        server.await.unwrap();
        assert!(TcpStream::connect(addr).await.is_err());
    }
}
