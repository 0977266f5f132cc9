//! Free ports on loopback: the usual one where nobody has it, else any.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use anyhow::{Context, bail};
use nix::fcntl::{Flock, FlockArg};

/// Tries before giving up on a machine where every port seems to be taken.
const TRIES: usize = 100;

/// Hands out ports that nobody listens on. Two clusters that start at the same moment would both find a port free before
/// either listens: so each port handed out is also locked, for as long as this lives.
pub(crate) struct Ports {
    directory: PathBuf,
    held: Vec<(TcpListener, Flock<File>)>,
}

impl Ports {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let directory = std::env::temp_dir().join(format!("quarterdeck-ports-{}", nix::unistd::geteuid()));
        std::fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
        Ok(Self { directory, held: Vec::new() })
    }

    /// `usual` if it is free, else any free port.
    pub(crate) fn take(&mut self, usual: u16) -> anyhow::Result<u16> {
        for try_ in 0..TRIES {
            let wanted = if try_ == 0 { usual } else { 0 };
            let Ok(listener) = TcpListener::bind((Ipv4Addr::UNSPECIFIED, wanted)) else { continue };
            let port = listener.local_addr().context("find a free port")?.port();
            if let Some(lock) = self.lock(port)? {
                self.held.push((listener, lock));
                return Ok(port);
            }
        }
        bail!("no free port found")
    }

    fn lock(&self, port: u16) -> anyhow::Result<Option<Flock<File>>> {
        let path = self.directory.join(port.to_string());
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.with_context(|| format!("open {}", path.display()))?;
        Ok(Flock::lock(file, FlockArg::LockExclusiveNonblock).ok())
    }

    /// Stops listening, for the parts to do so; the locks remain with the returned guard.
    pub(crate) fn release(self) -> Vec<Flock<File>> {
        self.held.into_iter().map(|(_, lock)| lock).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_replaced_by_a_free_one() {
        let mut ports = Ports::new().unwrap();
        let first = ports.take(0).unwrap();
        let second = ports.take(first).unwrap();
        assert_ne!(first, second);
    }

    #[test]
    fn a_port_handed_out_stays_taken_until_its_cluster_ends() {
        let mut ports = Ports::new().unwrap();
        let first = ports.take(0).unwrap();
        let guard = ports.release();
        assert_ne!(Ports::new().unwrap().take(first).unwrap(), first);
        drop(guard);
        assert_eq!(Ports::new().unwrap().take(first).unwrap(), first);
    }
}
