//! `quarterdeck up --detach`: the cluster outlives the command.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::Command;

use crate::cli::UpFlags;
use crate::layout::Layout;
use crate::state::State;

/// Set for the process that stays.
pub(crate) const ENV: &str = "QUARTERDECK_DETACHED";
/// The line that says the cluster is up.
const UP: &str = "The cluster is up";

/// Starts the same command in the background, shows its progress, and returns once the cluster is up or failed.
pub(crate) async fn run(flags: &UpFlags) -> anyhow::Result<ExitCode> {
    let layout = Layout::new(&flags.data_dir.data_dir)?;
    std::fs::create_dir_all(layout.root().join("logs")).with_context(|| format!("create {}", layout.root().display()))?;
    if State::running(&layout)?.is_some() {
        bail!("a cluster is already running on {}; stop it with `quarterdeck down`", layout.root().display());
    }
    let path = layout.log("up");
    let log = File::options().create(true).append(true).open(&path).with_context(|| format!("open {}", path.display()))?;
    let mut progress = File::open(&path).with_context(|| format!("open {}", path.display()))?;
    progress.seek(SeekFrom::End(0)).with_context(|| format!("read {}", path.display()))?;
    let mut child = Command::new(std::env::current_exe().context("find this program's own path")?)
        .args(std::env::args_os().skip(1).filter(|arg| arg != "--detach"))
        .env(ENV, "1")
        .env_remove(component::shutdown::PARENT_ENV)
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("share the log")?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .context("start in the background")?;
    let mut shown = String::new();
    loop {
        let ended = child.try_wait().context("wait for the cluster")?;
        let mut fresh = String::new();
        progress.read_to_string(&mut fresh).with_context(|| format!("read {}", path.display()))?;
        print!("{fresh}");
        let _ = std::io::stdout().flush();
        shown.push_str(&fresh);
        if let Some(status) = ended {
            return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        if shown.contains(UP) && shown.ends_with('\n') {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
