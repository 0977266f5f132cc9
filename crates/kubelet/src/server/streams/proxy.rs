//! Hands an upgrade request on to the runtime's streaming server and joins both connections.

use std::time::Duration;

use axum::{
    body::Body,
    extract::Request,
    http::{self, HeaderMap, HeaderName, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::relay::relay;

/// Connecting to the runtime, and its answer, may take this long each.
const CONNECT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(30);

/// Once the client or the runtime has closed its side, the other has this long to say what is left.
const LINGER: Duration = Duration::from_secs(10);

/// Headers that belong to the one connection, or to this server alone.
const OURS: [HeaderName; 4] = [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::AUTHORIZATION];

/// Why nothing was joined, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The client did not ask for another protocol.
    #[error("Upgrade request required")]
    NoUpgrade,
    /// The runtime named a place this kubelet cannot reach.
    #[error("invalid streaming URL {0:?} of the container runtime")]
    Location(String),
    /// The runtime's streaming server does not take the connection.
    #[error("error dialing backend: dial tcp {0}: {1}")]
    Dial(String, String),
    /// It broke off before it answered.
    #[error("error sending request: {0}")]
    Send(String),
    /// It answered with neither another protocol nor an error.
    #[error("invalid upgrade response: status code {0}")]
    Response(u16),
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, format!("{self}\n")).into_response()
    }
}

/// Answers `request` with what `location` answers; where protocols are switched, relays in the background.
pub(super) async fn upgrade(mut request: Request, location: &str) -> Result<Response, Error> {
    let client = request.extensions_mut().remove::<OnUpgrade>();
    let Some(client) = client.filter(|_| streaming::websocket::is_upgrade(request.headers())) else { return Err(Error::NoUpgrade) };
    let (authority, path) = parse(location)?;
    let stream = dial(&authority).await?;
    let mut sent = Request::builder().method(request.method().clone()).uri(path).body(Body::empty());
    if let Some(headers) = sent.as_mut().ok().map(Request::headers_mut) {
        *headers = forwarded(request.headers());
        headers.insert(header::HOST, authority.parse().map_err(|_| Error::Location(location.to_owned()))?);
    }
    let sent = sent.map_err(|error| Error::Send(error.to_string()))?;
    let mut answer = exchange(stream, sent).await?;
    match answer.status() {
        StatusCode::SWITCHING_PROTOCOLS => {}
        code if code.as_u16() >= 400 => return Ok(answer.map(Body::new)),
        code => return Err(Error::Response(code.as_u16())),
    }
    let server = hyper::upgrade::on(&mut answer);
    tokio::spawn(async move {
        match tokio::try_join!(client, server) {
            Ok((client, server)) => {
                let ended = relay(TokioIo::new(client), TokioIo::new(server), LINGER).await;
                tracing::debug!(?ended, "a stream ended");
            }
            Err(error) => tracing::debug!(%error, "a stream did not begin"),
        }
    });
    let mut switched = Response::new(Body::empty());
    *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    std::mem::swap(switched.headers_mut(), answer.headers_mut());
    Ok(switched)
}

/// Host and port, and path with query.
fn parse(location: &str) -> Result<(String, String), Error> {
    let wrong = || Error::Location(location.to_owned());
    let uri: Uri = location.parse().map_err(|_| wrong())?;
    if uri.scheme_str() != Some("http") {
        return Err(wrong());
    }
    let authority = uri.authority().ok_or_else(wrong)?;
    let authority = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80));
    Ok((authority, uri.path_and_query().map_or("/", |path| path.as_str()).to_owned()))
}

async fn dial(authority: &str) -> Result<TcpStream, Error> {
    let failed = |why: String| Error::Dial(authority.to_owned(), why);
    let connecting = tokio::time::timeout(CONNECT, TcpStream::connect(authority)).await;
    let stream = connecting.map_err(|_| failed("i/o timeout".to_owned()))?.map_err(|error| failed(error.to_string()))?;
    // Else a key pressed in a terminal waits for the acknowledgement of the one before.
    stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
    Ok(stream)
}

async fn exchange(stream: TcpStream, request: Request) -> Result<http::Response<hyper::body::Incoming>, Error> {
    let failed = |error: hyper::Error| Error::Send(error.to_string());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "connection to the runtime's streaming server ended");
        }
    });
    let answer = tokio::time::timeout(ANSWER, sender.send_request(request)).await;
    answer.map_err(|_| Error::Send("i/o timeout".to_owned()))?.map_err(failed)
}

fn forwarded(headers: &HeaderMap) -> HeaderMap {
    headers.iter().filter(|(name, _)| !OURS.contains(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}
