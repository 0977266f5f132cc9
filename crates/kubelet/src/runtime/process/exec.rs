//! Commands run beside a container's process: in its environment and directory.

use std::{process::Stdio, time::Duration};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{io::AsyncReadExt, process::Command};

use super::{command, shim::Instructions};
use crate::cri::{CriResult, v1};

/// Output beyond this is dropped, as CRI asks.
const MOST_OUTPUT: u64 = 16 << 20;

/// Runs the request's command to its end or its timeout.
pub(super) async fn run(container: &Instructions, request: &v1::ExecSyncRequest) -> CriResult<v1::ExecSyncResponse> {
    let limit = Duration::from_secs(if request.timeout > 0 { request.timeout.unsigned_abs() } else { 600 });
    let why = |error| {
        let why = command::start_error(&request.cmd, &container.directory, &error);
        tonic::Status::unknown(format!("failed to exec in container: {why}"))
    };
    let mut command = Command::from(command::command(container, &request.cmd).map_err(why)?);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(why)?;
    let mut group = Group(child.id());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let finished = async {
        let (stdout, stderr) = tokio::join!(read(stdout), read(stderr));
        let status = child.wait().await.map_err(|e| tonic::Status::unknown(e.to_string()))?;
        group.0 = None;
        let exit_code = super::shim::code(status);
        Ok(v1::ExecSyncResponse { stdout, stderr, exit_code })
    };
    match tokio::time::timeout(limit, finished).await {
        Ok(answer) => answer,
        Err(_) => Err(tonic::Status::deadline_exceeded(format!("timeout {limit:?} exceeded: context deadline exceeded"))),
    }
}

/// The process group of a command that has not been waited for, so that its number is no other's. Dropped, all of it is killed:
/// what a command that took too long has started would stay behind.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(id) = self.0.and_then(|id| i32::try_from(id).ok()) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

async fn read(stream: Option<impl tokio::io::AsyncRead + Unpin>) -> Vec<u8> {
    let mut output = vec![];
    if let Some(mut stream) = stream {
        let _ = (&mut stream).take(MOST_OUTPUT).read_to_end(&mut output).await;
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }
    output
}
