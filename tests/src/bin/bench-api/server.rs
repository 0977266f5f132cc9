//! The server's process: found by its port, or started here.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use http::Method;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::{sleep, timeout};

use crate::client::{Request, Target};

/// A server that takes longer to be ready than this is broken.
const START: Duration = Duration::from_secs(120);
/// One question to a server that may not be there yet.
const ATTEMPT: Duration = Duration::from_millis(500);
/// Between two looks: the resolution of what is measured.
const RETRY: Duration = Duration::from_millis(3);
/// A server ends by itself within this time.
const STOP: Duration = Duration::from_secs(30);

/// The process that listens on a port of this machine, if it is there to be seen.
pub(crate) fn listening(port: u16) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let sockets: Vec<String> = tables.iter().flat_map(|table| listeners(table, port)).map(|inode| format!("socket:[{inode}]")).collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let holds = |directory: &Path| {
        let files = fs::read_dir(directory.join("fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|link| sockets.iter().any(|socket| link == Path::new(socket)))
    };
    let number = |directory: &Path| directory.file_name()?.to_str()?.parse().ok();
    processes.map(|entry| entry.path()).find_map(|directory| number(&directory).filter(|_| holds(&directory)))
}

/// The inodes of the sockets that listen on a port, in a table of the kernel's.
fn listeners(table: &str, port: u16) -> Vec<&str> {
    const LISTENS: &str = "0A";
    let suffix = format!(":{port:04X}");
    let inode = |line| {
        let fields: Vec<&str> = str::split_whitespace(line).collect();
        let is_it = fields.get(1)?.ends_with(&suffix) && fields.get(3) == Some(&LISTENS);
        fields.get(9).copied().filter(|_| is_it)
    };
    table.lines().filter_map(inode).collect()
}

/// A command that runs a server.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// For the shell.
    command: String,
    /// Where to reach the server once it runs.
    kubeconfig: PathBuf,
}

impl Program {
    /// This project's server with one member of its store, on a directory of its own.
    ///
    /// # Errors
    /// When this program cannot be found: the others are beside it.
    pub(crate) fn own(directory: &Path) -> anyhow::Result<Self> {
        let quarterdeck = std::env::current_exe().context("find this program")?.with_file_name("quarterdeck");
        let (program, data) = (quarterdeck.display(), directory.join("cluster"));
        let command = format!("'{program}' up --store-members 1 --components store,apiserver --data-dir '{}'", data.display());
        Ok(Self { command, kubeconfig: data.join("admin.conf") })
    }

    /// A command of somebody else's.
    pub(crate) fn given(command: &str, kubeconfig: &Path) -> Self {
        Self { command: command.to_owned(), kubeconfig: kubeconfig.to_owned() }
    }
}

/// A running command; ended when dropped.
pub(crate) struct Running {
    child: Child,
    /// From the start to the first `/readyz` that said yes.
    pub(crate) ready_after: Duration,
    pub(crate) target: Target,
}

impl Running {
    /// Starts it and waits until it is ready.
    pub(crate) async fn start(program: &Program, log: &Path) -> anyhow::Result<Self> {
        let log = fs::File::options().create(true).append(true).open(log).context("make a log file")?;
        let began = Instant::now();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {}", program.command)]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut child = command.spawn().context("start the shell")?;
        while began.elapsed() < START {
            if let Some(status) = child.try_wait()? {
                bail!("{} ended ({status})", program.command);
            }
            if let Ok(Ok(target)) = timeout(ATTEMPT, ready(&program.kubeconfig)).await {
                return Ok(Self { child, ready_after: began.elapsed(), target });
            }
            sleep(RETRY).await;
        }
        let _ = child.kill();
        bail!("{} was not ready within {START:?}", program.command)
    }

    /// Has it end, and waits for that.
    pub(crate) fn stop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
        }
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if began.elapsed() > STOP {
                let _ = self.child.kill();
            }
            std::thread::sleep(RETRY);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn ready(kubeconfig: &Path) -> anyhow::Result<Target> {
    let target = Target::of(kubeconfig).await?;
    target.connect().await?.call(Request::new(Method::GET, "/readyz")).await?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_socket_is_told_by_its_port_and_state() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     0: 0100007F:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n\
                     1: 0100007F:192B 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n\
                     2: 0100007F:192C 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0\n";
        assert_eq!(listeners(table, 6443), ["4711"]);
        assert!(listeners(table, 80).is_empty());
    }

    #[test]
    fn the_process_that_listens_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(listening(listener.local_addr().unwrap().port()), Some(std::process::id()));
    }
}
