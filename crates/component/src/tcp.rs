//! What every TCP connection gets, on either side.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Go's period: a peer that vanished is found out after about nine of them, however quiet the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Sends at once, and asks a quiet peer whether it is still there.
pub fn prepare(stream: &TcpStream) {
    // Else the tail of an answer waits for the peer's delayed acknowledgement, 40 ms.
    let _ = stream.set_nodelay(true);
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keep_alive);
}
