//! Runs the same load against the store and a real etcd, one after the other in the same run, and prints how they compare.

mod cases;
mod first_put;
mod load;
mod members;
mod report;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use cases::{ALL, Case, Context, Sizes};
use clap::Parser;
use load::{Measured, Times};
use members::{Members, Program};
use report::{Numbers, Row};
use tokio::time::timeout;

/// A case that takes longer than this is given up.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Debug, Parser)]
#[command(name = "bench-store", about = "Compares the store with a real etcd under the same load, in the same run")]
struct Args {
    /// Cases to run, by name, or by the beginning of several names; all by default.
    #[arg(long, value_delimiter = ',')]
    cases: Vec<String>,
    /// Names the cases and ends.
    #[arg(long)]
    list: bool,
    /// Sizes of the clusters.
    #[arg(long, value_delimiter = ',', default_value = "1,3")]
    members: Vec<usize>,
    /// Runs; what is told at the end are medians.
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Seconds each case is measured.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Seconds of load before that.
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// The store's program; by default the one beside this.
    #[arg(long)]
    store: Option<PathBuf>,
    /// What it is compared with; any program that takes etcd's flags.
    #[arg(long, default_value = "etcd")]
    etcd: PathBuf,
    /// One more flag for the store's members.
    #[arg(long, allow_hyphen_values = true)]
    store_flag: Vec<String>,
    /// One more flag for the other's members.
    #[arg(long, allow_hyphen_values = true)]
    etcd_flag: Vec<String>,
    /// Measures one of them only.
    #[arg(long, value_parser = ["store", "etcd"])]
    only: Option<String>,
    /// Where data directories are made; what is measured depends on the disk.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    directory: PathBuf,
    #[command(flatten)]
    sizes: Sizes,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if args.list {
        ALL.iter().for_each(|case| println!("{:<18} {}", case.name, case.about));
        return Ok(());
    }
    let (chosen, programs) = (chosen(&args.cases)?, programs(&args)?);
    describe(&args.directory, &programs)?;
    let (mut rows, mut failed) = (Vec::new(), 0);
    for run in 1..=args.runs {
        println!("run {run} of {}", args.runs);
        for members in &args.members {
            for case in chosen.iter().filter(|case| *members >= case.members) {
                for program in &programs {
                    let measured = timeout(PATIENCE, measure(case, program, *members, &args)).await;
                    match measured.map_err(anyhow::Error::from).flatten() {
                        Ok(measured) => {
                            measured.iter().for_each(|row| println!("{}", report::line(row)));
                            rows.extend(measured);
                        }
                        Err(error) => {
                            println!("  {} on {members}, {}: {error:#}", case.name, program.name);
                            failed += 1;
                        }
                    }
                }
            }
        }
    }
    let names: Vec<_> = programs.into_iter().map(|program| program.name).collect();
    println!("\n{}", report::table(&rows, &names));
    anyhow::ensure!(failed == 0, "{failed} measurements failed");
    Ok(())
}

fn chosen(wanted: &[String]) -> anyhow::Result<Vec<&'static Case>> {
    let exact = |name: &str| ALL.iter().any(|case| case.name == name);
    // `put-1` is a case, and not the beginning of `put-100`.
    let means = |name: &str, case: &Case| case.name == name || (!exact(name) && case.name.starts_with(name));
    if let Some(unknown) = wanted.iter().find(|name| !ALL.iter().any(|case| means(name, case))) {
        bail!("--cases: there is no {unknown}; --list names them all");
    }
    let is_wanted = |case: &&Case| wanted.is_empty() || wanted.iter().any(|name| means(name, case));
    Ok(ALL.iter().filter(is_wanted).collect())
}

fn programs(args: &Args) -> anyhow::Result<Vec<Program>> {
    let beside = std::env::current_exe().context("find this program")?.with_file_name("store");
    let store = Program { name: "store".into(), path: args.store.clone().unwrap_or(beside), flags: args.store_flag.clone() };
    let etcd = Program { name: "etcd".into(), path: args.etcd.clone(), flags: args.etcd_flag.clone() };
    let mut programs = vec![store, etcd];
    programs.retain(|program| args.only.as_ref().is_none_or(|only| *only == program.name));
    Ok(programs)
}

/// Says what is compared, and on what.
fn describe(directory: &Path, programs: &[Program]) -> anyhow::Result<()> {
    for Program { name, path, .. } in programs {
        let version = Command::new(path).arg("--version").output().with_context(|| format!("run {}", path.display()))?;
        let version = String::from_utf8_lossy(&version.stdout).lines().next().unwrap_or_default().to_owned();
        println!("{name}: {} ({version})", path.display());
    }
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{cores} cores; a synced write of 4 KiB in {} takes {:.2?} (median)", directory.display(), sync_time(directory)?);
    Ok(())
}

/// What bounds a single client.
fn sync_time(directory: &Path) -> anyhow::Result<Duration> {
    let mut file = tempfile::tempfile_in(directory).context("make a file")?;
    let mut times = Vec::new();
    for _ in 0..101 {
        let began = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2])
}

/// The row of a case, and of what it measures besides.
async fn measure(case: &Case, program: &Program, count: usize, args: &Args) -> anyhow::Result<Vec<Row>> {
    let members = Members::start(program, count, &args.directory).await?;
    let (warm_up, measure) = (Duration::try_from_secs_f64(args.warm_up)?, Duration::try_from_secs_f64(args.seconds)?);
    let times = Times { warm_up, measure };
    let mut context = Context { members, sizes: args.sizes, times, besides: Vec::new() };
    let measured = (case.run)(&mut context).await?;
    let resident: Vec<_> = context.members.usage().iter().map(|usage| usage.resident).collect();
    let disk = context.members.disk();
    let row = |(case, measured): (&'static str, Measured)| {
        let numbers = Numbers::new(&measured, &resident, &disk);
        Row { case, members: count, program: program.name.clone(), numbers }
    };
    Ok([(case.name, measured)].into_iter().chain(context.besides).map(row).collect())
}
