//! A client at the streams of a container's own process, which its shim holds.

use std::{
    fs::File,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use streaming::{
    Error, Reader, Writer,
    remote_command::{Outcome, Resizes, Session},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::Mutex,
};

use super::super::{
    Process,
    frames::{self, Hello, Kind},
    shim,
};
use crate::cri::v1;

/// Serves one attach until the container ends, or the client does.
pub(super) async fn run(runtime: Arc<Process>, request: v1::AttachRequest, opening: impl Future<Output = Result<Session, Error>>) {
    let session = match opening.await {
        Ok(session) => session,
        Err(error) => return tracing::debug!(%error, container = request.container_id, "attach did not begin"),
    };
    let connected = match runtime.running(&request.container_id) {
        Ok(container) => {
            let stream = connect(&runtime.store.container_directory(&request.container_id)).await;
            stream.map(|stream| (stream, container.instructions.stdin_once)).map_err(|e| e.to_string())
        }
        Err(status) => Err(status.message().to_owned()),
    };
    let ended = match connected {
        Ok((stream, stdin_once)) => serve(&runtime, stream, stdin_once, &request, session).await,
        Err(why) => session.client.finish(Outcome::Failed(format!("error attaching to container: {why}"))).await,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, container = request.container_id, "attach ended");
    }
}

async fn connect(directory: &Path) -> io::Result<UnixStream> {
    let directory = File::open(directory)?;
    UnixStream::connect(shim::attach::address(&directory)).await
}

async fn serve(
    runtime: &Process,
    stream: UnixStream,
    stdin_once: bool,
    request: &v1::AttachRequest,
    session: Session,
) -> Result<(), Error> {
    let Session { stdin, stdout, stderr, resize, client } = session;
    let (reader, mut writer) = stream.into_split();
    let hello = Hello { stdin: request.stdin, stdout: request.stdout, stderr: request.stderr };
    let input_ended = AtomicBool::new(false);
    let carried = async {
        writer.write_all(&frames::encode(Kind::Hello, &hello.encode())).await?;
        let writer = Mutex::new(writer);
        let sending = async {
            tokio::join!(feed(stdin, &writer, &input_ended), follow(resize, &writer));
            std::future::pending().await
        };
        tokio::select! { received = receive(reader, stdout, stderr) => received, never = sending => never }
    };
    let outcome = tokio::select! {
        carried = carried => match carried {
            // A shim records the container's end before it hangs up, and hangs up before that only on who is done typing.
            Ok(()) if (stdin_once || !input_ended.load(Ordering::SeqCst)) && runtime.running(&request.container_id).is_ok() => {
                let why = "the container's shim hung up: its output was not taken, or too many clients are attached";
                Outcome::Failed(format!("error attaching to container: {why}"))
            }
            Ok(()) => Outcome::Success,
            Err(error) => Outcome::Failed(format!("error attaching to container: {error}")),
        },
        () = client.gone() => return Ok(()),
    };
    client.finish(outcome).await
}

async fn feed(stdin: Option<Reader>, writer: &Mutex<OwnedWriteHalf>, ended: &AtomicBool) {
    let Some(mut stdin) = stdin else { return };
    let mut chunk = vec![0; frames::MOST];
    // An input that breaks off has ended, too.
    while let Ok(read @ 1..) = stdin.read(&mut chunk).await {
        if writer.lock().await.write_all(&frames::encode(Kind::Stdin, &chunk[..read])).await.is_err() {
            return;
        }
    }
    ended.store(true, Ordering::SeqCst);
    let _ = writer.lock().await.write_all(&frames::encode(Kind::StdinEnd, &[])).await;
}

async fn follow(resize: Option<Reader>, writer: &Mutex<OwnedWriteHalf>) {
    let Some(resize) = resize else { return };
    let mut sizes = Resizes::new(resize);
    while let Some(size) = sizes.next().await {
        let frame = frames::encode(Kind::Resize, &frames::encode_size(size.width, size.height));
        if writer.lock().await.write_all(&frame).await.is_err() {
            return;
        }
    }
}

/// Passes the container's output on until its shim closes the socket.
async fn receive(mut reader: OwnedReadHalf, mut stdout: Option<Writer>, mut stderr: Option<Writer>) -> io::Result<()> {
    let mut payload = vec![];
    loop {
        let mut head = [0; frames::HEAD];
        match reader.read_exact(&mut head).await {
            Ok(_) => {}
            // The shim ends with the container, in the middle of a frame if it was killed.
            Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => return Ok(()),
            Err(error) => return Err(error),
        }
        let (kind, length) = frames::decode_head(head).ok_or(io::ErrorKind::InvalidData)?;
        payload.resize(length, 0);
        reader.read_exact(&mut payload).await?;
        match kind {
            Kind::Stderr => pass(&mut stderr, &payload).await?,
            _ => pass(&mut stdout, &payload).await?,
        }
    }
}

async fn pass(to: &mut Option<Writer>, bytes: &[u8]) -> io::Result<()> {
    let Some(to) = to else { return Ok(()) };
    to.write_all(bytes).await?;
    to.flush().await
}
