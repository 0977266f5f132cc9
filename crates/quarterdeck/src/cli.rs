//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::parts::Part;
use crate::{down, pki, status, up};

/// Starts, shows and stops a Kubernetes control plane on this machine.
#[derive(Debug, Parser)]
#[command(name = "quarterdeck", version = component::KUBERNETES_VERSION)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a cluster and stay with it; Ctrl-C stops it.
    Up(UpFlags),
    /// Show the parts of a running cluster and its nodes.
    Status(StatusFlags),
    /// Stop a running cluster.
    Down(DataDir),
    /// Write keys, certificates and kubeconfigs of a cluster whose parts run on hosts of their own.
    Pki(PkiFlags),
}

/// Where a cluster keeps its files.
#[derive(Clone, Debug, Args)]
pub(crate) struct DataDir {
    /// Directory of the cluster's PKI, kubeconfigs, data and logs.
    #[arg(long, env = "QUARTERDECK_DATA_DIR", default_value_os_t = default_data_dir())]
    pub(crate) data_dir: PathBuf,
}

/// What runs the containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Runtime {
    /// Real containers, under a containerd of the cluster's own; needs root.
    Containerd,
    /// Containers' commands as plain processes.
    Process,
    /// Nothing: pods only seem to run.
    Hollow,
}

impl Runtime {
    /// The kubelet's name for it.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Process => "process",
            Self::Hollow => "hollow",
        }
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct UpFlags {
    /// Number of nodes.
    #[arg(long, default_value_t = 1)]
    pub(crate) nodes: usize,
    /// Number of store members.
    #[arg(long, default_value_t = 1, value_parser = store_members)]
    pub(crate) store_members: usize,
    /// URLs of a store, or an etcd, that runs already and wants no certificates, comma-separated: instead of one of the cluster's own.
    #[arg(long, value_delimiter = ',', conflicts_with = "store_members")]
    pub(crate) etcd_servers: Vec<String>,
    /// Number of API servers, all on the usual port: 127.0.0.1, 127.0.0.2 and on. The parts of the cluster talk to the first.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub(crate) apiservers: u8,
    /// What runs the containers; by default containerd for root where it is installed, else process.
    #[arg(long, value_enum)]
    pub(crate) runtime: Option<Runtime>,
    /// Parts to start, comma-separated.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL)]
    pub(crate) components: Vec<Part>,
    #[command(flatten)]
    pub(crate) data_dir: DataDir,
    /// Also write the admin's kubeconfig to this file.
    #[arg(long)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Start a part again when it dies.
    #[arg(long)]
    pub(crate) restart: bool,
    /// Return once the cluster is up and leave it running.
    #[arg(long)]
    pub(crate) detach: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct StatusFlags {
    #[command(flatten)]
    pub(crate) data_dir: DataDir,
    /// Wait until the API server is ready and every node is Ready, for so many seconds at most.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) wait: Option<u64>,
    /// Ask the cluster of this kubeconfig instead, whatever runs it.
    #[arg(long)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Number of nodes that cluster shall have.
    #[arg(long, default_value_t = 1, requires = "kubeconfig")]
    pub(crate) nodes: usize,
    /// Only count nodes that have reported after this time (RFC 3339): not what they said before they were started.
    #[arg(long, requires = "kubeconfig")]
    pub(crate) since: Option<jiff::Timestamp>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct PkiFlags {
    /// Directory to write into: `admin.conf` and the control plane's kubeconfigs, `pki/`, and what each part needs of them once
    /// more, alone: `parts/NAME/` and, for each node, `nodes/NAME/`. What is there and still serves is kept.
    #[arg(long)]
    pub(crate) data_dir: PathBuf,
    /// URL by which the cluster's parts reach the API server.
    #[arg(long)]
    pub(crate) control_plane_endpoint: String,
    /// URL by which the user does; the same if not given.
    #[arg(long)]
    pub(crate) admin_endpoint: Option<String>,
    /// Further host names of the API server.
    #[arg(long, value_delimiter = ',')]
    pub(crate) apiserver_cert_extra_sans: Vec<String>,
    /// Host names of the store's members.
    #[arg(long, value_delimiter = ',')]
    pub(crate) store_names: Vec<String>,
    /// Names of the nodes; kubelets are reached by them.
    #[arg(long, value_delimiter = ',')]
    pub(crate) node_names: Vec<String>,
}

/// Runs one command line.
///
/// # Errors
/// Whatever keeps the command from being carried out, with its causes.
pub async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Up(flags) if flags.detach => up::detach::run(&flags).await,
        Command::Up(flags) => up::run(flags).await,
        Command::Status(flags) => status::run(&flags).await,
        Command::Down(flags) => down::run(&flags).await,
        Command::Pki(flags) => pki::command::run(&flags),
    }
}

fn store_members(text: &str) -> Result<usize, String> {
    match text {
        "1" | "3" | "5" => text.parse().map_err(|_| text.to_owned()),
        _ => Err("must be 1, 3 or 5".to_owned()),
    }
}

fn default_data_dir() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let base = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).or_else(home);
    base.unwrap_or_else(std::env::temp_dir).join("quarterdeck")
}
