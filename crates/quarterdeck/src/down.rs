//! `quarterdeck down`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cli::DataDir;
use crate::layout::Layout;
use crate::state::State;

/// The parts get ten seconds each, and there are six layers of them.
const LIMIT: Duration = Duration::from_secs(70);

/// Stops the cluster of a data directory and waits until it has ended.
pub(crate) async fn run(flags: &DataDir) -> anyhow::Result<ExitCode> {
    let layout = Layout::new(&flags.data_dir)?;
    let Some(state) = State::running(&layout)? else {
        println!("no cluster is running on {}", layout.root().display());
        return Ok(ExitCode::SUCCESS);
    };
    let pid = Pid::from_raw(i32::try_from(state.pid).context("process ID in the state file")?);
    match kill(pid, Signal::SIGTERM) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(errno) => return Err(errno).with_context(|| format!("stop process {pid}")),
    }
    let began = std::time::Instant::now();
    while State::running(&layout)?.is_some() {
        if began.elapsed() > LIMIT {
            bail!("the cluster (process {pid}) has not ended within {LIMIT:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("stopped");
    Ok(ExitCode::SUCCESS)
}
