//! How a process learns that it shall end.

use anyhow::{Context, bail};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use tokio::signal::unix::{SignalKind, signal};

/// Cancelled once the process shall end; clones share one state.
pub type Shutdown = tokio_util::sync::CancellationToken;

/// Names the process that started this one; when it dies, this one receives SIGTERM.
pub const PARENT_ENV: &str = "QUARTERDECK_PARENT_PID";

/// A token cancelled by the first SIGINT or SIGTERM; a second one ends the process at once with code 130.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn on_signal() -> anyhow::Result<Shutdown> {
    let mut interrupt = signal(SignalKind::interrupt()).context("install handler for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("install handler for SIGTERM")?;
    let shutdown = Shutdown::new();
    let token = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        token.cancel();
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        std::process::exit(130);
    });
    Ok(shutdown)
}

/// Ties this process to the life of the one named in [`PARENT_ENV`], if any.
///
/// # Errors
/// When the variable is not a process ID, or that process is gone already.
pub(crate) fn follow_parent() -> anyhow::Result<()> {
    let Ok(text) = std::env::var(PARENT_ENV) else { return Ok(()) };
    let parent = Pid::from_raw(text.parse().with_context(|| format!("{PARENT_ENV}={text:?} is not a process ID"))?);
    nix::sys::prctl::set_pdeathsig(Signal::SIGTERM).context("ask for a signal at the parent's death")?;
    // The parent may have died before the request above was in place.
    if getppid() != parent {
        bail!("the parent process {parent} is gone");
    }
    Ok(())
}
