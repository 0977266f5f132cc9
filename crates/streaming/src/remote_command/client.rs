//! The side that asks for the command.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use super::{Outcome, STREAM_TYPE, Streams};
use crate::{
    Error,
    spdy::{Connection, Headers, Options, Role, SendHalf, Stream},
};

/// Keeps what lies between from taking the connection for dead; upstream's period.
const PING: Duration = Duration::from_secs(5);
/// An outcome is not read further.
const MOST_SAID: u64 = 64 * 1024;

/// The far end of a command. Dropped, the connection to it is closed.
pub struct Remote {
    /// What the command is to read; shut down, it sees the end.
    pub stdin: Option<SendHalf>,
    /// What it writes.
    pub stdout: Option<Stream>,
    /// What it writes to its standard error.
    pub stderr: Option<Stream>,
    /// Where new sizes of the terminal go.
    pub resize: Option<SendHalf>,
    /// How it ends.
    pub end: End,
}

/// Tells how a command ends.
pub struct End {
    error: Stream,
    _connection: Connection,
}

impl End {
    /// How the command ended; best asked after all output is read.
    pub async fn outcome(mut self) -> Outcome {
        let mut said = Vec::new();
        match (&mut self.error).take(MOST_SAID).read_to_end(&mut said).await {
            Ok(_) => Outcome::read(&said),
            Err(error) => Outcome::Failed(format!("error reading from error stream: {error}")),
        }
    }
}

/// Opens the streams of a command over a connection that was switched to SPDY by a request with [`super::request_headers`].
pub async fn connect<I: AsyncRead + AsyncWrite + Send + 'static>(io: I, streams: Streams) -> Result<Remote, Error> {
    let streams = streams.with_one_output_on_a_terminal();
    let connection = Connection::new(io, Role::Client, Options { ping: Some(PING), idle: None });
    // The order is upstream's.
    let error = open(&connection, "error", true).await?.ok_or(Error::Closed)?;
    let stdin = open(&connection, "stdin", streams.stdin).await?;
    let stdout = open(&connection, "stdout", streams.stdout).await?;
    let stderr = open(&connection, "stderr", streams.stderr).await?;
    let resize = open(&connection, "resize", streams.tty).await?;
    let sending = |stream: Stream| stream.into_split().1;
    let end = End { error, _connection: connection };
    Ok(Remote { stdin: stdin.map(sending), stdout, stderr, resize: resize.map(sending), end })
}

async fn open(connection: &Connection, kind: &str, wanted: bool) -> Result<Option<Stream>, Error> {
    match wanted {
        true => connection.open(Headers::new([(STREAM_TYPE, kind)])).await.map(Some),
        false => Ok(None),
    }
}
