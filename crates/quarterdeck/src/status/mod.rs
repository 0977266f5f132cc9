//! `quarterdeck status`: the parts, the API server's own word, the nodes.

mod nodes;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use self::nodes::Nodes;
use crate::cli::StatusFlags;
use crate::layout::Layout;
use crate::state::{Instance, State};

/// A question to the API server may take so long.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Namespace of the Leases by which kubelets show that they live.
const NODE_LEASES: &str = "kube-node-lease";
/// Between two looks while waiting.
const INTERVAL: Duration = Duration::from_millis(200);

/// Whose status.
enum Target {
    /// The cluster of processes on a data directory.
    Processes(Layout),
    /// Any cluster, by its kubeconfig and how many nodes it shall have.
    Any(PathBuf, usize),
}

impl Target {
    fn kubeconfig(&self) -> anyhow::Result<PathBuf> {
        match self {
            Self::Processes(layout) => running(layout).map(|_| layout.admin_kubeconfig()),
            Self::Any(kubeconfig, _) => Ok(kubeconfig.clone()),
        }
    }

    fn nodes(&self) -> anyhow::Result<usize> {
        match self {
            Self::Processes(layout) => running(layout).map(|state| state.nodes),
            Self::Any(_, nodes) => Ok(*nodes),
        }
    }
}

fn running(layout: &Layout) -> anyhow::Result<State> {
    State::running(layout)?.with_context(|| format!("no cluster is running on {}", layout.root().display()))
}

/// Prints what runs; the code says whether all of it is well.
pub(crate) async fn run(flags: &StatusFlags) -> anyhow::Result<ExitCode> {
    let layout = Layout::new(&flags.data_dir.data_dir)?;
    let target = match &flags.kubeconfig {
        Some(kubeconfig) => Target::Any(kubeconfig.clone(), flags.nodes),
        None => Target::Processes(layout.clone()),
    };
    if let Some(seconds) = flags.wait {
        wait_for_nodes(&target, flags.since, Duration::from_secs(seconds)).await?;
    }
    match target {
        Target::Processes(layout) => show_processes(&layout).await,
        Target::Any(..) if flags.wait.is_some() => Ok(ExitCode::SUCCESS),
        Target::Any(kubeconfig, nodes) => {
            let answer = ask(&kubeconfig, nodes, flags.since).await;
            println!("{}", word(&answer));
            Ok(if answer.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

async fn show_processes(layout: &Layout) -> anyhow::Result<ExitCode> {
    let Some(state) = State::running(layout)? else {
        println!("no cluster is running on {}", layout.root().display());
        return Ok(ExitCode::FAILURE);
    };
    println!("{:<22} {:<8} {:>8} {:>9}  LISTENS", "PART", "STATE", "RSS", "RESTARTS");
    state.instances.iter().for_each(print_instance);
    let alive = state.instances.iter().all(|instance| resident_mib(instance.pid).is_some());
    let answer = ask(&layout.admin_kubeconfig(), state.nodes, None).await;
    println!("\n{}: {}", state.server, word(&answer));
    Ok(if alive && answer.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_instance(instance: &Instance) {
    let memory = resident_mib(instance.pid);
    let state = if memory.is_some() { "running" } else { "dead" };
    let memory = memory.map_or_else(|| "-".to_owned(), |mib| format!("{mib:.1}Mi"));
    println!("{:<22} {state:<8} {memory:>8} {:>9}  {}", instance.name, instance.restarts, instance.listens);
}

fn resident_mib(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}

/// The API server's word and its nodes'.
async fn ask(kubeconfig: &Path, expected: usize, since: Option<Timestamp>) -> anyhow::Result<Nodes> {
    let client = client(kubeconfig).await?;
    readyz(&client).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let leases: Api<Lease> = Api::namespaced(client, NODE_LEASES);
    let all = ListParams::default();
    let (nodes, leases) =
        tokio::time::timeout(ASK_TIMEOUT, async { tokio::join!(nodes.list(&all), leases.list(&all)) }).await.context("list nodes")?;
    Ok(Nodes::of(&nodes?.items, &leases?.items, since, expected))
}

fn word(answer: &anyhow::Result<Nodes>) -> String {
    answer.as_ref().map_or_else(|error| format!("not ready: {error:#}"), ToString::to_string)
}

/// Waits until all nodes are Ready, telling whenever something has changed.
async fn wait_for_nodes(target: &Target, since: Option<Timestamp>, limit: Duration) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut last = String::new();
    while began.elapsed() < limit {
        let answer = ask(&target.kubeconfig()?, target.nodes()?, since).await;
        let now = word(&answer);
        if now != last {
            println!("[{:6.2} s] {now}", began.elapsed().as_secs_f64());
            last = now;
        }
        if answer.is_ok_and(|nodes| nodes.all_ready()) {
            return Ok(());
        }
        tokio::time::sleep(INTERVAL).await;
    }
    bail!("not every node is Ready within {limit:?}: {last}")
}

/// A client of one API server with the admin's certificate.
pub(crate) async fn admin_client(layout: &Layout, server: &str) -> anyhow::Result<Client> {
    let mut config = config(&layout.admin_kubeconfig()).await?;
    config.cluster_url = server.parse().with_context(|| format!("{server:?} is no URL"))?;
    Ok(Client::try_from(config)?)
}

async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    Ok(Client::try_from(config(kubeconfig).await?)?)
}

async fn config(kubeconfig: &Path) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).with_context(|| format!("read {}", kubeconfig.display()))?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.connect_timeout = Some(ASK_TIMEOUT);
    config.read_timeout = Some(ASK_TIMEOUT);
    Ok(config)
}

/// `Ok` when `/readyz` is.
pub(crate) async fn readyz(client: &Client) -> anyhow::Result<()> {
    let request = http::Request::get("/readyz").body(Vec::new())?;
    match tokio::time::timeout(ASK_TIMEOUT, client.request_text(request)).await.context("ask /readyz")? {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => bail!("{}", failed_checks(&status.message)),
        Err(error) => Err(error.into()),
    }
}

/// Of the answer to `/readyz`, what is still waited for; all of it when it is something else.
fn failed_checks(answer: &str) -> String {
    let failed = |line: &str| line.strip_prefix("[-]").and_then(|rest| rest.split_whitespace().next()).map(str::to_owned);
    let failed: Vec<_> = answer.lines().filter_map(failed).collect();
    if failed.is_empty() { answer.trim().to_owned() } else { format!("waiting for {}", failed.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_ready_names_what_it_waits_for() {
        let answer = "[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/rbac/bootstrap-roles failed: reason withheld\nreadyz check failed";
        assert_eq!(failed_checks(answer), "waiting for etcd, poststarthook/rbac/bootstrap-roles");
        assert_eq!(failed_checks("no route\n"), "no route");
    }
}
