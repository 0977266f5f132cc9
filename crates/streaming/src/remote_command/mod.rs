//! exec and attach: a command's streams, its terminal's size, and how it ended.

mod client;
mod outcome;
mod resize;
mod server;

use http::{HeaderMap, HeaderValue, header};

pub use client::{Remote, connect};
pub use outcome::Outcome;
pub use resize::{Resizes, TerminalSize};
pub use server::{Client, Session, accept};

use crate::{spdy, upgrade::PROTOCOL_VERSION};

/// The streams a client asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// What the client types.
    pub stdin: bool,
    /// What the command writes.
    pub stdout: bool,
    /// What it writes to its standard error; with a terminal that goes to `stdout`.
    pub stderr: bool,
    /// Whether there is a terminal, which can be resized.
    pub tty: bool,
}

impl Streams {
    /// With a terminal there is one output only.
    fn with_one_output_on_a_terminal(self) -> Self {
        Self { stderr: self.stderr && !self.tty, ..self }
    }
}

/// The version with exit codes: the newest that is spoken over SPDY.
const V4: &str = "v4.channel.k8s.io";
const V3: &str = "v3.channel.k8s.io";
const V2: &str = "v2.channel.k8s.io";
const V1: &str = "channel.k8s.io";

/// Names a stream, in the headers it is opened with.
const STREAM_TYPE: &str = "streamType";

/// The headers of a request whose connection, once switched, is for [`connect`].
pub fn request_headers() -> HeaderMap {
    HeaderMap::from_iter([
        (header::CONNECTION, HeaderValue::from_static("Upgrade")),
        (header::UPGRADE, HeaderValue::from_static(spdy::PROTOCOL)),
        (PROTOCOL_VERSION, HeaderValue::from_static(V4)),
    ])
}
