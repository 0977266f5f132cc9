//! What the runtime knows of one pod, in the form plan and status read.

use futures::future::try_join_all;
use jiff::Timestamp;

use super::{Cri, CriResult, labels, v1};

/// Limits of a termination message, and of the part of the log that stands in for one (upstream's).
const MOST_MESSAGE: usize = 4096;
const FALLBACK_LINES: u64 = 80;
const FALLBACK_BYTES: usize = 2048;

/// Sandboxes and containers of one pod, each newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Observed {
    pub(crate) sandboxes: Vec<Sandbox>,
    pub(crate) containers: Vec<Container>,
}

/// One sandbox.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sandbox {
    pub(crate) id: String,
    pub(crate) attempt: u32,
    pub(crate) ready: bool,
    pub(crate) host_network: bool,
    pub(crate) ips: Vec<String>,
    pub(crate) created_at: Timestamp,
}

/// Where a container is in its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum State {
    Created,
    Running,
    Exited,
    #[default]
    Unknown,
}

/// One container.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Container {
    pub(crate) id: String,
    pub(crate) sandbox_id: String,
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) created_at: Timestamp,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) exit_code: i32,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) image: String,
    pub(crate) image_id: String,
    pub(crate) notes: labels::Notes,
    /// Host path of the file mounted at the termination message path, if any.
    pub(crate) message_file: Option<String>,
    pub(crate) log_path: String,
}

impl Observed {
    /// The newest sandbox.
    pub(crate) fn sandbox(&self) -> Option<&Sandbox> {
        self.sandboxes.first()
    }

    /// The sandbox containers can be started in, if there is one.
    pub(crate) fn usable_sandbox(&self) -> Option<&Sandbox> {
        self.sandbox().filter(|s| s.ready && (s.host_network || !s.ips.is_empty()))
    }

    /// The newest container of that name.
    pub(crate) fn newest(&self, name: &str) -> Option<&Container> {
        self.containers.iter().find(|c| c.name == name)
    }

    /// When a container of that name last ended.
    pub(crate) fn last_exit(&self, name: &str) -> Option<Timestamp> {
        self.containers.iter().find(|c| c.name == name && c.state == State::Exited)?.finished_at
    }

    /// Everything that still runs.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(|c| c.state == State::Running)
    }
}

/// Asks the runtime for all of one pod.
pub(crate) async fn observe(cri: &dyn Cri, uid: &str) -> CriResult<Observed> {
    let selector = std::collections::HashMap::from([(labels::POD_UID.to_owned(), uid.to_owned())]);
    let sandboxes = cri.list_pod_sandbox(v1::ListPodSandboxRequest {
        filter: Some(v1::PodSandboxFilter { label_selector: selector.clone(), ..Default::default() }),
    });
    let containers = cri.list_containers(v1::ListContainersRequest {
        filter: Some(v1::ContainerFilter { label_selector: selector, ..Default::default() }),
    });
    let (sandboxes, containers) = futures::try_join!(sandboxes, containers)?;
    let sandboxes = try_join_all(sandboxes.items.iter().map(|s| sandbox(cri, &s.id)));
    let containers = try_join_all(containers.containers.iter().map(|c| container(cri, c)));
    let (sandboxes, containers) = futures::try_join!(sandboxes, containers)?;
    let mut seen =
        Observed { sandboxes: sandboxes.into_iter().flatten().collect(), containers: containers.into_iter().flatten().collect() };
    seen.sandboxes.sort_by_key(|s| std::cmp::Reverse(s.created_at));
    seen.containers.sort_by_key(|c| std::cmp::Reverse(c.created_at));
    Ok(seen)
}

/// Something listed a moment ago may be gone by now; that is no error.
fn present<T>(answer: CriResult<T>) -> CriResult<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(status) if status.code() == tonic::Code::NotFound => Ok(None),
        Err(status) => Err(status),
    }
}

async fn sandbox(cri: &dyn Cri, id: &str) -> CriResult<Option<Sandbox>> {
    let request = v1::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
    let answer = present(cri.pod_sandbox_status(request).await)?;
    Ok(answer.and_then(|a| a.status).map(sandbox_from))
}

async fn container(cri: &dyn Cri, listed: &v1::Container) -> CriResult<Option<Container>> {
    let request = v1::ContainerStatusRequest { container_id: listed.id.clone(), verbose: false };
    let answer = present(cri.container_status(request).await)?;
    let Some(status) = answer.and_then(|a| a.status) else { return Ok(None) };
    let mut container = container_from(status, &listed.pod_sandbox_id);
    if let Some(message) = last_message(&container).await {
        container.message = message;
    }
    Ok(Some(container))
}

/// What a container that has ended left in its termination message file, or last in its log if its policy says so.
async fn last_message(container: &Container) -> Option<String> {
    if container.state != State::Exited {
        return None;
    }
    let file = container.message_file.as_ref()?;
    let bytes = tokio::fs::read(file).await.unwrap_or_default();
    let mut message = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_MESSAGE)]).into_owned();
    if message.is_empty() && container.exit_code != 0 && container.notes.message_policy == "FallbackToLogsOnError" {
        message = crate::logs::read::last_words(container.log_path.as_ref(), FALLBACK_LINES, FALLBACK_BYTES).await;
    }
    Some(message).filter(|m| !m.is_empty())
}

fn sandbox_from(status: v1::PodSandboxStatus) -> Sandbox {
    let host = v1::NamespaceMode::Node as i32;
    let network = status.network.unwrap_or_default();
    Sandbox {
        attempt: status.metadata.map_or(0, |m| m.attempt),
        ready: status.state == v1::PodSandboxState::SandboxReady as i32,
        host_network: status.linux.and_then(|l| l.namespaces).and_then(|n| n.options).is_some_and(|o| o.network == host),
        ips: std::iter::once(network.ip).chain(network.additional_ips.into_iter().map(|ip| ip.ip)).filter(|ip| !ip.is_empty()).collect(),
        created_at: time(status.created_at).unwrap_or_default(),
        id: status.id,
    }
}

fn container_from(status: v1::ContainerStatus, sandbox_id: &str) -> Container {
    let notes = labels::notes(&status.annotations);
    let state = match v1::ContainerState::try_from(status.state) {
        Ok(v1::ContainerState::ContainerCreated) => State::Created,
        Ok(v1::ContainerState::ContainerRunning) => State::Running,
        Ok(v1::ContainerState::ContainerExited) => State::Exited,
        _ => State::Unknown,
    };
    let mount = status.mounts.into_iter().find(|m| !m.host_path.is_empty() && m.container_path == notes.message_path);
    Container {
        sandbox_id: sandbox_id.to_owned(),
        name: status.labels.get(labels::CONTAINER_NAME).cloned().unwrap_or_default(),
        state,
        created_at: time(status.created_at).unwrap_or_default(),
        started_at: time(status.started_at),
        finished_at: time(status.finished_at),
        exit_code: status.exit_code,
        reason: status.reason,
        message: status.message,
        image: status.image.map(|i| i.image).unwrap_or_default(),
        image_id: status.image_ref,
        message_file: mount.map(|m| m.host_path),
        notes,
        log_path: status.log_path,
        id: status.id,
    }
}

/// CRI counts nanoseconds; 0 means "not yet".
fn time(nanoseconds: i64) -> Option<Timestamp> {
    (nanoseconds > 0).then(|| Timestamp::from_nanosecond(i128::from(nanoseconds)).ok()).flatten()
}
