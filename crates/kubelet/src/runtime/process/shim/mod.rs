//! The small process between kubelet and container: it starts the command, writes its log, passes its streams to attached
//! clients, and keeps its exit code for a kubelet that may be away. It is this same binary, called as `kubelet process-shim`.

pub(super) mod attach;
mod input;
mod log;
mod output;
mod spawn;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::Write,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use self::{log::Log, output::Output};
use super::{command, pid::Process, store};

/// First argument that makes this binary a shim.
pub(crate) const ARGUMENT: &str = "process-shim";
/// Variable that names the container's directory to its shim.
const DIRECTORY: &str = "KUBELET_SHIM_DIRECTORY";
/// File names in the container's directory.
pub(super) const INSTRUCTIONS: &str = "instructions.json";
pub(super) const EXIT: &str = "exit.json";
/// How long a shim may take to start the command.
const LAUNCH: Duration = Duration::from_secs(20);

/// What to run and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Instructions {
    pub(super) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) directory: PathBuf,
    pub(super) log: PathBuf,
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
    /// Whether the command reads input of attached clients, and whether the first one's end is its end.
    #[serde(default)]
    pub(super) stdin: bool,
    #[serde(default)]
    pub(super) stdin_once: bool,
    /// Whether the command runs on a terminal.
    #[serde(default)]
    pub(super) tty: bool,
}

/// How the command ended; times in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Exit {
    pub(super) code: i32,
    pub(super) finished_at: i64,
}

/// What the shim says once the command runs, or does not.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Started(Process),
    Failed(String),
}

/// An exit code as shells count: 128 + signal for a killed process.
pub(super) fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Starts a shim for the container in `directory`; returns shim and command, or why there is no command.
pub(super) async fn launch(shim: &[OsString], directory: &Path) -> Result<(Process, Process), String> {
    let (binary, args) = shim.split_first().ok_or("no command for the container's shim")?;
    let mut child = tokio::process::Command::new(binary)
        .args(args)
        .env_clear()
        .env(DIRECTORY, directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("start the container's shim: {e}"))?;
    let shim = child.id().and_then(Process::of).ok_or("the container's shim ended at once")?;
    let stdout = child.stdout.take().ok_or("the container's shim has no output")?;
    // Reaps the shim; it outlives this process if need be.
    tokio::spawn(async move { child.wait().await });
    match tokio::time::timeout(LAUNCH, first_answer(stdout)).await {
        Ok(Some(Answer::Started(process))) => Ok((shim, process)),
        Ok(Some(Answer::Failed(why))) => Err(why),
        Ok(None) => Err("the container's shim ended before it started the command".into()),
        Err(_) => Err("the container's shim did not answer".into()),
    }
}

async fn first_answer(stdout: impl tokio::io::AsyncRead + Unpin) -> Option<Answer> {
    use tokio::io::AsyncBufReadExt;
    let mut lines = tokio::io::BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Ok(answer) = serde_json::from_str(&line) {
            return Some(answer);
        }
    }
    None
}

/// The command that makes the running binary a shim.
pub(crate) fn this_binary() -> std::io::Result<Vec<OsString>> {
    Ok(vec![std::env::current_exe()?.into(), ARGUMENT.into()])
}

/// The directory a shim was given.
pub(crate) fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

/// The shim's whole life. Returns its exit code.
pub(crate) fn run(directory: &Path) -> i32 {
    // Not in the kubelet's session: Ctrl-C on a terminal is for the kubelet alone.
    let _ = nix::unistd::setsid();
    match serve(directory) {
        Ok(()) => 0,
        Err(why) => {
            answer(&Answer::Failed(why));
            1
        }
    }
}

fn answer(answer: &Answer) {
    let mut stdout = std::io::stdout();
    if let Ok(text) = serde_json::to_string(answer) {
        let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    }
}

fn serve(directory: &Path) -> Result<(), String> {
    let text = std::fs::read(directory.join(INSTRUCTIONS)).map_err(|e| format!("read the container's instructions: {e}"))?;
    let todo: Instructions = serde_json::from_slice(&text).map_err(|e| format!("read the container's instructions: {e}"))?;
    let output = Arc::new(Output::new(Log::open(&todo.log)?));
    let reopen = signals()?;
    let why = |error| format!("failed to create containerd task: {}", command::start_error(&todo.argv, &todo.directory, &error));
    let mut running = spawn::spawn(&todo).map_err(why)?;
    let process = Process::of(running.child.id()).ok_or("the command ended at once and left no trace")?;
    let input = Arc::new(running.input);
    let listening = attach::listen(directory, &todo, &output, &input);
    answer(&Answer::Started(process));
    if let Err(error) = listening {
        output.log.write("stderr", format!("nobody can attach to this container: {error}\n").as_bytes());
    }
    let copies: Vec<_> = running.streams.into_iter().map(|(kind, stream)| output.copy(stream, kind)).collect();
    let reopened = output.clone();
    std::thread::spawn(move || {
        while reopen.wait().is_ok() {
            reopened.log.reopen();
        }
    });
    let status = running.child.wait().map_err(|e| format!("wait for the command: {e}"))?;
    output.drain(&copies);
    let finished_at = i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX);
    store::write(&directory.join(EXIT), &Exit { code: code(status), finished_at }).map_err(|e| format!("write the exit code: {e}"))
}

/// SIGUSR1 means: reopen the log. Blocked here, before any thread starts, and waited for by one.
fn signals() -> Result<nix::sys::signal::SigSet, String> {
    let mut set = nix::sys::signal::SigSet::empty();
    set.add(nix::sys::signal::Signal::SIGUSR1);
    set.thread_block().map_err(|e| format!("block signals: {e}"))?;
    Ok(set)
}
