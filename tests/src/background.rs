//! Programs that run beside a test.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::command::{binary, on_its_own};

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
        on_its_own(command).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Self(command.spawn().unwrap())
    }

    /// How it ended, once it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    /// Kills it.
    pub fn stop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}
