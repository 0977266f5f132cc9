//! The door for attached clients: a socket in the container's directory.

use std::{
    fs::{File, Permissions},
    io::{self, Read, Write},
    net::Shutdown,
    os::{
        fd::AsRawFd,
        unix::{
            fs::PermissionsExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    super::frames::{self, Hello, Kind},
    Instructions,
    input::Input,
    output::Output,
};

/// Clients at once.
const MOST_CLIENTS: usize = 32;
/// A client that takes no output for this long is let go: the command must not wait for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The socket's address through the open directory: a socket's path may have 107 bytes, a container's directory has more.
pub(in super::super) fn address(directory: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/attach.sock", directory.as_raw_fd()))
}

/// Clients that are attached.
#[derive(Default)]
pub(super) struct Clients(Mutex<Vec<Client>>);

struct Client {
    id: u64,
    stream: UnixStream,
    wants: Hello,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, Vec<Client>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends output to all who want it; who does not take it is let go.
    pub(super) fn send(&self, kind: Kind, chunk: &[u8]) {
        let mut clients = self.lock();
        if clients.is_empty() {
            return;
        }
        let frame = frames::encode(kind, chunk);
        clients.retain_mut(|client| {
            let wanted = if kind == Kind::Stderr { client.wants.stderr } else { client.wants.stdout };
            let well = !wanted || client.stream.write_all(&frame).is_ok();
            if !well {
                let _ = client.stream.shutdown(Shutdown::Both);
            }
            well
        });
    }

    /// Adds a client, if there is room.
    fn add(&self, id: u64, stream: &UnixStream, wants: Hello) -> io::Result<()> {
        let stream = stream.try_clone()?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut clients = self.lock();
        if clients.len() >= MOST_CLIENTS {
            return Err(io::Error::other("too many clients are attached"));
        }
        clients.push(Client { id, stream, wants });
        Ok(())
    }

    fn remove(&self, id: u64) {
        self.lock().retain(|client| client.id != id);
    }
}

/// Serves clients in the background for as long as the shim lives.
pub(super) fn listen(directory: &Path, todo: &Instructions, output: &Arc<Output>, input: &Arc<Input>) -> io::Result<()> {
    let directory = File::open(directory)?;
    let address = address(&directory);
    let listener = UnixListener::bind(&address)?;
    // Who may write to it may type into the container.
    std::fs::set_permissions(&address, Permissions::from_mode(0o600))?;
    let end = match &**input {
        Input::None => End::Ignored,
        Input::Pipe(_) if todo.stdin_once => End::Passed,
        Input::Pipe(_) | Input::Terminal(_) => End::Leaves,
    };
    let (output, input) = (output.clone(), input.clone());
    std::thread::spawn(move || {
        for (id, stream) in (0..).zip(listener.incoming().flatten()) {
            let (output, input) = (output.clone(), input.clone());
            std::thread::spawn(move || {
                let _ = serve(id, &stream, &output, &input, end);
                output.clients.remove(id);
                let _ = stream.shutdown(Shutdown::Both);
            });
        }
    });
    Ok(())
}

/// What the end of a client's input means. As containerd has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nothing: the command reads no input.
    Ignored,
    /// The command's input ends too (`stdinOnce`); its output still goes to the client.
    Passed,
    /// The client leaves; the command's input stays open for the next one.
    Leaves,
}

/// One client, from its hello until it leaves.
fn serve(id: u64, stream: &UnixStream, output: &Output, input: &Input, end: End) -> io::Result<()> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let (mut reader, mut payload) = (stream, vec![]);
    if read(&mut reader, &mut payload)? != Kind::Hello {
        return Err(wrong());
    }
    let wants = Hello::decode(&payload).ok_or_else(wrong)?;
    output.clients.add(id, stream, wants)?;
    loop {
        match read(&mut reader, &mut payload) {
            Ok(Kind::Stdin) if wants.stdin => input.write(&payload),
            Ok(Kind::StdinEnd) if end == End::Leaves => return Ok(()),
            Ok(Kind::StdinEnd) if end == End::Passed => input.end(),
            Ok(Kind::StdinEnd) => {}
            Ok(Kind::Resize) => {
                let (columns, rows) = frames::decode_size(&payload).ok_or_else(wrong)?;
                input.resize(columns, rows);
            }
            Ok(_) => return Err(wrong()),
            // A client that is gone will not end its input any more.
            Err(error) => {
                if wants.stdin && end == End::Passed {
                    input.end();
                }
                return Err(error);
            }
        }
    }
}

/// The next frame's kind; its bytes are in `payload`.
fn read(stream: &mut impl Read, payload: &mut Vec<u8>) -> io::Result<Kind> {
    let mut head = [0; frames::HEAD];
    stream.read_exact(&mut head)?;
    let (kind, length) = frames::decode_head(head).ok_or(io::ErrorKind::InvalidData)?;
    payload.resize(length, 0);
    stream.read_exact(payload)?;
    Ok(kind)
}
