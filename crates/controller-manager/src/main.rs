//! The `controller-manager` binary; see the library for what it does.

use std::process::ExitCode;

use clap::Parser as _;
use controller_manager::{Flags, run};

fn main() -> ExitCode {
    let flags = Flags::parse();
    flags.logs.init();
    component::main("controller-manager", |shutdown| async move { run(flags.config()?, shutdown).await })
}
