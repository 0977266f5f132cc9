//! Open listeners and the URLs they are reached under.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::Extension;
use component::{
    Shutdown, serve,
    tls::{ReloadingServerConfig, Rules, ServerTls},
};
use tokio::net::{TcpListener, TcpSocket, lookup_host};

use crate::{http_access::Secure, url::Url};

/// Connections that wait to be accepted, at most.
const BACKLOG: u32 = 1024;

/// Open listeners and the URLs they are reached under.
#[derive(Default)]
pub(crate) struct Listening {
    sockets: Vec<(TcpListener, Url)>,
    tls: Option<Arc<ReloadingServerConfig>>,
}

impl Listening {
    /// Opens them. With `share` other processes may listen on the same ports.
    pub(crate) async fn open(urls: &[Url], tls: Option<(ServerTls, Rules)>, share: bool) -> anyhow::Result<Self> {
        let secure = urls.iter().find(|url| url.tls);
        let tls = match (secure, tls) {
            (Some(_), Some((files, rules))) => Some(files.load_with(rules)?),
            (Some(url), None) => anyhow::bail!("cannot listen on TLS for {url}: there is no certificate and no key"),
            (None, _) => None,
        };
        let mut sockets = Vec::new();
        for url in urls {
            let socket = listen(url, share).await.with_context(|| format!("listen on {url}"))?;
            let port = socket.local_addr().with_context(|| format!("listen on {url}"))?.port();
            sockets.push((socket, url.with_port(port)));
        }
        Ok(Self { sockets, tls })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    pub(crate) fn urls(&self) -> Vec<Url> {
        self.sockets.iter().map(|(_, url)| url.clone()).collect()
    }

    /// Serves on all of them until `stop`; one task each.
    pub(crate) fn serve(
        self,
        routes: axum::Router,
        stop: &Shutdown,
        drain: Duration,
        kept: serve::Connections,
    ) -> Vec<tokio::task::JoinHandle<()>> {
        let Self { sockets, tls } = self;
        let serve = |(socket, url): (TcpListener, Url)| {
            let tls = tls.clone().filter(|_| url.tls);
            let routes = routes.clone().layer(Extension(Secure(url.tls)));
            tokio::spawn(serve::serve_kept(socket, tls, routes, stop.clone(), drain, kept))
        };
        sockets.into_iter().map(serve).collect()
    }
}

async fn listen(url: &Url, share: bool) -> std::io::Result<TcpListener> {
    if !share {
        return TcpListener::bind((url.host.as_str(), url.port)).await;
    }
    let mut error = std::io::Error::other("the name has no address");
    for address in lookup_host((url.host.as_str(), url.port)).await? {
        match shared(address) {
            Ok(listener) => return Ok(listener),
            Err(failed) => error = failed,
        }
    }
    Err(error)
}

fn shared(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_asks_for_tls_is_never_served_without() {
        let url: Url = "https://127.0.0.1:0".parse().unwrap();
        let error = Listening::open(&[url], None, false).await.err().unwrap().to_string();
        assert_eq!(error, "cannot listen on TLS for https://127.0.0.1:0: there is no certificate and no key");
    }

    #[tokio::test]
    async fn a_port_is_shared_only_where_that_is_asked_for() {
        let url: Url = "http://127.0.0.1:0".parse().unwrap();
        let open = async |url: &Url, share| Listening::open(std::slice::from_ref(url), None, share).await;
        let first = open(&url, true).await.unwrap();
        let taken = &first.urls()[0];
        assert_ne!(taken.port, 0);
        assert!(open(taken, true).await.is_ok());
        let alone = open(taken, false).await.err().unwrap();
        assert!(alone.to_string().contains(&format!("listen on {taken}")), "{alone}");
    }
}
