//! `apiserver`: reads the flags and runs the server.

use std::process::ExitCode;

fn main() -> ExitCode {
    match apiserver::Config::from_args(std::env::args_os()) {
        Ok(config) => {
            config.logs.init();
            component::main("apiserver", |shutdown| apiserver::run(config, shutdown))
        }
        Err((text, 0)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err((text, code)) => {
            eprint!("{text}");
            ExitCode::from(code)
        }
    }
}
