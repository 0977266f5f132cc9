//! A client that watches: where a stream breaks, it goes on at another member after the last revision it was shown; where
//! history is gone, it lists first.

use std::time::Duration;

use etcd::etcdserverpb::{
    WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse, watch_client::WatchClient, watch_request::RequestUnion,
};
use rand::{Rng as _, rngs::StdRng};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming, metadata::MetadataValue};

use super::{Door, PATIENCE, RETRY, door};
use crate::history::{Follower, Found, Life, Op, Outcome, Pair, Range, Response, Stream, Watch};

/// Opening a stream takes no longer.
const OPEN: Duration = Duration::from_secs(2);
/// Between two questions how far the store is.
const ASK: Duration = Duration::from_millis(500);
/// One in so many answers is the last one a watcher takes from its stream.
const RESTLESS: u32 = 150;

/// What a watcher wants.
pub(super) struct Wish {
    range: Range,
    start: i64,
    with_before: bool,
    /// A member without a leader ends the stream instead of being silent.
    needs_leader: bool,
    restless: bool,
}

/// Watchers differ: all keys or one, with the pairs before or without, patient or restless.
pub(super) fn wish(prefix: &str, number: usize, after: i64) -> Wish {
    let everything = number.is_multiple_of(2);
    let range = if everything { Range::prefix(prefix) } else { Range::key(&format!("{prefix}r1")) };
    Wish { range, start: after + 1, with_before: everything, needs_leader: everything, restless: !everything }
}

/// Everything there is to know.
pub(super) fn all(prefix: &str, after: i64) -> Wish {
    Wish { range: Range::prefix(prefix), start: after + 1, with_before: true, needs_leader: false, restless: false }
}

/// One watcher.
pub(super) struct Watcher {
    name: String,
    doors: Vec<Door>,
    at: usize,
    wish: Wish,
}

/// Why a stream ended.
#[derive(PartialEq, Eq)]
enum End {
    /// It broke, or the watcher had enough of it.
    Over,
    /// The store has no history from there on.
    Compacted,
}

struct Open {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Watcher {
    pub(super) fn new(name: String, doors: Vec<Door>, home: usize, wish: Wish) -> Self {
        Self { name, doors, at: home, wish }
    }

    /// Watches until it was shown everything up to `upto`, once that is known, or has no patience left. Tells `reached` the
    /// last revision up to which it was shown everything.
    pub(super) async fn run(mut self, mut dice: StdRng, upto: watch::Receiver<Option<i64>>, reached: watch::Sender<i64>) -> Follower {
        let mut life = self.life(self.wish.start - 1, Vec::new());
        let (mut lives, mut impatient) = (Vec::new(), None);
        loop {
            let mut stream = Stream { start: life.reached() + 1, responses: Vec::new() };
            let end = match self.open(stream.start).await {
                Ok(open) => self.follow(open, &mut stream, &mut dice, &upto, &reached).await,
                Err(_) => End::Over,
            };
            if !stream.responses.is_empty() || life.watch.streams.is_empty() {
                life.watch.streams.push(stream);
            }
            let shown = upto.borrow().is_some_and(|upto| life.reached() >= upto);
            if shown || (upto.borrow().is_some() && impatient.get_or_insert_with(Instant::now).elapsed() > PATIENCE) {
                lives.push(life);
                return Follower { name: self.name, lives };
            }
            if end == End::Compacted
                && let Some((listed, items)) = self.list().await
            {
                lives.push(std::mem::replace(&mut life, self.life(listed, items)));
                continue;
            }
            self.at = (self.at + 1) % self.doors.len();
            tokio::time::sleep(RETRY).await;
        }
    }

    fn life(&self, listed: i64, items: Vec<Pair>) -> Life {
        let Wish { range, with_before, .. } = &self.wish;
        let watch = Watch { name: self.name.clone(), range: range.clone(), with_before: *with_before, streams: Vec::new() };
        Life { listed, items, watch }
    }

    /// What there is now, and at which revision.
    async fn list(&self) -> Option<(i64, Vec<Pair>)> {
        let everything = crate::history::Request { then: vec![Op::Get(self.wish.range.clone())], ..Default::default() };
        let Outcome::Done(answer) = self.doors[self.at].call(&everything, OPEN).await else { return None };
        match answer.results.into_iter().next() {
            Some(Found::Pairs(pairs)) => Some((answer.revision, pairs)),
            _ => None,
        }
    }

    async fn open(&self, start_revision: i64) -> Result<Open, Status> {
        let (requests, receiver) = mpsc::channel(4);
        let create = WatchCreateRequest {
            key: self.wish.range.start.clone().into(),
            range_end: self.wish.range.end.clone().into(),
            start_revision,
            prev_kv: self.wish.with_before,
            progress_notify: true,
            fragment: true,
            ..WatchCreateRequest::default()
        };
        let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        requests.try_send(create).unwrap();
        let mut request = Request::new(ReceiverStream::new(receiver));
        if self.wish.needs_leader {
            request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        }
        let mut client = WatchClient::new(self.doors[self.at].again().way()).max_decoding_message_size(usize::MAX);
        let late = |_| Status::deadline_exceeded("the stream was not opened");
        let responses = timeout(OPEN, client.watch(request)).await.map_err(late)??.into_inner();
        Ok(Open { requests, responses })
    }

    /// Notes what a stream tells until it ends, this watcher has enough of it, or it was shown all there is.
    async fn follow(
        &self,
        mut open: Open,
        stream: &mut Stream,
        dice: &mut StdRng,
        upto: &watch::Receiver<Option<i64>>,
        reached: &watch::Sender<i64>,
    ) -> End {
        let mut silent = 0;
        loop {
            match timeout(ASK, open.responses.message()).await {
                Ok(Ok(Some(response))) if response.created => silent = 0,
                Ok(Ok(Some(response))) if !response.canceled => {
                    silent = 0;
                    stream.responses.push(noted(response));
                    reached.send_replace(stream.next() - 1);
                }
                Ok(Ok(Some(response))) if response.compact_revision > 0 => return End::Compacted,
                Ok(Ok(Some(response))) => {
                    eprintln!("{}: cancelled: {response:?}", self.name);
                    return End::Over;
                }
                Ok(Ok(None) | Err(_)) => return End::Over,
                Err(_) => {
                    silent += 1;
                    let progress = RequestUnion::ProgressRequest(WatchProgressRequest {});
                    // A full queue holds the question already.
                    let _ = open.requests.try_send(WatchRequest { request_union: Some(progress) });
                }
            }
            let ending = *upto.borrow();
            let done = ending.is_some_and(|upto| stream.next() > upto);
            // At the end a silent member gets no more patience than it takes to ask another.
            if done || (ending.is_some() && silent > 8) || (self.wish.restless && dice.random_range(0..RESTLESS) == 0) {
                return End::Over;
            }
        }
    }
}

fn noted(response: WatchResponse) -> Response {
    Response {
        revision: response.header.unwrap_or_default().revision,
        events: response.events.into_iter().map(door::event).collect(),
        fragment: response.fragment,
    }
}
