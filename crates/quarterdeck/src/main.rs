//! `quarterdeck`: starts, shows and stops a cluster.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    component::install_crypto_provider();
    let cli = quarterdeck::Cli::parse();
    // One thread: children follow the life of the thread that started them, and that has to be the process's own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(quarterdeck::run(cli)));
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("quarterdeck: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
