//! Runs one member of the store, or works on a snapshot file.

use std::process::ExitCode;

use component::logs::{self, Format};
use store::{
    Config,
    config::{Start, help, line, start},
    snapshot_command,
};

fn main() -> ExitCode {
    let (words, variables) = match start::process() {
        Ok(given) => given,
        Err(error) => return refuse(&error.into()),
    };
    if words.first().is_some_and(|word| word == snapshot_command::NAME) {
        logs::init(Format::Text, "info");
        return snapshot_command::run();
    }
    match start::read(&words, &variables) {
        Ok(Start::Print(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Start::Serve { config, notes }) => {
            if let Err(error) = start_log(&config) {
                return refuse(&error);
            }
            notes.iter().for_each(|note| note.log());
            component::main("store", |shutdown| store::run(*config, shutdown))
        }
        Err(start::Error::Line(error @ line::Error::Word(_))) => refuse(&error.into()),
        Err(start::Error::Line(error)) => {
            eprintln!("{error}\n{}", help::USAGE);
            start::Error::Line(error).exit_code().into()
        }
        Err(error) => refuse(&error.into()),
    }
}

fn start_log(config: &Config) -> anyhow::Result<()> {
    let format = if config.log_format == "json" { Format::Zap } else { Format::Text };
    logs::init_to(format, config.log_directive(), &config.log_outputs)
}

/// Says why the member does not start.
fn refuse(error: &anyhow::Error) -> ExitCode {
    eprintln!("store: failed to verify flags: {error:#}");
    ExitCode::FAILURE
}
