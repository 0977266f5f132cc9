//! Runs one member of the store, or works on a snapshot file.

use std::process::ExitCode;

use component::logs::{self, Format};
use store::CommandLine;

fn main() -> ExitCode {
    let CommandLine { config, tool } = CommandLine::from_args();
    let format = if config.log_format.as_deref() == Some("json") { Format::Json } else { Format::Text };
    logs::init(format, config.log_directive());
    if let Some(tool) = tool {
        return tool.run();
    }
    component::main("store", |shutdown| store::run(config, shutdown))
}
