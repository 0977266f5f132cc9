//! Writing keys.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use bytes::Bytes;
use etcd::etcdserverpb::{PutRequest, RequestOp, TxnRequest, kv_client::KvClient, request_op::Request};
use futures::{StreamExt, TryStreamExt, stream};
use rand::Rng;
use tonic::transport::Channel;

use super::Context;
use crate::load::{Client, Histogram, Measured, connections, dice, noise, spent};

const VALUE: usize = 256;
/// Puts of one transaction; etcd takes 128.
const TOGETHER: usize = 100;
/// Those who write such transactions.
const WRITERS: usize = 16;

/// The eight bytes of a key's number; not in the order of the numbers, as names are not.
pub(super) fn key(number: usize) -> Bytes {
    let scattered = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Bytes::copy_from_slice(&scattered.to_be_bytes())
}

pub(super) async fn put(context: &Context, clients: usize) -> anyhow::Result<Measured> {
    let keys = context.sizes.keys;
    let make = |index, channel| -> Client {
        let (client, mut dice) = (KvClient::new(channel), dice(index));
        Box::new(move || {
            let request = PutRequest { key: key(dice.random_range(0..keys)), value: noise(&mut dice, VALUE).into(), ..Default::default() };
            let mut client = client.clone();
            Box::pin(async move { client.put(request).await.map(drop) })
        })
    };
    Ok(context.closed_loop(context.clients(clients, make).await?).await)
}

/// Puts every key once.
pub(super) async fn fill(context: &Context, clients: usize) -> anyhow::Result<Measured> {
    let (before, began) = (context.members.usage(), Instant::now());
    let latencies = fill_keys(context, clients).await?;
    let cpu = spent(&before, &context.members.usage());
    Ok(Measured { time: began.elapsed(), latencies, errors: 0, cpu })
}

/// Ends with the first error.
async fn fill_keys(context: &Context, clients: usize) -> anyhow::Result<Histogram> {
    let channels = connections(&context.members.endpoints().await?, clients.min(context.sizes.connections)).await?;
    let (next, keys) = (Arc::new(AtomicUsize::new(0)), context.sizes.keys);
    let worker = |(index, channel): (usize, Channel)| {
        let (next, mut client, mut dice) = (next.clone(), KvClient::new(channel), dice(index));
        async move {
            let mut latencies = Histogram::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= keys {
                    return Ok::<_, anyhow::Error>(latencies);
                }
                let request = PutRequest { key: key(number), value: noise(&mut dice, VALUE).into(), ..Default::default() };
                let began = Instant::now();
                client.put(request).await?;
                latencies.record(began.elapsed());
            }
        }
    };
    let workers = channels.into_iter().cycle().take(clients).enumerate().map(|client| tokio::spawn(worker(client)));
    let add = |mut all: Histogram, one: Histogram| async move {
        all.add(&one);
        Ok(all)
    };
    let done = stream::iter(workers).buffer_unordered(clients).map(|joined| joined.map_err(anyhow::Error::from)?);
    done.try_fold(Histogram::default(), add).await
}

/// Puts so many keys so often, many in one transaction, which is the fastest way to come by them.
pub(super) async fn fill_together(context: &Context, keys: usize, versions: usize, length: usize) -> anyhow::Result<()> {
    let channels = connections(&context.members.endpoints().await?, WRITERS).await?;
    let write = |(writer, channel): (usize, Channel)| async move {
        let (mut client, mut dice) = (KvClient::new(channel), dice(writer));
        for _ in 0..versions {
            for first in (writer * TOGETHER..keys).step_by(WRITERS * TOGETHER) {
                let put = |number| PutRequest { key: key(number), value: noise(&mut dice, length).into(), ..Default::default() };
                let op = |put| RequestOp { request: Some(Request::RequestPut(put)) };
                let success = (first..keys.min(first + TOGETHER)).map(put).map(op).collect();
                client.txn(TxnRequest { success, ..Default::default() }).await?;
            }
        }
        Ok::<_, anyhow::Error>(())
    };
    futures::future::try_join_all(channels.into_iter().enumerate().map(write)).await?;
    Ok(())
}
