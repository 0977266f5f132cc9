//! A client that watches: where a stream breaks, it goes on at another member after the last revision it was shown.

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
use crate::history::{Range, Response, Stream, Watch};

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
    doors: Vec<Door>,
    at: usize,
    wish: Wish,
    watch: Watch,
}

struct Open {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Watcher {
    pub(super) fn new(name: String, doors: Vec<Door>, home: usize, wish: Wish) -> Self {
        let watch = Watch { name, range: wish.range.clone(), with_before: wish.with_before, streams: Vec::new() };
        Self { doors, at: home, wish, watch }
    }

    /// Watches until it was shown everything up to `upto`, once that is known, or has no patience left.
    pub(super) async fn run(mut self, mut dice: StdRng, upto: watch::Receiver<Option<i64>>) -> Watch {
        let mut next = self.wish.start;
        let mut impatient = None;
        loop {
            let mut stream = Stream { start: next, responses: Vec::new() };
            if let Ok(open) = self.open(next).await {
                self.follow(open, &mut stream, &mut dice, &upto).await;
            }
            next = stream.next();
            if !stream.responses.is_empty() || self.watch.streams.is_empty() {
                self.watch.streams.push(stream);
            }
            if upto.borrow().is_some_and(|upto| next > upto) {
                return self.watch;
            }
            if upto.borrow().is_some() && impatient.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return self.watch;
            }
            self.at = (self.at + 1) % self.doors.len();
            tokio::time::sleep(RETRY).await;
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
        let mut client = WatchClient::new(self.doors[self.at].again().channel()).max_decoding_message_size(usize::MAX);
        let late = |_| Status::deadline_exceeded("the stream was not opened");
        let responses = timeout(OPEN, client.watch(request)).await.map_err(late)??.into_inner();
        Ok(Open { requests, responses })
    }

    /// Notes what a stream tells until it ends, this watcher has enough of it, or it was shown all there is.
    async fn follow(&self, mut open: Open, stream: &mut Stream, dice: &mut StdRng, upto: &watch::Receiver<Option<i64>>) {
        let mut silent = 0;
        loop {
            match timeout(ASK, open.responses.message()).await {
                Ok(Ok(Some(response))) if response.created => silent = 0,
                Ok(Ok(Some(response))) if !response.canceled => {
                    silent = 0;
                    stream.responses.push(noted(response));
                }
                Ok(Ok(Some(response))) => {
                    eprintln!("{}: cancelled: {response:?}", self.watch.name);
                    return;
                }
                Ok(Ok(None) | Err(_)) => return,
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
                return;
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
