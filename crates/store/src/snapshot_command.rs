//! `store snapshot`: what etcd's `etcdutl snapshot` does, with the same flags.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{
    backup::{
        file::SnapshotFile,
        import::{self, Adjust},
        status::{self, Status},
    },
    disk::{Home, Rocks, RocksHome, Shared, home::sync_directory},
    raft::{membership, planted},
    url::Url,
};

/// etcd's exit code for arguments that contradict each other.
const BAD_ARGUMENTS: u8 = 128;
/// A restored member grows here before it gets its name: a half one must not look like a whole one.
const UNFINISHED: &str = "member.restoring";

/// The word that asks for it.
pub const NAME: &str = "snapshot";

/// The program, when it does not serve.
#[derive(Debug, Parser)]
#[command(name = "store", about = "An etcd-compatible store")]
struct CommandLine {
    #[command(subcommand)]
    tool: Tool,
}

/// What the program does besides serving.
#[derive(Clone, Debug, Subcommand)]
enum Tool {
    /// Manages snapshot files
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
}

/// What to do with a snapshot file.
#[derive(Clone, Debug, Subcommand)]
enum SnapshotCommand {
    /// Restores a snapshot, of this store or of etcd, to a data directory
    Restore(RestoreArgs),
    /// Tells what is in a snapshot file
    Status(StatusArgs),
}

/// How to restore.
#[derive(Clone, Debug, Args)]
struct RestoreArgs {
    /// The snapshot
    file: PathBuf,
    /// Human-readable name for this member
    #[arg(long, default_value = "default")]
    name: String,
    /// Path to the output data directory; `<name>.etcd` when not given
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Initial cluster configuration for restore bootstrap, `name=url,…`
    #[arg(long, default_value = "default=http://localhost:2380")]
    initial_cluster: String,
    /// Initial cluster token for the cluster during restore bootstrap
    #[arg(long, default_value = "etcd-cluster")]
    initial_cluster_token: String,
    /// This member's peer URLs to advertise to the rest of the cluster
    #[arg(long, value_delimiter = ',', default_value = "http://localhost:2380")]
    initial_advertise_peer_urls: Vec<Url>,
    /// How much to increase the latest revision after restore
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    bump_revision: i64,
    /// Mark the latest revision after restore as compacted (required if --bump-revision > 0, disallowed otherwise)
    #[arg(long)]
    mark_compacted: bool,
    /// Ignore the snapshot's integrity hash (required if copied from a data directory)
    #[arg(long)]
    skip_hash_check: bool,
}

/// How to tell.
#[derive(Clone, Debug, Args)]
struct StatusArgs {
    /// The snapshot
    file: PathBuf,
    /// Output format
    #[arg(long, short, default_value = "simple")]
    write_out: Format,
}

/// etcd's output formats.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Simple,
    Fields,
    Json,
    Table,
}

/// Does what the process's command line says, to its end.
pub fn run() -> ExitCode {
    CommandLine::parse().tool.run()
}

impl Tool {
    fn run(self) -> ExitCode {
        let Tool::Snapshot(command) = self;
        let result = match command {
            SnapshotCommand::Restore(args) if args.mark_compacted != (args.bump_revision > 0) => {
                eprintln!("Error: --mark-compacted required if --revision-bump > 0");
                return BAD_ARGUMENTS.into();
            }
            SnapshotCommand::Restore(args) => restore(&args),
            SnapshotCommand::Status(args) => tell(&args),
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("Error: {error:#}");
                ExitCode::FAILURE
            }
        }
    }
}

fn restore(args: &RestoreArgs) -> anyhow::Result<()> {
    let data_dir = args.data_dir.clone().unwrap_or_else(|| format!("{}.etcd", args.name).into());
    let cluster = membership::parse_initial_cluster(&args.initial_cluster)?;
    let (identity, members) = membership::initial(&cluster, &args.name, &args.initial_advertise_peer_urls, &args.initial_cluster_token)?;
    let mut file = SnapshotFile::open(&args.file)?;
    if !args.skip_hash_check {
        file.verify()?;
    }
    let bolt = file.bolt().context("the snapshot cannot be used")?;
    if !is_vacant(&data_dir) {
        bail!("data-dir {data_dir:?} not empty or could not be read");
    }
    let unfinished = data_dir.join(UNFINISHED);
    let built = (|| {
        fs::create_dir_all(&unfinished).with_context(|| format!("create {}", unfinished.display()))?;
        let shared = Arc::new(Shared::default());
        let log = Rocks::open_raft(&unfinished.join("raft"), &shared)?;
        let state = RocksHome::open(unfinished.clone(), shared)?.current();
        let adjust = Adjust { bump: args.bump_revision, compact: args.mark_compacted };
        let revisions = import::import(&bolt, &*state, adjust)?;
        planted::plant(&*state, &log, &identity, &members)?;
        anyhow::Ok(revisions)
    })();
    let revisions = built.inspect_err(|_| drop(fs::remove_dir_all(&unfinished)))?;
    put_in_place(&data_dir).context("move the restored member into place")?;
    tracing::info!(
        path = %args.file.display(),
        data_dir = %data_dir.display(),
        member = format!("{:x}", identity.member_id),
        cluster = format!("{:x}", identity.cluster_id),
        revision = revisions.current,
        compacted = revisions.compacted,
        "restored snapshot"
    );
    Ok(())
}

