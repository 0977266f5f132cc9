//! SPDY/3.1 as Kubernetes' peers speak it.
//!
//! They all use one library, whose ways are followed here: it asks nobody for window updates and sends none, so a connection is
//! held back as a whole, by not reading it, when one stream's reader is far behind; data may come only after the reply to the
//! stream's opening; a connection is closed by resetting its streams and going away.

mod connection;
mod dictionary;
mod frame;
mod headers;
mod stream;
mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use connection::Connection;
pub use headers::Headers;
pub use stream::{ReceiveHalf, SendHalf, Stream};

/// The protocol's name in `Upgrade` headers.
pub const PROTOCOL: &str = "SPDY/3.1";

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opens streams with odd numbers.
    Client,
    /// Opens streams with even numbers.
    Server,
}

/// What keeps a connection alive and what ends it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Sends a ping that often.
    pub ping: Option<Duration>,
    /// Ends the connection when neither side sent data for so long; pings do not count.
    pub idle: Option<Duration>,
}
