//! Cutting ways between containers: packets are dropped where they arrive, as a broken cable would.

use std::process::Command;

use crate::command::run;

/// A way that is cut until this is dropped.
pub(super) struct Cut {
    from: String,
    to: String,
    pid: i32,
}

impl Cut {
    /// Drops what comes from an address into a container, given by its name and a process in it.
    pub(super) fn new(from: &str, to: &str, pid: i32) -> Self {
        let cut = Self { from: from.to_owned(), to: to.to_owned(), pid };
        let inserted = run(&mut cut.iptables("-I"));
        assert_eq!(inserted.code, 0, "cut {from} off from {to}: {}", inserted.err);
        cut
    }

    fn iptables(&self, action: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.pid.to_string(), "-n", "iptables", "-w", action, "INPUT", "-s", &self.from, "-j", "DROP"]);
        command
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        let removed = run(&mut self.iptables("-D"));
        if removed.code != 0 {
            // A container that was started anew has a network namespace of its own, without the cut.
            eprintln!("the cut from {} to {} went with its container: {}", self.from, self.to, removed.err.trim());
        }
    }
}
