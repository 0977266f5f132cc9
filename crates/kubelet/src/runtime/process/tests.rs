use std::ffi::OsString;

use super::*;
use crate::cri::{Cri, v1};

/// Not a test of its own: the test binary in the role of the shim, started by the others.
#[test]
fn acts_as_shim() {
    if let Some(directory) = shim::directory() {
        std::process::exit(shim::run(&directory));
    }
}

/// The runtime whose files are under `root`.
pub(crate) fn open(root: &Path) -> Arc<Process> {
    open_with(root, None)
}

/// [`open`], whose streams end when they are silent for `idle`.
pub(super) fn open_with(root: &Path, idle: Option<Duration>) -> Arc<Process> {
    let binary: OsString = std::env::current_exe().unwrap().into();
    let args = ["--exact", "runtime::process::tests::acts_as_shim", "--nocapture"].map(OsString::from);
    Process::open(root, std::iter::once(binary).chain(args).collect(), Timestamp::now, idle).unwrap()
}

pub(super) async fn sandbox(runtime: &Process, root: &Path) -> String {
    let config = v1::PodSandboxConfig { log_directory: root.join("logs").to_string_lossy().into_owned(), ..Default::default() };
    runtime.run_pod_sandbox(v1::RunPodSandboxRequest { config: Some(config), ..Default::default() }).await.unwrap().pod_sandbox_id
}

async fn create(runtime: &Process, sandbox: &str, script: &str) -> String {
    create_with(runtime, sandbox, script, v1::ContainerConfig::default()).await
}

/// A container that runs `script`, for the rest as `config` says.
pub(super) async fn create_with(runtime: &Process, sandbox: &str, script: &str, config: v1::ContainerConfig) -> String {
    let config = v1::ContainerConfig {
        command: vec!["/bin/sh".into(), "-c".into(), script.into()],
        envs: vec![v1::KeyValue { key: "GREETING".into(), value: "hello".into() }],
        log_path: "0.log".into(),
        ..config
    };
    let request = v1::CreateContainerRequest { pod_sandbox_id: sandbox.into(), config: Some(config), sandbox_config: None };
    runtime.create_container(request).await.unwrap().container_id
}

pub(super) async fn start(runtime: &Process, id: &str) {
    runtime.start_container(v1::StartContainerRequest { container_id: id.into() }).await.unwrap();
}

pub(super) async fn status(runtime: &Process, id: &str) -> v1::ContainerStatus {
    let request = v1::ContainerStatusRequest { container_id: id.into(), verbose: false };
    runtime.container_status(request).await.unwrap().status.unwrap()
}

/// Waits until the container's log says `text`: a signal must not come before the script has set its trap.
async fn logs(runtime: &Process, id: &str, text: &str) {
    let path = status(runtime, id).await.log_path;
    let said = async {
        while !crate::logs::read::last_words(path.as_ref(), 10, 1000).await.contains(text) {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), said).await.unwrap();
}

pub(super) const EXITED: i32 = v1::ContainerState::ContainerExited as i32;
pub(super) const RUNNING: i32 = v1::ContainerState::ContainerRunning as i32;

#[tokio::test(flavor = "multi_thread")]
async fn a_container_writes_its_log_and_leaves_its_exit_code() {
    let root = tempfile::tempdir().unwrap();
    let runtime = open(root.path());
    let sandbox = sandbox(&runtime, root.path()).await;
    let id = create(&runtime, &sandbox, "echo $GREETING; echo oops >&2; exit 3").await;
    start(&runtime, &id).await;
    assert!(runtime.exited_within(&id, Duration::from_secs(20)).await);
    let status = status(&runtime, &id).await;
    assert_eq!((status.state, status.exit_code, status.reason.as_str()), (EXITED, 3, "Error"));
    let log = crate::logs::read::last_words(status.log_path.as_ref(), 10, 100).await;
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["hello", "oops"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_survives_the_kubelet_and_is_stopped_by_the_next_one() {
    let root = tempfile::tempdir().unwrap();
    let first = open(root.path());
    let sandbox = sandbox(&first, root.path()).await;
    let id = create(&first, &sandbox, "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done").await;
    start(&first, &id).await;
    logs(&first, &id, "ready").await;
    drop(first);
    let second = open(root.path());
    assert_eq!(status(&second, &id).await.state, RUNNING);
    let request = v1::ExecSyncRequest {
        container_id: id.clone(),
        cmd: vec!["/bin/sh".into(), "-c".into(), "echo $GREETING; exit 4".into()],
        timeout: 20,
    };
    let answer = second.exec_sync(request).await.unwrap();
    assert_eq!((answer.stdout.as_slice(), answer.exit_code), (&b"hello\n"[..], 4));
    second.stop_container(v1::StopContainerRequest { container_id: id.clone(), timeout: 20 }).await.unwrap();
    let status = status(&second, &id).await;
    assert_eq!((status.state, status.exit_code), (EXITED, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deaf_container_is_killed_with_its_sandbox() {
    let root = tempfile::tempdir().unwrap();
    let runtime = open(root.path());
    let sandbox = sandbox(&runtime, root.path()).await;
    let id = create(&runtime, &sandbox, "trap '' TERM; echo ready; while :; do sleep 0.05; done").await;
    start(&runtime, &id).await;
    logs(&runtime, &id, "ready").await;
    runtime.stop_pod_sandbox(v1::StopPodSandboxRequest { pod_sandbox_id: sandbox.clone() }).await.unwrap();
    assert_eq!(status(&runtime, &id).await.exit_code, 137);
    runtime.remove_pod_sandbox(v1::RemovePodSandboxRequest { pod_sandbox_id: sandbox }).await.unwrap();
    assert!(runtime.list_containers(v1::ListContainersRequest::default()).await.unwrap().containers.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_not_there_is_named() {
    let root = tempfile::tempdir().unwrap();
    let runtime = open(root.path());
    let sandbox = sandbox(&runtime, root.path()).await;
    let config = |command: Vec<String>| v1::ContainerConfig { command, log_path: "0.log".into(), ..Default::default() };
    let request =
        |command| v1::CreateContainerRequest { pod_sandbox_id: sandbox.clone(), config: Some(config(command)), sandbox_config: None };
    let error = runtime.create_container(request(vec![])).await.unwrap_err();
    assert!(error.message().contains("needs a \"command\""), "{error}");
    let id = runtime.create_container(request(vec!["no-such-program".into()])).await.unwrap().container_id;
    let error = runtime.start_container(v1::StartContainerRequest { container_id: id.clone() }).await.unwrap_err();
    assert!(error.message().contains("executable file not found in $PATH"), "{error}");
    assert_eq!(status(&runtime, &id).await.exit_code, 128);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_takes_too_long_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let runtime = open(root.path());
    let sandbox = sandbox(&runtime, root.path()).await;
    let id = create(&runtime, &sandbox, "while :; do sleep 0.05; done").await;
    start(&runtime, &id).await;
    let written = root.path().join("pid");
    let script = format!("sleep 600 & echo $! > {}; wait", written.display());
    let cmd = ["/bin/sh", "-c", &script].map(str::to_owned).to_vec();
    let late = runtime.exec_sync(v1::ExecSyncRequest { container_id: id.clone(), cmd, timeout: 1 }).await.unwrap_err();
    assert_eq!(late.code(), tonic::Code::DeadlineExceeded);
    let started = std::fs::read_to_string(written).unwrap().trim().parse().unwrap();
    let gone = async {
        while pid::Process::of(started).is_some_and(pid::Process::alive) {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
    runtime.stop(&id, Duration::ZERO).await.unwrap();
}
