//! Events to many watchers. Each value begins with the moment before it was put: a watcher knows how old its event is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use etcd::etcdserverpb::{
    PutRequest, WatchCreateRequest, WatchRequest, kv_client::KvClient, watch_client::WatchClient, watch_request::RequestUnion,
};
use parking_lot::Mutex;
use rand::Rng;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, transport::Channel};

use super::Context;
use crate::load::{Client, Histogram, Measured, Phase, connections, dice, noise};

const VALUE: usize = 256;
/// Streams, each on a connection of its own, that share the watchers.
const STREAMS: usize = 10;
/// All watchers of a stream are created within this time.
const CREATED: Duration = Duration::from_secs(60);

/// What watchers and writers share.
struct Shared {
    began: Instant,
    phase: Phase,
    latencies: Mutex<Histogram>,
    delivered: AtomicUsize,
    progress: Notify,
}

/// All watchers on one key; the next put follows when all have seen the one before.
pub(super) async fn one(context: &Context, watchers: usize) -> anyhow::Result<Measured> {
    measure(context, watchers, 1, |_| "watched".into(), move |shared, index, channel| writer(shared, index, channel, 1, watchers)).await
}

/// A key for each watcher; writers do not wait for watchers.
pub(super) async fn many(context: &Context, watchers: usize, writers: usize) -> anyhow::Result<Measured> {
    measure(context, watchers, writers, key, move |shared, index, channel| writer(shared, index, channel, watchers, 0)).await
}

fn key(number: usize) -> Bytes {
    format!("watched-{number:06}").into()
}

async fn measure(
    context: &Context,
    watchers: usize,
    writers: usize,
    key: impl Fn(usize) -> Bytes,
    writer: impl Fn(Arc<Shared>, usize, Channel) -> Client,
) -> anyhow::Result<Measured> {
    let shared = Arc::new(Shared {
        began: Instant::now(),
        phase: Phase::default(),
        latencies: Mutex::default(),
        delivered: AtomicUsize::new(0),
        progress: Notify::new(),
    });
    let endpoints = context.members.endpoints().await?;
    let mut tasks = tokio::task::JoinSet::new();
    for (stream, channel) in connections(&endpoints, STREAMS).await?.into_iter().enumerate() {
        let keys = (stream..watchers).step_by(STREAMS).map(&key).collect();
        let (created, ready) = tokio::sync::oneshot::channel();
        tasks.spawn(watch(shared.clone(), channel, keys, created));
        tokio::time::timeout(CREATED, ready).await??;
    }
    for (index, channel) in connections(&endpoints, writers.min(context.sizes.connections)).await?.into_iter().enumerate() {
        let mut client = writer(shared.clone(), index, channel);
        tasks.spawn(async move {
            loop {
                client().await?;
            }
        });
    }
    let (time, cpu) = shared.phase.run(|| context.members.usage(), context.times).await;
    tasks.shutdown().await;
    let latencies = std::mem::take(&mut *shared.latencies.lock());
    Ok(Measured { time, latencies, errors: 0, cpu })
}

/// Puts one of `keys` and then waits until `deliveries` more events have arrived.
fn writer(shared: Arc<Shared>, index: usize, channel: Channel, keys: usize, deliveries: usize) -> Client {
    let (client, mut dice) = (KvClient::new(channel), dice(index));
    Box::new(move || {
        let key = if keys == 1 { "watched".into() } else { key(dice.random_range(0..keys)) };
        let (mut value, shared, mut client) = (noise(&mut dice, VALUE), shared.clone(), client.clone());
        Box::pin(async move {
            let wanted = shared.delivered.load(Ordering::Relaxed) + deliveries;
            value[..8].copy_from_slice(&(shared.began.elapsed().as_nanos() as u64).to_be_bytes());
            client.put(PutRequest { key, value: value.into(), ..Default::default() }).await?;
            loop {
                let progress = shared.progress.notified();
                if shared.delivered.load(Ordering::Relaxed) >= wanted {
                    return Ok(());
                }
                progress.await;
            }
        })
    })
}

/// Creates watchers on one stream, says so, and takes their events.
async fn watch(shared: Arc<Shared>, channel: Channel, keys: Vec<Bytes>, created: tokio::sync::oneshot::Sender<()>) -> Result<(), Status> {
    let (requests, queue) = mpsc::channel(keys.len());
    let count = keys.len();
    for key in keys {
        let create = WatchCreateRequest { key, ..Default::default() };
        let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        requests.send(request).await.map_err(|_| Status::internal("the queue holds them all"))?;
    }
    let mut client = WatchClient::new(channel).max_decoding_message_size(usize::MAX);
    let mut answers = client.watch(ReceiverStream::new(queue)).await?.into_inner();
    let (mut known, mut created) = (0, Some(created));
    while let Some(answer) = answers.message().await? {
        known += usize::from(answer.created);
        if known == count
            && let Some(created) = created.take()
        {
            // Nobody waits any more when the measurement was given up.
            let _ = created.send(());
        }
        answer.events.iter().filter_map(|event| event.kv.as_ref()).for_each(|kv| shared.arrived(&kv.value));
    }
    Ok(())
}

impl Shared {
    fn arrived(&self, value: &[u8]) {
        let Some((put_at, _)) = value.split_first_chunk() else { return };
        if self.phase.measures() {
            let age = self.began.elapsed().saturating_sub(Duration::from_nanos(u64::from_be_bytes(*put_at)));
            self.latencies.lock().record(age);
        }
        self.delivered.fetch_add(1, Ordering::Relaxed);
        self.progress.notify_one();
    }
}
