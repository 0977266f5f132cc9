//! A command run beside a container's process, with its streams at a client.

use std::{io, process::Stdio, sync::Arc, time::Duration};

use nix::sys::signal::Signal;
use streaming::{
    Error, Reader, Writer,
    remote_command::{Outcome, Resizes, Session},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    sync::watch,
};

use super::{
    super::{
        Process, command, pid,
        shim::{self, Instructions},
    },
    terminal::Terminal,
};
use crate::cri::v1;

/// Read at once.
const CHUNK: usize = 32 * 1024;
/// How long output that does not come is waited for after the command's end: what it left behind may hold the streams for ever.
const QUIET: Duration = Duration::from_millis(500);

/// The running command and our ends of its streams.
struct Running {
    child: Child,
    input: Option<Writer>,
    output: Option<Reader>,
    error: Option<Reader>,
    terminal: Option<Terminal>,
}

/// Serves one exec from the client's arrival to the command's end.
pub(super) async fn run(runtime: Arc<Process>, request: v1::ExecRequest, opening: impl Future<Output = Result<Session, Error>>) {
    let session = match opening.await {
        Ok(session) => session,
        Err(error) => return tracing::debug!(%error, container = request.container_id, "exec did not begin"),
    };
    let started = runtime.running(&request.container_id).map_err(|status| status.message().to_owned());
    let started = started.and_then(|container| spawn(&container.instructions, &request));
    let ended = match started {
        Ok(running) => serve(&runtime, &request.container_id, running, &request.cmd, session).await,
        Err(why) => session.client.finish(Outcome::Failed(format!("error executing command in container: {why}"))).await,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, container = request.container_id, "exec ended");
    }
}

fn spawn(container: &Instructions, request: &v1::ExecRequest) -> Result<Running, String> {
    let spawned = if request.tty { on_terminal(container, request) } else { with_pipes(container, request) };
    spawned.map_err(|error| format!("failed to exec in container: {}", command::start_error(&request.cmd, &container.directory, &error)))
}

fn with_pipes(container: &Instructions, request: &v1::ExecRequest) -> io::Result<Running> {
    let wanted = |wanted| if wanted { Stdio::piped() } else { Stdio::null() };
    let mut command = Command::from(command::command(container, &request.cmd)?);
    command.stdin(wanted(request.stdin)).stdout(wanted(request.stdout)).stderr(wanted(request.stderr)).kill_on_drop(true);
    let mut child = command.spawn()?;
    Ok(Running {
        input: child.stdin.take().map(|stream| Box::new(stream) as _),
        output: child.stdout.take().map(|stream| Box::new(stream) as _),
        error: child.stderr.take().map(|stream| Box::new(stream) as _),
        terminal: None,
        child,
    })
}

fn on_terminal(container: &Instructions, request: &v1::ExecRequest) -> io::Result<Running> {
    let (program, args) = command::split(&request.cmd)?;
    let (terminal, other_side) = pty_process::open().map_err(command::plain)?;
    let mut env = container.env.clone();
    // As containerd does: without it programs take the terminal for one that can do nothing.
    env.insert("TERM".into(), "xterm".into());
    let command = pty_process::Command::new(command::find(program, &env)).args(args).env_clear().envs(&env);
    let mut command = command.current_dir(&container.directory).kill_on_drop(true);
    if let Some(group) = container.group {
        command = command.gid(group);
    }
    if let Some(user) = container.user {
        command = command.uid(user);
    }
    let child = command.spawn(other_side).map_err(command::plain)?;
    let (output, input) = terminal.into_split();
    let terminal = Terminal::new(input);
    Ok(Running {
        child,
        input: request.stdin.then(|| Box::new(terminal.clone()) as _),
        output: request.stdout.then(|| Box::new(output) as _),
        error: None,
        terminal: Some(terminal),
    })
}

/// Moves bytes until the command has ended. Without a client or a container the command is killed.
async fn serve(runtime: &Process, id: &str, running: Running, cmd: &[String], session: Session) -> Result<(), Error> {
    let Running { mut child, input, output, error, terminal } = running;
    let Session { stdin, stdout, stderr, resize, client } = session;
    let group = child.id().and_then(pid::Process::of);
    let kill = || group.into_iter().for_each(|group| group.signal_group(Signal::SIGKILL));
    let (over, ended) = watch::channel(false);
    let feeding = async {
        tokio::join!(feed(stdin, input), follow(resize, terminal));
        std::future::pending().await
    };
    let wait = async {
        let status = child.wait().await;
        over.send_replace(true);
        status
    };
    let finished = async { tokio::join!(wait, drain(output, stdout, ended.clone()), drain(error, stderr, ended.clone())).0 };
    tokio::pin!(finished);
    let status = tokio::select! {
        status = &mut finished => Some(status),
        () = client.gone() => None,
        () = feeding => None,
        () = runtime.ended(id) => {
            kill();
            Some(finished.await)
        }
    };
    match status {
        Some(Ok(status)) => client.finish(outcome(status, cmd)).await,
        Some(Err(error)) => client.finish(Outcome::Failed(format!("wait for the command: {error}"))).await,
        None => {
            kill();
            Ok(())
        }
    }
}

fn outcome(status: std::process::ExitStatus, cmd: &[String]) -> Outcome {
    let code = shim::code(status);
    Outcome::exited(u8::try_from(code).unwrap_or(u8::MAX), format!("error executing command [{}], exit code {code}", cmd.join(" ")))
}

async fn feed(stdin: Option<Reader>, input: Option<Writer>) {
    let (Some(mut stdin), Some(mut input)) = (stdin, input) else { return };
    // Whether the client ended its input or the command reads no more: from here on there is none. Dropping a pipe's end says so.
    let _ = tokio::io::copy(&mut stdin, &mut input).await;
}

async fn follow(resize: Option<Reader>, terminal: Option<Terminal>) {
    let (Some(resize), Some(terminal)) = (resize, terminal) else { return };
    let mut sizes = Resizes::new(resize);
    while let Some(size) = sizes.next().await {
        terminal.resize(size.width, size.height);
    }
}

/// Copies output to its end, or until none comes any more after the command has ended.
async fn drain(from: Option<Reader>, to: Option<Writer>, ended: watch::Receiver<bool>) {
    let (Some(mut from), Some(mut to)) = (from, to) else { return };
    let mut chunk = vec![0; CHUNK];
    loop {
        let quiet = async {
            let _ = ended.clone().wait_for(|ended| *ended).await;
            tokio::time::sleep(QUIET).await;
        };
        let read = tokio::select! { read = from.read(&mut chunk) => read, () = quiet => return };
        // A terminal nobody has open any more reads as an error, not as an end.
        let Ok(read @ 1..) = read else { return };
        if to.write_all(&chunk[..read]).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}
