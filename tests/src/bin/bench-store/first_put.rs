//! Writing to members that may not be there yet, or not have a leader.

use std::time::{Duration, Instant};

use anyhow::bail;
use etcd::etcdserverpb::{PutRequest, kv_client::KvClient};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::time::{sleep, timeout};

use crate::members::connect;

/// A new attempt starts so often, whatever became of the ones before: a server may hold a request that will fail. It is the
/// resolution of what is measured by it.
const ATTEMPTS: Duration = Duration::from_millis(4);
/// Attempts under way at most.
const UNDER_WAY: usize = 64;
/// An attempt is given up after this time, as a client with a deadline does.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tries each endpoint in turn until one acknowledges a write.
///
/// # Errors
/// Nobody does within `limit`, or `check`, asked between attempts, says that nobody will.
pub(crate) async fn first_put(endpoints: &[String], limit: Duration, mut check: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let (began, mut attempts, mut next) = (Instant::now(), FuturesUnordered::new(), endpoints.iter().cycle());
    while began.elapsed() < limit {
        check()?;
        if attempts.len() < UNDER_WAY {
            attempts.extend(next.next().map(|endpoint| timeout(PATIENCE, put(endpoint))));
        }
        let pause = sleep(ATTEMPTS);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                Some(ended) = attempts.next() => if matches!(ended, Ok(Ok(()))) { return Ok(()) },
                () = &mut pause => break,
            }
        }
    }
    bail!("nobody acknowledged a put within {limit:?}")
}

async fn put(endpoint: &str) -> anyhow::Result<()> {
    let request = PutRequest { key: "first".into(), value: "1".into(), ..Default::default() };
    KvClient::new(connect(endpoint).await?).put(request).await?;
    Ok(())
}
