//! Connections to ports of a pod: at its own address, or at the machine's loopback, which all pods here share.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use streaming::{
    Error,
    port_forward::{Forward, Forwards},
};
use tokio::net::TcpStream;

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
        Ok(mut there) => tokio::io::copy_bidirectional(&mut forward.data, &mut there).await.map(drop).map_err(|e| e.to_string()),
        Err(why) => Err(why),
    };
    let told = copied.map_err(|why| format!("error forwarding port {port} to pod {sandbox}, uid : {why}"));
    if let Err(error) = forward.finish(told).await {
        tracing::debug!(%error, port, "a forwarded connection ended");
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
