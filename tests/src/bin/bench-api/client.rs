//! HTTP/2 to an API server, with as little work as that can be done with: it runs beside what it measures.

use std::{path::Path, sync::Arc};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http2::{self, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::{
    client::ConfigExt as _,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

/// What may be under way on a stream and on a connection; as much as Go's client lets.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;

/// Where the server is, and who asks.
#[derive(Clone)]
pub(crate) struct Target {
    host: String,
    port: u16,
    tls: Option<TlsConnector>,
    authorization: Option<HeaderValue>,
}

impl Target {
    /// The server and the user of a kubeconfig's current context.
    ///
    /// # Errors
    /// When the file says neither, or asks for a credential that is made by running a program.
    pub(crate) async fn of(kubeconfig: &Path) -> anyhow::Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig).with_context(|| format!("read {}", kubeconfig.display()))?;
        let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        let url = &config.cluster_url;
        let host = url.host().context("the server has no host")?.trim_matches(['[', ']']).to_owned();
        let secure = url.scheme_str() == Some("https");
        let mut tls = config.rustls_client_config()?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        // What is secret is shown to nobody but who writes it out.
        let user = serde_json::to_value(&config.auth_info)?;
        if let Some(other) = ["exec", "auth-provider", "tokenFile", "username"].into_iter().find(|key| !user[key].is_null()) {
            bail!("{}: a user with {other} is not supported: certificates and tokens are", kubeconfig.display());
        }
        let token = user["token"].as_str().map(|token| format!("Bearer {token}"));
        Ok(Self {
            host,
            port: url.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            tls: secure.then(|| TlsConnector::from(Arc::new(tls))),
            authorization: token.map(HeaderValue::try_from).transpose()?,
        })
    }

    /// The port, if the server listens on this machine.
    pub(crate) fn local_port(&self) -> Option<u16> {
        // Only an address of this machine can be bound.
        let here = self.host == "localhost" || std::net::UdpSocket::bind((self.host.as_str(), 0)).is_ok();
        here.then_some(self.port)
    }

    /// A new connection.
    ///
    /// # Errors
    /// When the server cannot be reached, or does not speak HTTP/2.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let sender = match &self.tls {
            Some(tls) => handshake(tls.connect(ServerName::try_from(self.host.clone())?, stream).await?).await?,
            None => handshake(stream).await?,
        };
        Ok(Connection { sender, target: Arc::new(self.clone()) })
    }

    /// So many connections.
    ///
    /// # Errors
    /// Those of [`Target::connect`].
    pub(crate) async fn connections(&self, count: usize) -> anyhow::Result<Vec<Connection>> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(self.connect().await?);
        }
        Ok(connections)
    }
}

async fn handshake(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    // Its end shows in every request.
    tokio::spawn(connection);
    Ok(sender)
}

/// One request.
pub(crate) struct Request {
    method: Method,
    path: String,
    accept: &'static str,
    content_type: &'static str,
    body: Bytes,
}

impl Request {
    /// A request without a body.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), accept: "application/json", content_type: "application/json", body: Bytes::new() }
    }

    /// With this body, of JSON.
    pub(crate) fn body(self, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// The answer is to be of this type.
    pub(crate) fn accept(self, accept: &'static str) -> Self {
        Self { accept, ..self }
    }

    /// The body is of this type.
    pub(crate) fn content_type(self, content_type: &'static str) -> Self {
        Self { content_type, ..self }
    }
}

/// A connection; clones share it.
#[derive(Clone)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    target: Arc<Target>,
}

impl Connection {
    /// The answer, its body still to come.
    ///
    /// # Errors
    /// When none comes.
    pub(crate) async fn send(&self, request: Request) -> anyhow::Result<Response<Incoming>> {
        let Target { host, port, tls, authorization } = &*self.target;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let mut builder = http::Request::builder().method(request.method).uri(format!("{scheme}://{host}:{port}{}", request.path));
        if let Some(value) = authorization {
            builder = builder.header(header::AUTHORIZATION, value.clone());
        }
        let builder = builder.header(header::ACCEPT, request.accept).header(header::CONTENT_TYPE, request.content_type);
        let request = builder.header(header::USER_AGENT, "bench-api").body(Full::new(request.body))?;
        let mut sender = self.sender.clone();
        sender.ready().await?;
        Ok(sender.send_request(request).await?)
    }

    /// The body of an answer that says yes.
    ///
    /// # Errors
    /// When none comes, or it says no.
    pub(crate) async fn call(&self, request: Request) -> anyhow::Result<Bytes> {
        let response = self.send(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        refused(status, &body)?;
        Ok(body)
    }

    /// How many bytes the body of an answer that says yes has.
    ///
    /// # Errors
    /// When none comes, or it says no.
    pub(crate) async fn count(&self, request: Request) -> anyhow::Result<usize> {
        let response = self.send(request).await?;
        let status = response.status();
        let mut body = response.into_body();
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame?;
            let data = frame.data_ref().map(Bytes::as_ref).unwrap_or_default();
            refused(status, data)?;
            length += data.len();
        }
        // A refusal may have no body.
        refused(status, &[])?;
        Ok(length)
    }
}

fn refused(status: StatusCode, body: &[u8]) -> anyhow::Result<()> {
    if !status.is_success() {
        bail!("{status}: {}", String::from_utf8_lossy(&body[..body.len().min(500)]));
    }
    Ok(())
}
