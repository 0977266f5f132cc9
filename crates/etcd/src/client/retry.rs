//! Which failures may be tried again.

use super::{Client, Error, endpoints::Picked};
use std::{error::Error as _, future::Future, sync::Arc, time::Duration};
use tokio::time::Instant;
use tonic::{Code, ConnectError, Request, Response, Status, TimeoutExpired, transport::Channel};

/// What a request does, for the decision to send it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It can be sent any number of times.
    Reads,
    /// It must not be sent again unless it surely was not before.
    Writes,
}

/// Waits between attempts: doubled each time, with jitter.
#[derive(Debug)]
pub(super) struct Pause {
    next: Duration,
}

impl Pause {
    const FIRST: Duration = Duration::from_millis(25);
    const LONGEST: Duration = Duration::from_millis(500);

    pub(super) fn new() -> Self {
        Pause { next: Self::FIRST }
    }

    pub(super) async fn wait(&mut self) {
        let jitter = rand::random_range(0.5..1.0);
        tokio::time::sleep(self.next.mul_f64(jitter)).await;
        self.next = (self.next * 2).min(Self::LONGEST);
    }
}

impl Client {
    /// Sends a request to the server in favour, and to others as long as that is safe and there is time.
    pub(super) async fn call<M: Clone, R, F>(&self, effect: Effect, message: M, send: impl Fn(Channel, Request<M>) -> F) -> Result<R, Error>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let deadline = Instant::now() + self.request_timeout;
        let mut pause = Pause::new();
        for attempt in 1.. {
            let picked = self.endpoints.pick();
            let mut request = Request::new(message.clone());
            request.set_timeout(deadline.saturating_duration_since(Instant::now()));
            let answer = tokio::time::timeout_at(deadline, send(picked.channel.clone(), request)).await;
            let status = match answer {
                Err(_) => return Err(Error::deadline()),
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) => honest(status),
            };
            if !self.again(effect, &status, &picked) {
                return Err(status.into());
            }
            tracing::debug!(attempt, code = ?status.code(), message = status.message(), "retry");
            // The first round over all servers goes without waiting.
            let rest = attempt >= self.endpoints.len();
            if rest && tokio::time::timeout_at(deadline, pause.wait()).await.is_err() {
                break;
            }
        }
        // Whatever the last attempt failed with: what the caller asked for was an answer in this time.
        Err(Error::deadline())
    }

    /// A failed request may be sent again; another server gets its turn if this one seems to be the trouble.
    fn again(&self, effect: Effect, status: &Status, picked: &Picked) -> bool {
        if status.code() != Code::Unavailable {
            return false;
        }
        self.endpoints.avoid(picked);
        effect == Effect::Reads || surely_not_sent(status)
    }
}

/// A connection that broke under a request is a server that is not available, whatever the layers below call it.
pub(super) fn honest(status: Status) -> Status {
    let transport = matches!(status.code(), Code::Unknown | Code::Internal | Code::Cancelled | Code::Unavailable);
    // What a server said has no source.
    if !transport || status.source().is_none() {
        return status;
    }
    let causes = || std::iter::successors(status.source(), |error| (*error).source());
    if causes().any(|error| error.is::<TimeoutExpired>()) {
        return Status::deadline_exceeded("context deadline exceeded");
    }
    let mut texts: Vec<String> = causes().map(ToString::to_string).filter(|text| text != "transport error").collect();
    texts.dedup();
    let mut lost = Status::unavailable(format!("connection error: {}", texts.join(": ")));
    lost.set_source(Arc::new(status));
    lost
}

/// The request reached no log: there was no connection, or the server said so.
pub(super) fn surely_not_sent(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    status.message() == "etcdserver: no leader"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_sent_again_only_when_it_surely_was_not_before() {
        let refused = Status::from_error(Box::new(ConnectError("refused".into())));
        assert_eq!(refused.code(), Code::Unavailable);
        assert!(surely_not_sent(&refused));
        assert!(!surely_not_sent(&Status::unavailable("etcdserver: request timed out")));
        assert!(surely_not_sent(&Status::unavailable("etcdserver: no leader")));
    }

    #[test]
    fn a_lost_connection_says_why_and_what_the_server_said_stays() {
        let lost = honest(Status::from_error(Box::new(ConnectError("refused".into()))));
        assert_eq!((lost.code(), lost.message()), (Code::Unavailable, "connection error: refused"));
        assert!(surely_not_sent(&lost));
        let late = honest(Status::from_error(Box::new(TimeoutExpired(()))));
        assert_eq!((late.code(), late.message()), (Code::DeadlineExceeded, "context deadline exceeded"));
        assert_eq!(honest(Status::unavailable("etcdserver: request timed out")).message(), "etcdserver: request timed out");
    }
}
