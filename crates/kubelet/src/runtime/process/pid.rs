//! Processes named so that a reused pid is not taken for the old process: pid and start time.

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

/// A process of this boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    pid: i32,
    /// Start time in clock ticks since boot.
    started: u64,
}

impl Process {
    /// The process that has `pid` now.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        let (_, started) = stat(pid)?;
        Some(Self { pid, started })
    }

    /// Whether it still runs; a zombie does not.
    pub(super) fn alive(self) -> bool {
        stat(self.pid).is_some_and(|(state, started)| started == self.started && !matches!(state, 'Z' | 'X'))
    }

    /// Signals the process, if it is still there.
    pub(super) fn signal(self, signal: Signal) {
        if self.alive() {
            let _ = kill(Pid::from_raw(self.pid), signal);
        }
    }

    /// Signals all of its process group, if it is still there.
    pub(super) fn signal_group(self, signal: Signal) {
        if self.alive() {
            let _ = killpg(Pid::from_raw(self.pid), signal);
        }
    }
}

/// State and start time from `/proc/PID/stat`. The name in it may hold anything, so fields count from the last `)`.
fn stat(pid: i32) -> Option<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.first()?.chars().next()?, fields.get(19)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_its_pid_and_its_start() {
        let me = Process::of(std::process::id()).unwrap();
        assert!(me.alive());
        assert!(!Process { started: me.started + 1, ..me }.alive());
    }
}
