//! The small process between kubelet and container: it starts the command, writes its log, and keeps its exit code for a
//! kubelet that may be away. It is this same binary, called as `kubelet process-shim`.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{pid::Process, store};
use crate::logs::format;

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

/// The program's path, looked up in the container's own `PATH`.
pub(super) fn find(program: &str, env: &BTreeMap<String, String>) -> PathBuf {
    if program.contains('/') {
        return PathBuf::from(program);
    }
    let path = env.get("PATH").cloned().unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|p| p.is_file());
    found.unwrap_or_else(|| PathBuf::from(program))
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
    let log = Arc::new(Log::open(&todo.log)?);
    let reopen = signals()?;
    let mut child = command(&todo)?.spawn().map_err(|e| start_error(&todo, &e))?;
    let process = Process::of(child.id()).ok_or("the command ended at once and left no trace")?;
    answer(&Answer::Started(process));
    let copies = [
        child.stdout.take().map(|stream| copy(stream, "stdout", log.clone())),
        child.stderr.take().map(|stream| copy(stream, "stderr", log.clone())),
    ];
    std::thread::spawn(move || reopen_on_signal(reopen, &log));
    let status = child.wait().map_err(|e| format!("wait for the command: {e}"))?;
    wait_for_output(copies.into_iter().flatten().collect());
    let finished_at = i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX);
    store::write(&directory.join(EXIT), &Exit { code: code(status), finished_at }).map_err(|e| format!("write the exit code: {e}"))
}

/// Grandchildren may hold the pipes open for ever; what they still write is not waited for long.
fn wait_for_output(copies: Vec<std::thread::JoinHandle<()>>) {
    for _ in 0..50 {
        if copies.iter().all(std::thread::JoinHandle::is_finished) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn command(todo: &Instructions) -> Result<Command, String> {
    let (program, args) = todo.argv.split_first().ok_or("the command is empty")?;
    let mut command = Command::new(find(program, &todo.env));
    command.args(args).env_clear().envs(&todo.env).current_dir(&todo.directory).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(group) = todo.group {
        command.gid(group);
    }
    if let Some(user) = todo.user {
        command.uid(user);
    }
    Ok(command)
}

/// In runc's words, which users know.
fn start_error(todo: &Instructions, error: &std::io::Error) -> String {
    let program = todo.argv.first().map(String::as_str).unwrap_or_default();
    let why = match error.kind() {
        std::io::ErrorKind::NotFound if !todo.directory.is_dir() => {
            return format!(
                "failed to create containerd task: chdir to cwd ({:?}) set in config.json failed: no such file or directory",
                todo.directory
            );
        }
        std::io::ErrorKind::NotFound if program.contains('/') => format!("stat {program}: no such file or directory"),
        std::io::ErrorKind::NotFound => "executable file not found in $PATH".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string(),
    };
    format!("failed to start container process: exec: {program:?}: {why}")
}

/// The log file, reopened when it was moved away.
struct Log {
    path: PathBuf,
    file: Mutex<File>,
}

impl Log {
    fn open(path: &Path) -> Result<Self, String> {
        let file = open(path).map_err(|e| format!("open log {path:?}: {e}"))?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    fn reopen(&self) {
        if let Ok(file) = open(&self.path) {
            *self.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
        }
    }

    fn write(&self, stream: &str, text: &[u8], partial: bool) {
        let line = format::line(jiff::Timestamp::now(), stream, text, partial);
        let _ = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

fn copy(stream: impl Read + Send + 'static, name: &'static str, log: Arc<Log>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut reader = BufReader::with_capacity(format::MOST_PER_LINE, stream);
        loop {
            let chunk = match reader.fill_buf() {
                Ok([]) | Err(_) => return,
                Ok(chunk) => chunk,
            };
            let (text, used, partial) = match chunk.iter().position(|byte| *byte == b'\n') {
                Some(end) => (&chunk[..end], end + 1, false),
                None => (chunk, chunk.len(), true),
            };
            log.write(name, text, partial);
            reader.consume(used);
        }
    })
}

/// SIGUSR1 means: reopen the log. Blocked here, before any thread starts, and waited for by one.
fn signals() -> Result<nix::sys::signal::SigSet, String> {
    let mut set = nix::sys::signal::SigSet::empty();
    set.add(nix::sys::signal::Signal::SIGUSR1);
    set.thread_block().map_err(|e| format!("block signals: {e}"))?;
    Ok(set)
}

fn reopen_on_signal(set: nix::sys::signal::SigSet, log: &Log) {
    while set.wait().is_ok() {
        log.reopen();
    }
}
