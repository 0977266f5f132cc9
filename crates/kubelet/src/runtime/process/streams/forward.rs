//! Connections to ports of a pod: at its own address, or at the machine's loopback, which all pods here share.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use streaming::{
    Error,
    port_forward::{Forward, Forwards},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split},
    net::TcpStream,
};

use super::super::Process;
use crate::cri::v1;

/// Connecting may take this long at each address.
const CONNECT: Duration = Duration::from_secs(5);

/// Serves one client's connections until it leaves.
pub(super) async fn run(runtime: Arc<Process>, request: v1::PortForwardRequest, opening: impl Future<Output = Result<Forwards, Error>>) {
    let sandbox = request.pod_sandbox_id;
    let mut forwards = match opening.await {
        Ok(forwards) => forwards,
        Err(error) => return tracing::debug!(%error, sandbox, "port-forward did not begin"),
    };
    let addresses = runtime.addresses(&sandbox);
    while let Some(forward) = forwards.next().await {
        tokio::spawn(connect(forward, sandbox.clone(), addresses.clone()));
    }
}

impl Process {
    /// Where something in the sandbox may listen.
    fn addresses(&self, sandbox: &str) -> Vec<IpAddr> {
        let state = self.state.lock();
        let own = state.sandboxes.get(sandbox).and_then(|s| s.status.network.as_ref()?.ip.parse().ok());
        own.into_iter().chain([IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]).collect()
    }
}

async fn connect(mut forward: Forward, sandbox: String, addresses: Vec<IpAddr>) {
    let port = forward.port;
    let copied = match dial(&addresses, port).await {
        Ok(there) => join(&mut forward.data, there).await.map_err(|e| e.to_string()),
        Err(why) => Err(why),
    };
    let told = copied.map_err(|why| format!("error forwarding port {port} to pod {sandbox}, uid : {why}"));
    if let Err(error) = forward.finish(told).await {
        tracing::debug!(%error, port, "a forwarded connection ended");
    }
}

/// Copies both ways until the pod's end closes: a client over a WebSocket cannot close its own half.
async fn join(client: &mut (impl AsyncRead + AsyncWrite + Unpin), mut pod: TcpStream) -> io::Result<()> {
    let (mut from_client, mut to_client) = split(client);
    let (mut from_pod, mut to_pod) = pod.split();
    let there = async {
        copy(&mut from_client, &mut to_pod).await?;
        to_pod.shutdown().await?;
        std::future::pending().await
    };
    tokio::select! {
        copied = copy(&mut from_pod, &mut to_client) => copied.map(drop),
        failed = there => failed,
    }
}

async fn dial(addresses: &[IpAddr], port: u16) -> Result<TcpStream, String> {
    let mut failures = vec![];
    for address in addresses {
        match tokio::time::timeout(CONNECT, TcpStream::connect((*address, port))).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failures.push(format!("dial tcp {address}:{port}: {error}")),
            Err(_) => failures.push(format!("dial tcp {address}:{port}: i/o timeout")),
        }
    }
    Err(format!("failed to connect to localhost:{port}: {}", failures.join(", ")))
}
