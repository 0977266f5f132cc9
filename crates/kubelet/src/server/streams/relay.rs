//! Two connections joined: what comes in on one goes out on the other, until both ends are through with it.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::Instant,
};

/// Read at once from one side.
const CHUNK: usize = 32 * 1024;

/// How long a relay waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For a byte from either side; without it for ever.
    pub(super) idle: Option<Duration>,
    /// For the other side to say what is left once one has ended.
    pub(super) linger: Duration,
}

/// Why a relay ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Both sides ended, or one did and the other had time to.
    Closed,
    /// Nothing came from either side for the whole idle time.
    Idle,
    /// One side broke.
    Broken(io::ErrorKind),
}

/// Relays between `a` and `b`. Where one ends its half, the other's half is ended too.
pub(super) async fn relay<A, B>(a: A, b: B, patience: Patience) -> Ended
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let last = Last::new();
    let (a_read, a_write) = tokio::io::split(a);
    let (b_read, b_write) = tokio::io::split(b);
    let both = async {
        let (there, back) = (copy(a_read, b_write, &last), copy(b_read, a_write, &last));
        tokio::pin!(there, back);
        let rest = tokio::select! {
            done = &mut there => match done { Ok(()) => tokio::time::timeout(patience.linger, back).await, broken => Ok(broken) },
            done = &mut back => match done { Ok(()) => tokio::time::timeout(patience.linger, there).await, broken => Ok(broken) },
        };
        match rest {
            Ok(Err(error)) => Ended::Broken(error.kind()),
            Ok(Ok(())) | Err(_) => Ended::Closed,
        }
    };
    tokio::select! {
        ended = both => ended,
        () = last.silent_for(patience.idle) => Ended::Idle,
    }
}

async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, last: &Last) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = from.read(&mut chunk).await?;
        last.touch();
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&chunk[..read]).await?;
        to.flush().await?;
        last.touch();
    }
}

/// When something last moved.
struct Last {
    origin: Instant,
    milliseconds: AtomicU64,
}

impl Last {
    fn new() -> Self {
        Self { origin: Instant::now(), milliseconds: AtomicU64::new(0) }
    }

    fn touch(&self) {
        let passed = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.milliseconds.store(passed, Ordering::Relaxed);
    }

    fn time(&self) -> Instant {
        self.origin + Duration::from_millis(self.milliseconds.load(Ordering::Relaxed))
    }

    /// Comes back once nothing has moved for `limit`; never without one.
    async fn silent_for(&self, limit: Option<Duration>) {
        let Some(limit) = limit else { return std::future::pending().await };
        loop {
            let end = self.time() + limit;
            if Instant::now() >= end {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    const LONG: Patience = Patience { idle: None, linger: Duration::from_secs(60) };

    /// Both far ends of a running relay, and how it ends.
    fn joined(patience: Patience) -> (DuplexStream, DuplexStream, tokio::task::JoinHandle<Ended>) {
        let ((near_a, a), (near_b, b)) = (duplex(64), duplex(64));
        (near_a, near_b, tokio::spawn(relay(a, b, patience)))
    }

    #[tokio::test]
    async fn half_a_close_passes_and_the_answer_still_comes_back() {
        let (mut client, mut server, ended) = joined(LONG);
        let serve = async {
            let mut question = String::new();
            server.read_to_string(&mut question).await.unwrap();
            server.write_all(question.to_uppercase().repeat(100).as_bytes()).await.unwrap();
            server.shutdown().await.unwrap();
        };
        let ask = async {
            client.write_all(b"question").await.unwrap();
            client.shutdown().await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer, "QUESTION".repeat(100));
        };
        tokio::join!(serve, ask);
        assert_eq!(ended.await.unwrap(), Ended::Closed);
    }

    #[tokio::test]
    async fn a_side_that_never_ends_is_left_after_the_other_has() {
        let (client, _server, ended) = joined(Patience { linger: Duration::from_millis(10), ..LONG });
        drop(client);
        assert_eq!(ended.await.unwrap(), Ended::Closed);
    }

    #[tokio::test]
    async fn silence_ends_it() {
        let (_client, _server, ended) = joined(Patience { idle: Some(Duration::from_millis(10)), ..LONG });
        assert_eq!(ended.await.unwrap(), Ended::Idle);
    }

    #[tokio::test]
    async fn every_byte_puts_the_end_off() {
        let last = Last { origin: Instant::now() - Duration::from_secs(60), milliseconds: AtomicU64::new(0) };
        last.touch();
        assert!(last.time() >= last.origin + Duration::from_secs(60));
    }
}
