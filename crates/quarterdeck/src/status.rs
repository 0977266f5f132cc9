//! `quarterdeck status`: the parts, the API server's own word, the nodes.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Node;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::cli::StatusFlags;
use crate::layout::Layout;
use crate::state::{Instance, State};

/// A question to the API server may take so long.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// Prints what runs; the code says whether all of it is well.
pub(crate) async fn run(flags: &StatusFlags) -> anyhow::Result<ExitCode> {
    let layout = Layout::new(&flags.data_dir.data_dir)?;
    if let Some(seconds) = flags.wait {
        wait_for_nodes(&layout, Duration::from_secs(seconds)).await?;
    }
    let Some(state) = State::running(&layout)? else {
        println!("no cluster is running on {}", layout.root().display());
        return Ok(ExitCode::FAILURE);
    };
    println!("{:<22} {:<8} {:>8} {:>9}  LISTENS", "PART", "STATE", "RSS", "RESTARTS");
    state.instances.iter().for_each(print_instance);
    let alive = state.instances.iter().all(|instance| resident_mib(instance.pid).is_some());
    let server = server_status(&layout, &state).await;
    let word = server.as_ref().map_or_else(|error| format!("not ready: {error:#}"), Clone::clone);
    println!("\n{}: {word}", state.server);
    Ok(if alive && server.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

async fn server_status(layout: &Layout, state: &State) -> anyhow::Result<String> {
    let client = admin_client(layout).await?;
    readyz(&client).await?;
    let ready = ready_nodes(&client).await?;
    Ok(format!("ready, {ready} of {} nodes Ready", state.nodes))
}

async fn wait_for_nodes(layout: &Layout, limit: Duration) -> anyhow::Result<()> {
    let began = std::time::Instant::now();
    let mut last = String::new();
    while began.elapsed() < limit {
        let Some(state) = State::running(layout)? else { bail!("no cluster is running on {}", layout.root().display()) };
        let word = match server_status(layout, &state).await {
            Ok(word) if word == format!("ready, {0} of {0} nodes Ready", state.nodes) => return Ok(()),
            Ok(word) => word,
            Err(error) => format!("not ready: {error:#}"),
        };
        if word != last {
            println!("[{:6.2} s] {word}", began.elapsed().as_secs_f64());
            last = word;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    bail!("not every node is Ready within {limit:?}: {last}")
}

/// A client with the admin's certificate.
pub(crate) async fn admin_client(layout: &Layout) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(layout.admin_kubeconfig()).context("read admin kubeconfig")?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.connect_timeout = Some(ASK_TIMEOUT);
    config.read_timeout = Some(ASK_TIMEOUT);
    Ok(Client::try_from(config)?)
}

/// `Ok` when `/readyz` is.
pub(crate) async fn readyz(client: &Client) -> anyhow::Result<()> {
    let request = http::Request::get("/readyz").body(Vec::new())?;
    tokio::time::timeout(ASK_TIMEOUT, client.request_text(request)).await.context("ask /readyz")??;
    Ok(())
}

async fn ready_nodes(client: &Client) -> anyhow::Result<usize> {
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = tokio::time::timeout(ASK_TIMEOUT, nodes.list(&Default::default())).await.context("list nodes")??;
    Ok(nodes.items.iter().filter(|node| is_ready(node)).count())
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
