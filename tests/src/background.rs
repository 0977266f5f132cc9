//! Programs that run beside a test.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::command::binary;

/// A running program, killed when dropped.
pub struct Background(Child);

impl Background {
    /// Starts it; what it says goes to `log`.
    pub fn start(program: &str, args: &[String], log: &Path) -> Self {
        Self::run(Command::new(binary(program)).args(args), log)
    }

    /// Starts any program.
    pub fn run(command: &mut Command, log: &Path) -> Self {
        let log = File::create(log).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Self(command.spawn().unwrap())
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
