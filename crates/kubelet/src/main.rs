//! The kubelet binary.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    if let Some(code) = kubelet::run_as_shim() {
        return ExitCode::from(u8::try_from(code).unwrap_or(1));
    }
    let flags = kubelet::Flags::parse();
    flags.logs().init();
    component::main("kubelet", |shutdown| async move { kubelet::run(flags.into_config()?, shutdown).await })
}
