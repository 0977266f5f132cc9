//! The `scheduler` binary; see the library for what it does.

use std::process::ExitCode;

use clap::Parser as _;
use scheduler::{Flags, run};

fn main() -> ExitCode {
    let flags = Flags::parse();
    flags.logs.init();
    component::main("scheduler", |shutdown| async move { run(flags.config()?, shutdown).await })
}
