//! A [`kube::Client`] that outlives its files.
//!
//! Certificates, keys, CA bundles and the kubeconfig itself may be replaced while a component runs. The client made here
//! looks at their modification times every few seconds and connects anew with what they hold then; while they are
//! unreadable it goes on with what it had. Every request that is not a watch, a log stream or an upgrade has a deadline; a
//! connection whose other end is no longer there breaks within half a minute, so that a watch on it begins anew.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use http::{HeaderValue, Request, Response, header};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use parking_lot::{Mutex, RwLock};
use tower::{BoxError, ServiceBuilder};

/// The longest wait for the head of a response.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(60);
/// The longest wait for a connection, TLS included.
const CONNECT_DEADLINE: Duration = Duration::from_secs(30);
/// A silent connection is probed after the first time, then that often, and breaks when so many probes go unanswered.
const PROBES: (Duration, Duration, u32) = (Duration::from_secs(15), Duration::from_secs(5), 3);
/// A connection breaks when what was sent stays unacknowledged for this long. Without it the kernel would try for a quarter
/// of an hour, at intervals as long as the outage so far.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);
/// How often the files behind a client are looked at.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// Failure to make a client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubeconfig, or a file it names, cannot be read or makes no sense.
    #[error("load kubeconfig {path}")]
    Kubeconfig {
        /// The kubeconfig file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// No kubeconfig was named, and this is not a pod with a service account.
    #[error("no kubeconfig given and no in-cluster configuration found")]
    InCluster(#[source] kube::config::InClusterError),
    /// The credentials or certificates cannot be used.
    #[error("set up connection to the API server")]
    Setup(#[source] Box<kube::Error>),
    /// The user agent holds characters no header may.
    #[error("user agent {0:?} is not a valid header value")]
    UserAgent(String),
}

/// A bearer token that its owner replaces before it expires.
#[derive(Clone, Debug, Default)]
pub struct Token(Arc<RwLock<String>>);

impl Token {
    /// A token holding `value`; empty means "none yet", and requests then go out without one.
    pub fn new(value: impl Into<String>) -> Self {
        Self(Arc::new(RwLock::new(value.into())))
    }

    /// Uses `value` from the next request on.
    pub fn replace(&self, value: impl Into<String>) {
        *self.0.write() = value.into();
    }

    fn header(&self) -> Option<HeaderValue> {
        let token = self.0.read();
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
        value.set_sensitive(true);
        (!token.is_empty()).then_some(value)
    }
}

/// How to reach the API server and under which name, without a connection yet.
#[derive(Clone, Debug)]
pub struct Connector {
    kubeconfig: Option<PathBuf>,
    user_agent: HeaderValue,
}

impl Connector {
    /// Reaches the server of `kubeconfig`'s current context, or of the pod this runs in when `None`.
    ///
    /// `user_agent` is `component/version`; the part before the slash becomes the field manager of writes.
    ///
    /// # Errors
    /// The user agent is not a header value.
    pub fn new(kubeconfig: Option<&Path>, user_agent: &str) -> Result<Self, Error> {
        let user_agent = HeaderValue::from_str(user_agent).map_err(|_| Error::UserAgent(user_agent.into()))?;
        Ok(Self { kubeconfig: kubeconfig.map(Path::to_owned), user_agent })
    }

    /// A client with the kubeconfig's own identity.
    ///
    /// # Errors
    /// The kubeconfig or what it names cannot be used.
    pub async fn client(&self) -> Result<Client, Error> {
        self.reloading(None).await
    }

    /// A client for the same server that identifies itself with `token` instead.
    ///
    /// # Errors
    /// The kubeconfig or what it names cannot be used.
    pub async fn client_with_token(&self, token: Token) -> Result<Client, Error> {
        self.reloading(Some(token)).await
    }

    async fn reloading(&self, token: Option<Token>) -> Result<Client, Error> {
        let config = self.config(token.is_some()).await?;
        let namespace = config.default_namespace.clone();
        let connection = Connection {
            client: direct(config).map_err(|error| Error::Setup(Box::new(error)))?,
            files: self.files(),
            checked: Instant::now(),
        };
        let shared = Arc::new(Shared { connector: self.clone(), token, connection: Mutex::new(connection) });
        let service = tower::service_fn(move |request| send(Arc::clone(&shared), request));
        Ok(Client::new(service, namespace))
    }

    async fn config(&self, anonymous: bool) -> Result<Config, Error> {
        let mut config = match &self.kubeconfig {
            Some(path) => from_file(path).await.map_err(|source| Error::Kubeconfig { path: path.clone(), source: Box::new(source) })?,
            None => Config::incluster().map_err(Error::InCluster)?,
        };
        if anonymous {
            config.auth_info = kube::config::AuthInfo::default();
        }
        // Work queues and informers back off on their own; the client's policy would sit silently for minutes.
        config.default_retry = false;
        config.headers.push((header::USER_AGENT, self.user_agent.clone()));
        Ok(config)
    }

    /// Every file the connection was made from, with its modification time.
    fn files(&self) -> Vec<(PathBuf, Option<SystemTime>)> {
        let Some(path) = &self.kubeconfig else { return Vec::new() };
        let mut paths = vec![path.clone()];
        if let Ok(kubeconfig) = Kubeconfig::read_from(path) {
            let clusters = kubeconfig.clusters.into_iter().filter_map(|named| named.cluster);
            paths.extend(clusters.filter_map(|cluster| cluster.certificate_authority.map(PathBuf::from)));
            for user in kubeconfig.auth_infos.into_iter().filter_map(|named| named.auth_info) {
                let files = [user.client_certificate, user.client_key, user.token_file];
                paths.extend(files.into_iter().flatten().map(PathBuf::from));
            }
        }
        paths.into_iter().map(|path| (path.clone(), modified(&path))).collect()
    }
}

/// A client whose connections break when their other end is no longer there.
fn direct(config: Config) -> kube::Result<Client> {
    if config.proxy_url.is_some() {
        return Client::try_from(config);
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(PROBES.0));
    tcp.set_keepalive_interval(Some(PROBES.1));
    tcp.set_keepalive_retries(Some(PROBES.2));
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let connector = ServiceBuilder::new().map_future(Box::pin).timeout(CONNECT_DEADLINE).service(tls);
    let http: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

async fn from_file(path: &Path) -> Result<Config, KubeconfigError> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

struct Connection {
    client: Client,
    files: Vec<(PathBuf, Option<SystemTime>)>,
    checked: Instant,
}

struct Shared {
    connector: Connector,
    token: Option<Token>,
    connection: Mutex<Connection>,
}

impl Shared {
    async fn current(&self) -> Client {
        let (client, stale) = {
            let mut connection = self.connection.lock();
            let due = connection.checked.elapsed() >= RELOAD_INTERVAL;
            if due {
                connection.checked = Instant::now();
            }
            let stale = due && connection.files.iter().any(|(path, seen)| modified(path) != *seen);
            (connection.client.clone(), stale)
        };
        if stale { self.reconnect().await.unwrap_or(client) } else { client }
    }

    async fn reconnect(&self) -> Option<Client> {
        let files = self.connector.files();
        let config = self.connector.config(self.token.is_some()).await;
        let client = config.and_then(|config| direct(config).map_err(|error| Error::Setup(Box::new(error))));
        match client {
            Ok(client) => {
                tracing::info!("kubeconfig files changed, connecting anew");
                let mut connection = self.connection.lock();
                connection.client = client.clone();
                connection.files = files;
                Some(client)
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "kubeconfig changed but cannot be used");
                None
            }
        }
    }
}

async fn send(shared: Arc<Shared>, mut request: Request<Body>) -> Result<Response<Body>, tower::BoxError> {
    if let Some(authorization) = shared.token.as_ref().and_then(Token::header) {
        request.headers_mut().insert(header::AUTHORIZATION, authorization);
    }
    let long = is_long_running(&request);
    let client = shared.current().await;
    let response = client.send(request);
    if long {
        return Ok(response.await?);
    }
    let seconds = REQUEST_DEADLINE.as_secs();
    match tokio::time::timeout(REQUEST_DEADLINE, response).await {
        Ok(response) => Ok(response?),
        Err(_) => Err(format!("no answer from the API server within {seconds} s").into()),
    }
}

fn is_long_running(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let streams = |pair: &str| matches!(pair, "watch=true" | "watch=1" | "follow=true" | "follow=1");
    query.split('&').any(streams) || request.headers().contains_key(header::UPGRADE)
}

#[cfg(test)]
mod tests {
    use http::Request;
    use kube::client::Body;

    use super::{Connector, Token, is_long_running};

    fn get(uri: &str) -> Request<Body> {
        Request::get(uri).body(Body::empty()).unwrap()
    }

    #[test]
    fn only_streams_go_without_a_deadline() {
        assert!(is_long_running(&get("/api/v1/pods?limit=1&watch=true")));
        assert!(is_long_running(&get("/api/v1/namespaces/a/pods/b/log?follow=true")));
        assert!(!is_long_running(&get("/api/v1/pods?labelSelector=watch%3Dtrue")));
    }

    #[test]
    fn a_replaced_token_goes_out_with_the_next_request() {
        let token = Token::default();
        assert!(token.header().is_none());
        token.replace("abc");
        assert_eq!(token.header().unwrap(), "Bearer abc");
    }

    /// The kernel's timer of a connection: `02` is one that will probe the other end.
    fn timer(local: std::net::SocketAddr) -> String {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let end = format!(":{:04X}", local.port());
        let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        fields.filter(|fields| fields[1].ends_with(&end)).map(|fields| fields[5].to_owned()).next().unwrap_or_default()
    }

    #[tokio::test]
    async fn a_silent_connection_is_probed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join("a.conf");
        let text = format!(
            "{{clusters: [{{name: a, cluster: {{server: 'http://{server}'}}}}], users: [{{name: a, user: {{}}}}], \
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}], current-context: a}}"
        );
        std::fs::write(&kubeconfig, text).unwrap();
        let client = Connector::new(Some(&kubeconfig), "test/v1").unwrap().client().await.unwrap();
        let watch = tokio::spawn(async move { client.send(get("/api/v1/pods?watch=true")).await });
        let (_connection, peer) = listener.accept().await.unwrap();
        let probed = async {
            while !timer(peer).starts_with("02:") {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), probed).await.expect("no probe is due");
        assert!(!watch.is_finished(), "the watch goes on without a deadline");
    }

    #[tokio::test]
    async fn names_the_kubeconfig_it_cannot_read() {
        let connector = Connector::new(Some("/nonexistent/admin.conf".as_ref()), "test/v1").unwrap();
        let error = connector.client().await.err().unwrap();
        assert_eq!(error.to_string(), "load kubeconfig /nonexistent/admin.conf");
    }
}
