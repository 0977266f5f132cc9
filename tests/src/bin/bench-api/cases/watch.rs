//! One update to many watchers. Each object tells when it was written: a watcher knows how old its event is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tests::bench::{Histogram, Measured, Phase, dice};
use tokio::{sync::Notify, task::JoinSet, time::timeout};

use super::Context;
use crate::{
    client::{Connection, Request},
    report::Row,
    things,
};

const NAME: &str = "watched";
/// What stands before the time in an event.
const AT: &[u8] = br#""at":""#;
/// All watchers have seen an update within this time.
const DELIVERED: Duration = Duration::from_secs(60);

/// What watchers and the writer share.
struct Shared {
    began: Instant,
    phase: Phase,
    latencies: Mutex<Histogram>,
    delivered: AtomicUsize,
    progress: Notify,
}

pub(super) async fn watch(context: &Context) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for watchers in &context.sizes.watchers {
        let before = context.resident().await;
        let shared = Arc::new(Shared {
            began: Instant::now(),
            phase: Phase::default(),
            latencies: Mutex::default(),
            delivered: AtomicUsize::new(0),
            progress: Notify::new(),
        });
        let mut tasks = begin(context, &shared, *watchers).await?;
        let each = context.resident().await.saturating_sub(before) as f64 / *watchers as f64 / 1024.0;
        let writer = write(shared.clone(), context.target.connect().await?, context.path("configmaps"), *watchers);
        let (ended, (time, cpu)) = tokio::join!(writer, shared.phase.run(|| context.usage(), context.times));
        ended?;
        let latencies = std::mem::take(&mut *shared.latencies.lock());
        let note = format!("{each:.1} KiB of memory a watcher");
        rows.push(context.row(format!("update to {watchers} watchers"), Measured { time, latencies, errors: 0, cpu }, note));
        tasks.shutdown().await;
    }
    Ok(rows)
}

/// Makes the object if need be, and begins all watches.
async fn begin(context: &Context, shared: &Arc<Shared>, watchers: usize) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    let path = context.path("configmaps");
    let object = things::dated(NAME, 0, &mut dice(0));
    // It may be there from the measurement before.
    drop(context.target.connect().await?.send(Request::new(Method::POST, &path).body(object)).await?);
    let selector = format!("fieldSelector=metadata.name%3D{NAME}");
    let mut tasks = JoinSet::new();
    for connection in context.connections(watchers).await? {
        // From the state of now on, which is told first: one event each.
        let request = Request::new(Method::GET, format!("{path}?watch=true&{selector}&timeoutSeconds=3600"));
        let answer = connection.send(request).await?;
        ensure!(answer.status().is_success(), "a watch was answered {}", answer.status());
        tasks.spawn(follow(shared.clone(), answer.into_body(), connection));
    }
    shared.wait_for(watchers).await?;
    Ok(tasks)
}

/// Takes a watch's events. The connection is held for as long.
async fn follow(shared: Arc<Shared>, mut events: Incoming, _connection: Connection) -> anyhow::Result<()> {
    let mut line: Vec<u8> = Vec::new();
    while let Some(frame) = events.frame().await {
        let frame = frame?;
        let data: &[u8] = frame.data_ref().map(Bytes::as_ref).unwrap_or_default();
        line.extend_from_slice(data);
        if line.last() == Some(&b'\n') {
            line.split(|byte| *byte == b'\n').filter(|event| !event.is_empty()).try_for_each(|event| shared.arrived(event))?;
            line.clear();
        }
    }
    Ok(())
}

/// Updates the object; the next update follows when all have seen the one before.
async fn write(shared: Arc<Shared>, connection: Connection, path: String, watchers: usize) -> anyhow::Result<()> {
    let mut dice = dice(1);
    while !shared.phase.over() {
        let wanted = shared.delivered.load(Ordering::Relaxed) + watchers;
        let object = things::dated(NAME, shared.began.elapsed().as_nanos(), &mut dice);
        connection.count(Request::new(Method::PUT, format!("{path}/{NAME}")).body(object)).await?;
        shared.wait_for(wanted).await?;
    }
    Ok(())
}

impl Shared {
    fn arrived(&self, event: &[u8]) -> anyhow::Result<()> {
        let at = event.windows(AT.len()).position(|window| window == AT).context("an event without a time")? + AT.len();
        let digits: &[u8] = event[at..].split(|byte| *byte == b'"').next().unwrap_or_default();
        let written: u64 = std::str::from_utf8(digits)?.parse()?;
        if self.phase.measures() {
            self.latencies.lock().record(self.began.elapsed().saturating_sub(Duration::from_nanos(written)));
        }
        self.delivered.fetch_add(1, Ordering::Relaxed);
        self.progress.notify_one();
        Ok(())
    }

    async fn wait_for(&self, wanted: usize) -> anyhow::Result<()> {
        let all = async {
            while self.delivered.load(Ordering::Relaxed) < wanted {
                self.progress.notified().await;
            }
        };
        timeout(DELIVERED, all).await.with_context(|| format!("{} of {wanted} events arrived", self.delivered.load(Ordering::Relaxed)))
    }
}
