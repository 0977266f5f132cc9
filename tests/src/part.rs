//! A process of a cluster that a test takes over: stopped, and started again with other flags.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::background::Background;
use crate::cluster::Cluster;
use crate::command::alive;
use crate::wait::within;

/// Until it has ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process and how it was started.
pub struct Part {
    pid: i32,
    args: Vec<String>,
    /// None while `quarterdeck up` has it.
    process: Option<Background>,
}

impl Part {
    /// One that `quarterdeck up` has started.
    pub fn of(cluster: &Cluster, instance: &str) -> Self {
        let pid = cluster.pid(instance);
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty()).skip(1);
        Self { pid, args: words.map(|word| String::from_utf8(word.to_vec()).unwrap()).collect(), process: None }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid), signal).unwrap();
    }

    /// Whether it runs.
    pub fn runs(&self) -> bool {
        alive(self.pid)
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(&self) {
        self.signal(Signal::SIGTERM);
        self.ends();
    }

    /// Waits until it has ended.
    pub fn ends(&self) {
        within(PATIENCE, "the part ends", || if self.runs() { Err(format!("{} runs", self.pid)) } else { Ok(()) });
    }

    /// How it ended, of one this test has started.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.as_mut().and_then(Background::ended)
    }

    /// Starts a program with its flags.
    pub fn start(&mut self, program: impl AsRef<Path>, log: &Path) {
        let process = Background::run(Command::new(program.as_ref()).args(&self.args), log);
        self.pid = process.pid();
        self.process = Some(process);
    }

    /// The value of a flag it has.
    pub fn flag(&self, name: &str) -> &str {
        self.args.iter().find_map(|arg| arg.strip_prefix(&format!("--{name}="))).unwrap()
    }

    /// Gives it a flag, in place of what the flag was.
    pub fn set_flag(&mut self, name: &str, value: &str) {
        self.unset_flag(name);
        self.args.push(format!("--{name}={value}"));
    }

    /// Takes a flag from it.
    pub fn unset_flag(&mut self, name: &str) {
        let prefix = format!("--{name}=");
        self.args.retain(|arg| !arg.starts_with(&prefix));
    }
}
