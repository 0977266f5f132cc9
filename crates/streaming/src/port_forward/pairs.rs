//! Over SPDY a connection is a pair of streams: data, and an error where there is one.

use std::{collections::HashMap, time::Duration};

use tokio::{
    io::AsyncWriteExt,
    time::{Instant, sleep_until},
};

use super::Forward;
use crate::spdy::{Connection, Stream};

/// Connections whose second stream has not come yet.
const MOST_HALVES: usize = 256;

/// The streams of a client, paired.
pub(super) struct Pairs {
    connection: Connection,
    creation: Duration,
    halves: HashMap<String, Half>,
}

/// The stream that came first.
struct Half {
    stream: Stream,
    is_error: bool,
    until: Instant,
}

/// What the headers of a stream say.
struct Purpose {
    request: String,
    port: u16,
    is_error: bool,
}

impl Pairs {
    pub(super) fn new(connection: Connection, creation: Duration) -> Self {
        Self { connection, creation, halves: HashMap::new() }
    }

    /// The next pair; `None` when the client is gone.
    pub(super) async fn next(&mut self) -> Option<Forward> {
        loop {
            let oldest = self.halves.iter().min_by_key(|(_, half)| half.until).map(|(request, half)| (request.clone(), half.until));
            let late = async {
                match &oldest {
                    Some((_, until)) => sleep_until(*until).await,
                    None => std::future::pending().await,
                }
            };
            let stream = tokio::select! {
                stream = self.connection.accept() => stream?,
                () = late => {
                    if let Some(half) = oldest.and_then(|(request, _)| self.halves.remove(&request)) {
                        half.refuse("timed out waiting for streams").await;
                    }
                    continue;
                }
            };
            if let Some(forward) = self.add(stream).await {
                return Some(forward);
            }
        }
    }

    /// Pairs a stream with one that came before, or keeps it. What makes no sense is dropped, and reset by that.
    async fn add(&mut self, stream: Stream) -> Option<Forward> {
        let Purpose { request, port, is_error } = Purpose::of(&stream)?;
        let Some(other) = self.halves.remove(&request) else {
            if self.halves.len() < MOST_HALVES {
                self.halves.insert(request, Half { stream, is_error, until: Instant::now() + self.creation });
            }
            return None;
        };
        if other.is_error == is_error {
            let kind = if is_error { "error" } else { "data" };
            other.refuse(&format!("error processing stream for request {request}: {kind} stream already assigned")).await;
            return None;
        }
        let (data, error) = if is_error { (other.stream, stream) } else { (stream, other.stream) };
        Some(Forward { port, data: Box::new(data), error: Box::new(error), _open: None })
    }
}

impl Half {
    async fn refuse(mut self, text: &str) {
        if self.is_error {
            let _ = self.stream.write_all(text.as_bytes()).await;
        }
    }
}

impl Purpose {
    fn of(stream: &Stream) -> Option<Self> {
        let headers = stream.headers();
        let port = headers.get("port")?.parse().ok().filter(|port| *port != 0)?;
        let is_error = match headers.get("streamType")? {
            "error" => true,
            "data" => false,
            _ => return None,
        };
        // Clients older than request IDs open the error stream first and the data stream next, two numbers on.
        let first = if is_error { stream.id() } else { stream.id().saturating_sub(2) };
        let request = headers.get("requestID").map_or_else(|| first.to_string(), str::to_owned);
        Some(Self { request, port, is_error })
    }
}
