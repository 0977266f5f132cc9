//! Ports on loopback for what a test starts.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range from which the kernel takes ports for outgoing connections: what is free stays free until it is used.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// Ports that nobody listens on, each handed out once.
pub fn free(count: usize) -> Vec<u16> {
    // Other test processes begin elsewhere.
    static NEXT: AtomicU16 = AtomicU16::new(0);
    #[allow(clippy::cast_possible_truncation)]
    let start = (std::process::id() % u32::from(COUNT)) as u16;
    let candidates = std::iter::repeat_with(|| FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT);
    let free = candidates.take(COUNT.into()).filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    free.take(count).collect()
}
