//! Two connections joined: what comes in on one goes out on the other, until both ends are through with it.

use std::{io, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Read at once from one side.
const CHUNK: usize = 32 * 1024;

/// Why a relay ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Both sides ended, or one did and the other had time to.
    Closed,
    /// One side broke.
    Broken(io::ErrorKind),
}

/// Relays between `a` and `b`. Where one ends its half, the other's half is ended too, and the other has `linger` to say what is
/// left. How long both may be silent is the runtime's affair: only who reads the protocol can tell a ping from data.
pub(super) async fn relay<A, B>(a: A, b: B, linger: Duration) -> Ended
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let (a_read, a_write) = tokio::io::split(a);
    let (b_read, b_write) = tokio::io::split(b);
    let (there, back) = (copy(a_read, b_write), copy(b_read, a_write));
    tokio::pin!(there, back);
    let rest = tokio::select! {
        done = &mut there => match done { Ok(()) => tokio::time::timeout(linger, back).await, broken => Ok(broken) },
        done = &mut back => match done { Ok(()) => tokio::time::timeout(linger, there).await, broken => Ok(broken) },
    };
    match rest {
        Ok(Err(error)) => Ended::Broken(error.kind()),
        Ok(Ok(())) | Err(_) => Ended::Closed,
    }
}

async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = from.read(&mut chunk).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&chunk[..read]).await?;
        to.flush().await?;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Both far ends of a running relay, and how it ends.
    fn joined(linger: Duration) -> (DuplexStream, DuplexStream, tokio::task::JoinHandle<Ended>) {
        let ((near_a, a), (near_b, b)) = (duplex(64), duplex(64));
        (near_a, near_b, tokio::spawn(relay(a, b, linger)))
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
        let (client, _server, ended) = joined(Duration::from_millis(10));
        drop(client);
        assert_eq!(ended.await.unwrap(), Ended::Closed);
    }
}
