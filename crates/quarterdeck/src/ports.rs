//! Free ports on loopback: the usual one where nobody has it, else any.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::Context;

/// Hands out ports that nobody listens on; holds each until dropped, so that no two parts get the same one.
#[derive(Default)]
pub(crate) struct Ports(Vec<TcpListener>);

impl Ports {
    /// `usual` if it is free on every address, else any free port.
    pub(crate) fn take(&mut self, usual: u16) -> anyhow::Result<u16> {
        let bind = |port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port));
        let listener = bind(usual).or_else(|_| bind(0)).context("find a free port")?;
        let port = listener.local_addr().context("find a free port")?.port();
        self.0.push(listener);
        Ok(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_replaced_by_a_free_one() {
        let mut ports = Ports::default();
        let first = ports.take(0).unwrap();
        let second = ports.take(first).unwrap();
        assert_ne!(first, second);
    }
}
