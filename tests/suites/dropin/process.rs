//! The program of either maker, as a script starts it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tests::{Background, Maker, Output, ports::free, run, within};

use crate::web;

/// Until it serves.
const START: Duration = Duration::from_secs(30);

/// Both.
pub(crate) const MAKERS: [Maker; 2] = [Maker::Ours, Maker::Etcd];

/// Runs a program that ends by itself, in a directory of its own.
pub(crate) fn to_its_end(maker: Maker, words: &[&str], variables: &[(&str, &str)]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(maker.server());
    command.args(words).envs(variables.iter().copied()).current_dir(directory.path());
    run(&mut command)
}

/// A member that runs, where it listens, and its files.
pub(crate) struct Member {
    pub(crate) client: u16,
    pub(crate) peer: u16,
    pub(crate) directory: TempDir,
    process: Background,
}

impl Member {
    /// Starts a member as `line` says, given the directory and two free ports, for clients and peers; waits until it logs that
    /// it serves.
    pub(crate) fn start(maker: Maker, line: impl FnOnce(&mut Command, &Path, u16, u16)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let ports = free(2);
        let (client, peer) = (ports[0], ports[1]);
        let mut command = Command::new(maker.server());
        command.current_dir(directory.path());
        line(&mut command, directory.path(), client, peer);
        let process = Background::run(&mut command, &directory.path().join("log"));
        let member = Self { client, peer, directory, process };
        member.serves();
        member
    }

    /// Starts a member with plain ports and further flags.
    pub(crate) fn plain(maker: Maker, flags: &[&str]) -> Self {
        let member = Self::start(maker, |command, directory, client, peer| {
            let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
            command.arg(format!("--data-dir={}", directory.join("data").display()));
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--listen-peer-urls", &peer]);
            command.args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", &format!("default={peer}")]);
            command.args(flags);
        });
        member.wait();
        member
    }

    /// Waits until it is healthy.
    pub(crate) fn wait(&self) {
        within(START, "the member is healthy", || {
            let health = web::get(self.client, "/health").map_err(|error| error.to_string())?;
            if health.code == 200 { Ok(()) } else { Err(health.body) }
        });
    }

    /// What it logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// How it ended, once it has.
    pub(crate) fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.process.ended()
    }

    /// Ends it, and starts another on its directory and ports.
    pub(crate) fn again(&mut self, line: impl FnOnce(&mut Command, &Path, u16, u16), maker: Maker) {
        self.process.stop();
        let mut command = Command::new(maker.server());
        command.current_dir(self.directory.path());
        line(&mut command, self.directory.path(), self.client, self.peer);
        self.process = Background::run(&mut command, &self.directory.path().join("log"));
        self.serves();
    }

    fn serves(&self) {
        within(START, "the member serves", || {
            let log = self.log();
            if log.contains("ready to serve client requests") { Ok(()) } else { Err(log) }
        });
    }

    /// Its process.
    pub(crate) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// etcdctl against it.
    pub(crate) fn etcdctl(&self, args: &[&str]) -> Output {
        let mut command = Command::new("etcdctl");
        run(command.env("ETCDCTL_API", "3").arg(format!("--endpoints=http://127.0.0.1:{}", self.client)).args(args))
    }
}
