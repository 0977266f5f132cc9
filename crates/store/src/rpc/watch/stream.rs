//! One client stream: creates and cancels its watchers, and hands them what is pending, in turn.

use super::{
    super::{Context, blocking, identity::Credentials, methods::code_name},
    Answer, Queued,
    responses::{FULL, parts},
};
use crate::{
    disk,
    mvcc::{KeyRange, history},
    refusal::Refusal,
    watch::{
        Filter, Watch,
        hub::{Next, Session},
        ring::Revision,
    },
};
use bytes::Bytes;
use etcd::{
    encoded::WatchResponse,
    etcdserverpb::{WatchCreateRequest, WatchRequest, watch_create_request::FilterType, watch_request::RequestUnion},
};
use std::{collections::BTreeMap, pin::pin, sync::Arc};
use tokio::{sync::mpsc, time::MissedTickBehavior};
use tonic::Streaming;

/// Answers that concern no single watcher go to this one.
const NO_WATCHER: i64 = -1;

/// What a watcher reads from history at once.
const BUDGET: history::Budget = history::Budget { rows: 4096, bytes: 1 << 20 };

/// The client is gone, or the member stops: the stream ends.
struct Closed;

struct Watcher {
    /// As the client knows it.
    id: i64,
    watch: Watch,
    prev_kv: bool,
    fragment: bool,
    progress_notify: bool,
    /// It was told something since the last progress tick.
    told: bool,
}

/// The watchers of one stream.
pub(super) struct Stream {
    context: Context,
    who: Credentials,
    session: Session,
    sender: mpsc::Sender<Queued>,
    /// By number in the hub.
    watchers: BTreeMap<u64, Watcher>,
    /// By number the client knows.
    ids: BTreeMap<i64, u64>,
    next_id: i64,
    /// The client asked for progress while a watcher was behind.
    progress_owed: bool,
}

impl Stream {
    pub(super) fn new(context: Context, who: Credentials, sender: mpsc::Sender<Queued>) -> Self {
        let session = context.node.state().hub().session();
        context.metrics.watch_streams.inc();
        let (watchers, ids) = (BTreeMap::new(), BTreeMap::new());
        Stream { context, who, session, sender, watchers, ids, next_id: 0, progress_owed: false }
    }

    /// Runs until the client or the member goes away.
    pub(super) async fn run(mut self, mut requests: Streaming<WatchRequest>, leader_lost: impl Future<Output = ()>) {
        let mut leader_lost = pin!(leader_lost);
        let mut progress = tokio::time::interval(self.context.limits.progress_interval);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        progress.reset();
        let mut asks = true;
        loop {
            // What is rare comes first. A client that floods its stream with requests delays its own events only.
            let sent = tokio::select! {
                biased;
                () = self.sender.closed() => Err(Closed),
                () = &mut leader_lost => self.end(Refusal::NoLeader).await,
                _ = progress.tick() => self.notify_progress().await,
                request = requests.message(), if asks => match request {
                    Ok(Some(request)) => self.request(request).await,
                    // As in etcd, one that has asked for all it wants goes on listening.
                    Ok(None) => {
                        asks = false;
                        Ok(())
                    }
                    Err(_) => {
                        let labels = vec![("API", "watch".to_owned()), ("Type", "receive".to_owned())];
                        self.context.metrics.stream_failures.get_or_create(&labels).inc();
                        Err(Closed)
                    }
                },
                id = self.session.ready() => self.deliver(id).await,
            };
            if sent.is_err() {
                return;
            }
        }
    }

