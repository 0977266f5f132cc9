//! Programs that run beside a test.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::command::binary;

/// A running binary of this workspace, killed when dropped.
pub struct Background(Child);

impl Background {
    /// Starts it; what it says goes to `log`.
    pub fn start(program: &str, args: &[String], log: &Path) -> Self {
        let log = File::create(log).unwrap();
        let mut command = Command::new(binary(program));
        command.args(args).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
