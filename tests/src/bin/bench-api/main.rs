//! Measures an API server: throughput, latency, processor time and memory of what clients do most.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cases;
mod client;
mod report;
mod server;
mod things;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, bail};
use cases::{ALL, Case, Context, Sizes};
use clap::Parser;
use client::Target;
use server::{Program, Running};
use tempfile::TempDir;
use tests::bench::Times;
use tokio::time::timeout;

/// Longest time for a case.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

#[derive(Debug, Parser)]
#[command(name = "bench-api", about = "Measures an API server; without --kubeconfig it starts one of this project's, with its store")]
struct Args {
    /// The server, and an administrator of it.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// A command that runs the server for as long as it is not interrupted: then it is started here. Wants --kubeconfig.
    #[arg(long, requires = "kubeconfig")]
    up: Option<String>,
    /// The server's process; found by the port where the server is on this machine.
    #[arg(long)]
    pid: Option<u32>,
    /// Cases to run; all by default.
    #[arg(long, value_delimiter = ',')]
    cases: Vec<String>,
    /// Names the cases and ends.
    #[arg(long)]
    list: bool,
    /// Seconds each measurement takes, where it is not a number of requests.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds of load before that.
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    #[command(flatten)]
    sizes: Sizes,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if args.list {
        ALL.iter().for_each(|case| println!("{:<12} {}", case.name, case.about));
        return Ok(());
    }
    let chosen = chosen(&args.cases)?;
    let directory = tempfile::Builder::new().prefix("bench-api-").tempdir().context("make a directory")?;
    let program = program(&args, &directory)?;
    let running = match &program {
        Some(program) => Some(Running::start(program, &directory.path().join("log")).await?),
        None => None,
    };
    let target = match (&running, &args.kubeconfig) {
        (Some(running), _) => running.target.clone(),
        (None, Some(kubeconfig)) => Target::of(kubeconfig).await?,
        (None, None) => bail!("no server"),
    };
    let process = args.pid.or_else(|| target.local_port().and_then(server::listening));
    let context = Context {
        target,
        process,
        sizes: args.sizes.clone(),
        times: Times { warm_up: Duration::try_from_secs_f64(args.warm_up)?, measure: Duration::try_from_secs_f64(args.seconds)? },
        namespace: format!("bench-{}", std::process::id()),
        started: running.as_ref().map(|running| running.ready_after),
        own: args.kubeconfig.is_none(),
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{cores} cores, which the load shares; the server's process: {}", process.map_or("unknown".into(), |pid| pid.to_string()));
    let measured = measure(&context, &chosen).await;
    if running.is_none() {
        context.clean_up().await?;
    }
    measured
}

async fn measure(context: &Context, chosen: &[&Case]) -> anyhow::Result<()> {
    context.prepare().await?;
    let (mut rows, mut failed) = (Vec::new(), 0);
    for case in chosen {
        match timeout(PATIENCE, case.run(context)).await.map_err(anyhow::Error::from).flatten() {
            Ok(measured) => {
                measured.iter().for_each(|row| println!("{}", report::line(row)));
                rows.extend(measured);
            }
            Err(error) => {
                println!("  {}: {error:#}", case.name);
                failed += 1;
            }
        }
    }
    println!("\n{}", report::table(&rows));
    anyhow::ensure!(failed == 0, "{failed} cases failed");
    Ok(())
}

fn chosen(wanted: &[String]) -> anyhow::Result<Vec<&'static Case>> {
    if let Some(unknown) = wanted.iter().find(|name| !ALL.iter().any(|case| case.name == **name)) {
        bail!("--cases: there is no {unknown}; --list names them all");
    }
    Ok(ALL.iter().filter(|case| wanted.is_empty() || wanted.iter().any(|name| name == case.name)).collect())
}

/// What this program starts: the command it was given, or this project's server; nothing where a server runs already.
fn program(args: &Args, directory: &TempDir) -> anyhow::Result<Option<Program>> {
    match (&args.kubeconfig, &args.up) {
        (None, _) => Ok(Some(Program::own(directory.path())?)),
        (Some(kubeconfig), Some(command)) => Ok(Some(Program::given(command, kubeconfig))),
        (Some(_), None) => Ok(None),
    }
}
