//! postStart and preStop handlers.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};

use crate::{
    cri::{describe, v1},
    node::Node,
    probe::{http, target},
};

/// Why a hook failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The runtime could not run the command.
    #[error("{0}")]
    Exec(String),
    /// The command ran and failed.
    #[error("command '{command}' exited with {code}: {output}")]
    Exit { command: String, code: i32, output: String },
    /// The HTTP request failed.
    #[error("{0}")]
    Http(String),
}

/// Runs a hook of a running container to its end.
pub(crate) async fn run(node: &Node, pod: &Pod, spec: &Container, id: &str, hook: &LifecycleHandler) -> Result<(), Error> {
    if node.simulated {
        return Ok(());
    }
    if let Some(exec) = &hook.exec {
        return command(node, id, exec.command.clone().unwrap_or_default()).await;
    }
    if let Some(sleep) = &hook.sleep {
        tokio::time::sleep(Duration::from_secs(sleep.seconds.max(0).unsigned_abs())).await;
        return Ok(());
    }
    if let Some(get) = &hook.http_get {
        let pod_ip = node.pod_ip(pod).await;
        let request = target::http(spec, get, pod_ip.as_deref()).map_err(Error::Http)?;
        return http::get(&request, Duration::from_secs(30)).await.map(|_| ()).map_err(|e| Error::Http(e.to_string()));
    }
    Ok(())
}

async fn command(node: &Node, id: &str, command: Vec<String>) -> Result<(), Error> {
    let request = v1::ExecSyncRequest { container_id: id.to_owned(), cmd: command.clone(), timeout: 0 };
    let answer = node.cri.exec_sync(request).await.map_err(|e| Error::Exec(describe(&e)))?;
    if answer.exit_code == 0 {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&[answer.stdout, answer.stderr].concat()).into_owned();
    Err(Error::Exit { command: command.join(" "), code: answer.exit_code, output })
}
