//! Structured logs on standard error: human on a terminal, JSON with a flag.

use std::{fs::OpenOptions, io::IsTerminal, sync::Arc};

use crate::zap::Zap;
use anyhow::Context;
use tracing_subscriber::{
    EnvFilter,
    fmt::writer::{BoxMakeWriter, MakeWriterExt},
};

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One human line an event.
    Text,
    /// One JSON object an event.
    Json,
    /// One JSON object an event, as etcd writes it.
    #[value(skip)]
    Zap,
}

/// The log flags of the kube-* binaries.
#[derive(Clone, Debug, clap::Args)]
pub struct LogFlags {
    /// Sets the log format.
    #[arg(long = "logging-format", alias = "log-format", value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Number for the log level verbosity (0-3 info, 4-5 debug, 6 and above trace).
    #[arg(short = 'v', long = "v", default_value_t = 0)]
    pub verbosity: u8,
}

impl LogFlags {
    /// Installs the process-wide subscriber; later calls change nothing. `RUST_LOG` overrides the verbosity.
    pub fn init(&self) {
        let level = match self.verbosity {
            0..=3 => "info",
            4 | 5 => "debug",
            _ => "trace",
        };
        init(self.format, level);
    }
}

/// Installs the process-wide subscriber with a level or an `EnvFilter` directive; `RUST_LOG` overrides it.
pub fn init(format: Format, directive: &str) {
    install(format, directive, BoxMakeWriter::new(std::io::stderr), std::io::stderr().is_terminal());
}

fn install(format: Format, directive: &str, writer: BoxMakeWriter, colours: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(quiet_libraries(directive)));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    // An error only says that a subscriber is installed already (tests start several parts in one process).
    let _ = match format {
        Format::Zap => builder.event_format(Zap).try_init(),
        Format::Json => builder.json().flatten_event(true).try_init(),
        Format::Text => builder.with_ansi(colours).try_init(),
    };
}

/// Installs the process-wide subscriber, writing to several places at once: `stderr` (also as `default`), `stdout`, files that
/// are appended to. `systemd/journal` is standard error, which the journal reads.
///
/// # Errors
/// When a file cannot be opened.
pub fn init_to(format: Format, directive: &str, outputs: &[String]) -> anyhow::Result<()> {
    let mut writers = Vec::new();
    for output in outputs {
        writers.push(match output.as_str() {
            "default" | "stderr" | "systemd/journal" => BoxMakeWriter::new(std::io::stderr),
            "stdout" => BoxMakeWriter::new(std::io::stdout),
            path => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                BoxMakeWriter::new(Arc::new(file.with_context(|| format!("open log file {path}"))?))
            }
        });
    }
    let plain = outputs.iter().any(|output| !matches!(output.as_str(), "default" | "stderr"));
    let all = writers.into_iter().reduce(|first, second| BoxMakeWriter::new(first.and(second)));
    install(format, directive, all.unwrap_or_else(|| BoxMakeWriter::new(std::io::stderr)), !plain && std::io::stderr().is_terminal());
    Ok(())
}

/// Libraries that narrate their every step at debug level stay at info unless asked for by name.
fn quiet_libraries(directive: &str) -> String {
    let noisy = ["h2", "hyper", "hyper_util", "rustls", "tower", "tonic", "kube_client", "kube_runtime"];
    let quiet = noisy.map(|library| format!("{library}=info")).join(",");
    if matches!(directive, "debug" | "trace") { format!("{directive},{quiet}") } else { directive.to_owned() }
}
