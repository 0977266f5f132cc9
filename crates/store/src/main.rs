//! Runs one member of the store.

use std::process::ExitCode;

use component::logs::{self, Format};
use store::Config;

fn main() -> ExitCode {
    let config = Config::from_args();
    let format = if config.log_format.as_deref() == Some("json") { Format::Json } else { Format::Text };
    logs::init(format, config.log_directive());
    component::main("store", |shutdown| store::run(config, shutdown))
}