/// It does not exist, or holds nothing.
fn is_vacant(directory: &Path) -> bool {
    match fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn put_in_place(data_dir: &Path) -> io::Result<()> {
    let unfinished = data_dir.join(UNFINISHED);
    sync_directory(&unfinished)?;
    fs::rename(unfinished, data_dir.join("member"))?;
    sync_directory(data_dir)
}

fn tell(args: &StatusArgs) -> anyhow::Result<()> {
    let file = SnapshotFile::open(&args.file)?;
    let bolt = file.bolt().context("snapshot file integrity check failed")?;
    let status = status::status(&bolt, std::env::temp_dir())?;
    let text = match args.write_out {
        Format::Simple => row(&status).join(", "),
        Format::Fields => fields(&status),
        Format::Json => json(&status),
        Format::Table => table(&HEADINGS, &row(&status)),
    };
    println!("{text}");
    Ok(())
}

const HEADINGS: [&str; 5] = ["HASH", "REVISION", "TOTAL KEYS", "TOTAL SIZE", "VERSION"];

fn row(status: &Status) -> [String; 5] {
    let Status { hash, revision, total_keys, total_size, version } = status;
    [format!("{hash:x}"), revision.to_string(), total_keys.to_string(), humanized(*total_size), version.clone()]
}

fn fields(status: &Status) -> String {
    let Status { hash, revision, total_keys, total_size, version } = status;
    format!("\"Hash\" : {hash}\n\"Revision\" : {revision}\n\"Keys\" : {total_keys}\n\"Size\" : {total_size}\n\"Version\" : {version}")
}

/// In etcd's order of fields.
fn json(status: &Status) -> String {
    let Status { hash, revision, total_keys, total_size, version } = status;
    let version = serde_json::Value::from(version.as_str());
    format!(r#"{{"hash":{hash},"revision":{revision},"totalKey":{total_keys},"totalSize":{total_size},"version":{version}}}"#)
}

/// Headings in the middle, values to the right.
fn table(headings: &[&str], row: &[String]) -> String {
    let columns: Vec<_> = headings.iter().zip(row).map(|(heading, value)| (heading, value, heading.len().max(value.len()))).collect();
    let line: String = columns.iter().map(|(.., width)| format!("+{}", "-".repeat(width + 2))).collect();
    let head: String = columns.iter().map(|(heading, _, width)| format!("| {heading:^width$} ")).collect();
    let body: String = columns.iter().map(|(_, value, width)| format!("| {value:>width$} ")).collect();
    format!("{line}+\n{head}|\n{line}+\n{body}|\n{line}+")
}

/// Bytes in powers of a thousand, as etcd's tools print them.
fn humanized(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, 0);
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let value = (value * 10.0).round() / 10.0;
    let digits = usize::from(unit > 0 && value < 10.0);
    format!("{value:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_in_etcds_tools() {
        let said = [9, 20_480, 1_234_567, 94_000_000, 2_147_483_648].map(humanized);
        assert_eq!(said, ["9 B", "20 kB", "1.2 MB", "94 MB", "2.1 GB"]);
    }

    #[test]
    fn status_is_told_in_etcds_formats() {
        let status = Status { hash: 0x7ef846e, revision: 485261, total_keys: 11642, total_size: 94_000_000, version: "3.6.0".into() };
        assert_eq!(row(&status).join(", "), "7ef846e, 485261, 11642, 94 MB, 3.6.0");
        assert_eq!(json(&status), r#"{"hash":133137518,"revision":485261,"totalKey":11642,"totalSize":94000000,"version":"3.6.0"}"#);
        let expected = "\
+---------+----------+------------+------------+---------+
|  HASH   | REVISION | TOTAL KEYS | TOTAL SIZE | VERSION |
+---------+----------+------------+------------+---------+
| 7ef846e |   485261 |      11642 |      94 MB |   3.6.0 |
+---------+----------+------------+------------+---------+";
        assert_eq!(table(&HEADINGS, &row(&status)), expected);
    }
}
