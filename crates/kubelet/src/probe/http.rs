//! HTTP probes and hooks, with upstream's texts.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use component::tls::Anybody;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, Response, StatusCode, body::Incoming, header};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::{Outcome, target::Http};

/// How much of an answer is read.
const MOST_BODY: usize = 10 << 10;
/// Redirects followed on the same host.
const MOST_REDIRECTS: usize = 10;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// No connection.
    #[error("Get {url:?}: dial tcp {authority}: {cause}")]
    Dial { url: String, authority: String, cause: String },
    /// No answer, or none that is HTTP.
    #[error("Get {url:?}: {cause}")]
    Exchange { url: String, cause: String },
    /// Too slow.
    #[error("Get {url:?}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)")]
    Timeout { url: String },
}

/// An operating system error in Go's words.
pub(crate) fn cause(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connect: connection refused".into(),
        std::io::ErrorKind::ConnectionReset => "read: connection reset by peer".into(),
        std::io::ErrorKind::HostUnreachable => "connect: no route to host".into(),
        std::io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".into(),
        std::io::ErrorKind::TimedOut => "connect: connection timed out".into(),
        _ => error.to_string(),
    }
}

/// One try of an HTTP probe.
pub(crate) async fn probe(request: &Http, limit: Duration) -> Outcome {
    match get(request, limit).await {
        Ok(status) if (200..400).contains(&status.as_u16()) => Outcome::Success,
        Ok(status) => Outcome::Failure(format!("HTTP probe failed with statuscode: {}", status.as_u16())),
        Err(error) => Outcome::Failure(error.to_string()),
    }
}

/// Status of the answer, after redirects on the same host.
pub(crate) async fn get(request: &Http, limit: Duration) -> Result<StatusCode, Error> {
    let late = || Error::Timeout { url: request.url() };
    timeout(limit, follow(request.clone())).await.map_err(|_| late())?
}

async fn follow(mut request: Http) -> Result<StatusCode, Error> {
    for _ in 0..MOST_REDIRECTS {
        let answer = exchange(&request).await?;
        let location = answer.headers().get(header::LOCATION).and_then(|l| l.to_str().ok()).map(str::to_owned);
        let status = answer.status();
        // The server should not see its answer cut off, nor the kubelet read without end.
        let _ = Limited::new(answer.into_body(), MOST_BODY).collect().await;
        match location.filter(|_| status.is_redirection()).and_then(|l| same_host(&request, &l)) {
            Some(next) => request = next,
            None => return Ok(status),
        }
    }
    Err(Error::Exchange { url: request.url(), cause: format!("stopped after {MOST_REDIRECTS} redirects") })
}

/// The request a redirect leads to, unless that is another host: then the redirect itself counts as success.
fn same_host(from: &Http, location: &str) -> Option<Http> {
    let uri: hyper::Uri = location.parse().ok()?;
    let path = uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
    match uri.host() {
        None if location.starts_with('/') => Some(Http { path, ..from.clone() }),
        Some(host) if host == from.host => {
            let tls = uri.scheme_str() == Some("https");
            let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
            Some(Http { tls, port, path, ..from.clone() })
        }
        _ => None,
    }
}

async fn exchange(request: &Http) -> Result<Response<Incoming>, Error> {
    let failed = |cause: String| Error::Exchange { url: request.url(), cause };
    let stream = TcpStream::connect((request.host.as_str(), request.port)).await.map_err(|error| Error::Dial {
        url: request.url(),
        authority: request.authority(),
        cause: cause(&error),
    })?;
    if !request.tls {
        return send(stream, request).await.map_err(|e| failed(text(&e)));
    }
    let name = ServerName::try_from(request.host.clone()).map_err(|e| failed(e.to_string()))?;
    let stream = TlsConnector::from(any_certificate()).connect(name, stream).await.map_err(|e| failed(e.to_string()))?;
    send(stream, request).await.map_err(|e| failed(text(&e)))
}

fn text(error: &hyper::Error) -> String {
    if error.is_incomplete_message() { "EOF".into() } else { error.to_string() }
}

async fn send<S>(stream: S, request: &Http) -> Result<Response<Incoming>, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut builder = Request::get(&request.path);
    let given = |name: &str| request.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    let defaults = [("Host", request.authority()), ("User-Agent", "kube-probe/1.36".into()), ("Accept", "*/*".into())];
    for (name, value) in defaults.iter().filter(|(name, _)| !given(name)) {
        builder = builder.header(*name, value);
    }
    for (name, value) in &request.headers {
        builder = builder.header(name, value);
    }
    let built = builder.header("Connection", "close").body(Empty::<Bytes>::new());
    // A header the API server let through but HTTP does not allow: ask without the extra headers.
    let built = built.unwrap_or_else(|_| Request::new(Empty::new()));
    sender.send_request(built).await
}

/// Probes accept whatever certificate the container has, as upstream's do.
fn any_certificate() -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(Anybody(provider));
    Arc::new(ClientConfig::builder().dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    fn request(port: u16) -> Http {
        Http { tls: false, host: "127.0.0.1".into(), port, path: "/healthz".into(), headers: vec![] }
    }

    async fn answering(answer: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut buffer = [0; 1024];
                let _ = stream.read(&mut buffer).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        port
    }

    #[tokio::test]
    async fn judges_by_status_code() {
        let good = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
        assert_eq!(probe(&request(good), Duration::from_secs(5)).await, Outcome::Success);
        let bad = answering("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n").await;
        let outcome = probe(&request(bad), Duration::from_secs(5)).await;
        assert_eq!(outcome, Outcome::Failure("HTTP probe failed with statuscode: 503".into()));
    }

    #[tokio::test]
    async fn a_closed_port_reads_as_go_prints_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let outcome = probe(&request(port), Duration::from_secs(5)).await;
        let text = format!("Get \"http://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: connect: connection refused");
        assert_eq!(outcome, Outcome::Failure(text));
    }
}
