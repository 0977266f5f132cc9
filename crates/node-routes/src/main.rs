//! The `node-routes` binary; see the library for what it does.

use std::process::ExitCode;

use clap::Parser as _;
use node_routes::{Flags, run};

fn main() -> ExitCode {
    let flags = Flags::parse();
    flags.logs.init();
    component::main("node-routes", |shutdown| async move { run(flags.config()?, shutdown).await })
}