    async fn request(&mut self, request: WatchRequest) -> Result<(), Closed> {
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => self.create(create).await,
            Some(RequestUnion::CancelRequest(cancel)) => match self.ids.get(&cancel.watch_id).copied() {
                Some(id) => {
                    self.forget(id);
                    let revision = self.session.revision();
                    self.send(revision, WatchResponse { watch_id: cancel.watch_id, canceled: true, ..Default::default() }).await
                }
                None => Ok(()),
            },
            Some(RequestUnion::ProgressRequest(_)) => {
                self.progress_owed = true;
                self.pay_progress().await
            }
            None => Ok(()),
        }
    }

    async fn create(&mut self, create: WatchCreateRequest) -> Result<(), Closed> {
        let watch = wanted(&create);
        if let Err(refusal) = self.may_watch(&watch).await {
            // As Go prints a status: clients look for just that.
            let reason = format!("rpc error: code = {} desc = {refusal}", code_name(refusal.code()));
            return self.refuse(&reason).await;
        }
        let refused = match () {
            () if create.start_revision < 0 => Some(Refusal::Compacted.text()),
            () if watch.range.is_empty() => Some("mvcc: watcher range is empty"),
            () if create.watch_id != 0 && self.ids.contains_key(&create.watch_id) => {
                Some("mvcc: duplicate watch ID provided on the WatchStream")
            }
            () => None,
        };
        if let Some(reason) = refused {
            return self.refuse(reason).await;
        }
        let id = self.choose_id(create.watch_id);
        let (hub_id, revision) = self.session.watch(watch.clone());
        let WatchCreateRequest { prev_kv, fragment, progress_notify, .. } = create;
        self.ids.insert(id, hub_id);
        self.watchers.insert(hub_id, Watcher { id, watch, prev_kv, fragment, progress_notify, told: true });
        self.send(revision, WatchResponse { watch_id: id, created: true, ..Default::default() }).await
    }

    async fn may_watch(&self, watch: &Watch) -> Result<(), Refusal> {
        self.context.asked(&self.who).await?.reads_range(&watch.range)
    }

    async fn refuse(&self, reason: &str) -> Result<(), Closed> {
        let (watch_id, cancel_reason) = (NO_WATCHER, reason.to_owned());
        let refusal = WatchResponse { watch_id, created: true, canceled: true, cancel_reason, ..Default::default() };
        self.send(self.session.revision(), refusal).await
    }

    fn choose_id(&mut self, asked: i64) -> i64 {
        if asked != 0 {
            return asked;
        }
        while self.ids.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        self.next_id - 1
    }

    fn forget(&mut self, id: u64) {
        self.session.cancel(id);
        if let Some(watcher) = self.watchers.remove(&id) {
            self.ids.remove(&watcher.id);
        }
    }

    /// Tells a watcher that what it asks for is compacted. As in etcd, such an answer names no current revision and no
    /// reason but that one.
    async fn cancel(&mut self, id: u64, compact_revision: i64) -> Result<(), Closed> {
        let Some(watch_id) = self.watchers.get(&id).map(|watcher| watcher.id) else { return Ok(()) };
        self.forget(id);
        let response = WatchResponse { watch_id, canceled: true, compact_revision, ..Default::default() };
        self.send(0, response).await
    }

    /// Gives a watcher a share of what is pending for it.
    async fn deliver(&mut self, id: u64) -> Result<(), Closed> {
        let revision = self.session.revision();
        match self.session.next(id) {
            Next::Idle => {}
            Next::Compacted(compacted) => self.cancel(id, compacted).await?,
            Next::Revisions(revisions) => self.events(id, revision, &revisions).await?,
            Next::History { from, to } => self.catch_up(id, from, to).await?,
        }
        self.pay_progress().await
    }

    async fn catch_up(&mut self, id: u64, from: i64, to: i64) -> Result<(), Closed> {
        let Some(watcher) = self.watchers.get(&id) else { return Ok(()) };
        let watch = watcher.watch.clone();
        let state = self.context.node.state().clone();
        let read = move || {
            state.read(|read, revisions| {
                if from < revisions.compacted {
                    return Ok(Err(revisions.compacted));
                }
                let chunk = history::read(read, from, to, BUDGET, &mut |kind, key| watch.wants(kind, key));
                chunk.map(Ok)
            })
        };
        let chunk: disk::Result<Result<history::Chunk, i64>> = match blocking(self.context.node.state(), read).await {
            Ok(read) => read.and_then(|chunk| chunk),
            Err(_) => return Err(Closed),
        };
        match chunk {
            Ok(Ok(chunk)) => {
                let of = |(revision, events)| Arc::new(Revision { revision, events });
                let revisions: Vec<_> = chunk.revisions.into_iter().map(of).collect();
                self.events(id, self.session.revision(), &revisions).await?;
                self.session.resume(id, chunk.seen);
                Ok(())
            }
            Ok(Err(compacted)) => self.cancel(id, compacted).await,
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "read history");
                Err(Closed)
            }
        }
    }

    async fn events(&mut self, id: u64, revision: i64, revisions: &[Arc<Revision>]) -> Result<(), Closed> {
        let Some(watcher) = self.watchers.get_mut(&id) else { return Ok(()) };
        watcher.told = true;
        let watch_id = watcher.id;
        // History is read from the state, which is ahead of the hub for a moment: no header is behind its events.
        let revision = revisions.last().map_or(revision, |last| revision.max(last.revision));
        // As in etcd, the pair before is gone with its revision, whether it is still at hand or not.
        let prev_after = if watcher.prev_kv { self.session.compacted() } else { i64::MAX };
        let cut = parts(revisions, &watcher.watch, prev_after, watcher.fragment, FULL);
        for part in cut {
            let response = WatchResponse { watch_id, events: part.events, fragment: part.fragment, ..Default::default() };
            self.send(revision, response).await?;
        }
        Ok(())
    }

    /// Answers a request for progress as soon as nothing is pending on the stream.
    async fn pay_progress(&mut self) -> Result<(), Closed> {
        let revision = if self.progress_owed { self.session.all_synced() } else { None };
        let Some(revision) = revision else { return Ok(()) };
        self.progress_owed = false;
        self.send(revision, WatchResponse { watch_id: NO_WATCHER, ..Default::default() }).await
    }

    /// Tells watchers that want to know, and heard nothing since the last time, how far they are.
    async fn notify_progress(&mut self) -> Result<(), Closed> {
        let mut due = Vec::new();
        for (hub_id, watcher) in self.watchers.iter_mut().filter(|(_, watcher)| watcher.progress_notify) {
            let told = std::mem::replace(&mut watcher.told, false);
            if let Some(revision) = self.session.synced(*hub_id).filter(|_| !told) {
                due.push((watcher.id, revision));
            }
        }
        for (watch_id, revision) in due {
            self.send(revision, WatchResponse { watch_id, ..Default::default() }).await?;
        }
        Ok(())
    }

    async fn end(&self, refusal: Refusal) -> Result<(), Closed> {
        // It ends either way.
        let _ = self.queue(Err(refusal.into())).await;
        Err(Closed)
    }

    async fn send(&self, revision: i64, response: WatchResponse) -> Result<(), Closed> {
        let response = WatchResponse { header: self.context.header(revision), ..response };
        self.context.metrics.events.inc_by(response.events.len() as u64);
        self.queue(Ok(response)).await
    }

    async fn queue(&self, answer: Answer) -> Result<(), Closed> {
        let queued = Queued::new(answer, &self.context.metrics.pending_events);
        self.sender.send(queued).await.map_err(|_| Closed)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.context.metrics.watch_streams.dec();
    }
}

/// An empty key means the lowest there is, as in etcd.
fn wanted(create: &WatchCreateRequest) -> Watch {
    let key = if create.key.is_empty() { Bytes::from_static(&[0]) } else { create.key.clone() };
    let filtered = |kind: FilterType| create.filters.contains(&(kind as i32));
    let filter = Filter { no_put: filtered(FilterType::Noput), no_delete: filtered(FilterType::Nodelete) };
    Watch { range: KeyRange::new(&key, &create.range_end), filter, start: create.start_revision }
}
