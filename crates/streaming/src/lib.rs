//! The streams of exec, attach and port-forward, as kubectl, the API server, kubelets and container runtimes speak them:
//! SPDY/3.1 and WebSocket. Bytes and protocol names only; what runs behind them is the caller's affair.
//!
//! Whoever runs a command answers an upgrade request with [`remote_command::accept`]. The response goes back at once, the
//! session opens when the client has taken it; which transport and protocol version it is makes no difference:
//!
//! ```ignore
//! async fn exec(request: axum::extract::Request) -> axum::response::Response {
//!     let (mut parts, _) = request.into_parts();
//!     let wanted = Streams { stdin: true, stdout: true, stderr: true, tty: false };
//!     let (response, opening) = match remote_command::accept(&mut parts, wanted, Limits::default()) {
//!         Ok(accepted) => accepted,
//!         Err(refused) => return refused.map(Body::from), // 400 or 403 in upstream's words
//!     };
//!     tokio::spawn(async move {
//!         let Session { stdin, stdout, stderr, resize, client } = opening.await?;
//!         // stdin, resize: AsyncRead, at its end when the client closes its half; stdout, stderr: AsyncWrite.
//!         // `resize` can be read as `Resizes::new(resize)`, whose `next()` yields terminal sizes.
//!         let code = tokio::select! {
//!             code = run(stdin, stdout, stderr) => code,
//!             () = client.gone() => return Ok(()), // kill the command
//!         };
//!         // Drop or shut down the writers first: what they were given is on its way before the outcome is.
//!         client.finish(Outcome::exited(code, "exit status 3")).await // or Outcome::Success, Outcome::Failed(text)
//!     });
//!     response.map(|()| Body::empty())
//! }
//! ```
//!
//! Port-forward is a sequence of connections:
//!
//! ```ignore
//! // A WebSocket client names its ports in the query, a SPDY client as it goes.
//! let (response, opening) = port_forward::accept(&mut parts, &ports, Limits::default())?;
//! tokio::spawn(async move {
//!     let mut forwards = opening.await?;
//!     while let Some(mut forward) = forwards.next().await {
//!         tokio::spawn(async move {
//!             // forward.data: AsyncRead + AsyncWrite
//!             let copied = match TcpStream::connect((ip, forward.port)).await {
//!                 Ok(mut there) => tokio::io::copy_bidirectional(&mut forward.data, &mut there).await.map(drop),
//!                 Err(error) => Err(error),
//!             };
//!             forward.finish(copied.map_err(|error| error.to_string())).await
//!         });
//!     }
//! });
//! ```
//!
//! Whoever asks for a command (the API server of a kubelet) sends [`remote_command::request_headers`] and, after the 101,
//! opens the streams with [`remote_command::connect`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod idle;
mod inbox;
mod outbox;
pub mod port_forward;
pub mod remote_command;
pub mod spdy;
mod upgrade;
pub mod websocket;

use std::{io, time::Duration};

use futures::future::BoxFuture;
use http::Response;
use tokio::io::{AsyncRead, AsyncWrite};

/// What a client sends on one stream.
pub type Reader = Box<dyn AsyncRead + Send + Unpin>;
/// What a client gets on one stream.
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// The answer to a request that is let through, and what opens once it is sent.
pub type Accepted<T> = (Response<()>, BoxFuture<'static, Result<T, Error>>);
/// The answer to a request that is not.
pub type Refusal = Box<Response<String>>;

/// Both directions of a stream.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// How often a server pings. While a client's input is held back its connection is not read, and only a ping that cannot be
/// written tells that it is gone.
const PING: Duration = Duration::from_secs(15);

/// How long a server waits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For data to go over the connection, in either direction; then it is closed. Without it for ever. The kubelet's
    /// `streamingConnectionIdleTimeout`.
    pub idle: Option<Duration>,
    /// For a client to open the streams it asked for.
    pub creation: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { idle: Some(Duration::from_secs(4 * 60 * 60)), creation: Duration::from_secs(30) }
    }
}

/// Why streams do not open, or end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection could not be switched to another protocol.
    #[error("switch the connection's protocol")]
    Upgrade(#[source] hyper::Error),
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer does not keep to the protocol.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The connection has ended.
    #[error("the connection is closed")]
    Closed,
    /// Something took too long.
    #[error("timed out waiting for {0}")]
    Late(&'static str),
}

/// What a peer sent is not of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer sent {0}")]
pub struct Malformed(pub(crate) &'static str);
