//! The file by which `status` and `down` find a running cluster, and the lock that says whether it runs.

use std::fs::File;

use anyhow::{Context, bail};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::layout::Layout;

/// One running process of the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Instance {
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// What it listens on, for people.
    pub(crate) listens: String,
    /// How often it was started again.
    pub(crate) restarts: u32,
}

/// A running cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    /// The `quarterdeck up` process.
    pub(crate) pid: u32,
    /// Where kubectl finds it.
    pub(crate) server: String,
    /// How many nodes will register.
    pub(crate) nodes: usize,
    pub(crate) instances: Vec<Instance>,
}

impl State {
    /// Replaces the file as a whole, so that a reader never sees half of it.
    pub(crate) fn save(&self, layout: &Layout) -> anyhow::Result<()> {
        let path = layout.state();
        let fresh = path.with_extension("json.new");
        let write = || std::fs::write(&fresh, serde_json::to_vec_pretty(self)?).and_then(|()| std::fs::rename(&fresh, &path));
        write().with_context(|| format!("write {}", path.display()))
    }

    /// The cluster that runs on this data directory; `None` when none does.
    pub(crate) fn running(layout: &Layout) -> anyhow::Result<Option<Self>> {
        if !layout.root().exists() {
            return Ok(None);
        }
        if lock(layout, FlockArg::LockSharedNonblock)?.is_some() {
            return Ok(None);
        }
        let path = layout.state();
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.with_context(|| format!("read {}", path.display()))?,
        };
        Ok(Some(serde_json::from_slice(&text).with_context(|| format!("parse {}", path.display()))?))
    }
}

/// The lock of the data directory; `None` when another process holds it or the directory does not exist.
fn lock(layout: &Layout, how: FlockArg) -> anyhow::Result<Option<Flock<File>>> {
    let path = layout.lock();
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| format!("open {}", path.display()))?;
    match Flock::lock(file, how) {
        Ok(held) => Ok(Some(held)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(errno).with_context(|| format!("lock {}", path.display())),
    }
}

/// Takes the data directory for this process.
///
/// # Errors
/// When another `up` holds it.
pub(crate) fn take(layout: &Layout) -> anyhow::Result<Flock<File>> {
    // A `status` holds the lock for a moment too.
    for _ in 0..20 {
        if let Some(held) = lock(layout, FlockArg::LockExclusiveNonblock)? {
            // What a killed `up` left behind names processes that are others' by now.
            let _ = std::fs::remove_file(layout.state());
            return Ok(held);
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    bail!("a cluster is already running on {}; stop it with `quarterdeck down` or choose another --data-dir", layout.root().display())
}
