//! A client that lists and watches: where a watch ends, it goes on after the last revision it was shown; where history is gone, it
//! lists again.

use std::{pin::pin, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Error,
    api::{ListParams, WatchEvent, WatchParams},
};
use rand::{Rng as _, rngs::StdRng};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tokio_stream::StreamExt as _;

use super::{PATIENCE, PREFIX, RETRY, object};
use crate::history::{Event, Follower, Kind, Life, Pair, Range, Response, Stream, Watch};

/// The ConfigMap that one watcher wants alone; the last write of all is to it.
pub(super) const ONE: &str = "m0";
/// Opening a watch, or a list, takes no longer.
const OPEN: Duration = Duration::from_secs(10);
/// How often a watcher asks itself whether it is done.
const ASK: Duration = Duration::from_millis(500);
/// One in so many events is the last one a restless watcher takes from its watch.
const RESTLESS: u32 = 40;

/// What a watcher wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) name: &'static str,
    /// One ConfigMap only.
    alone: bool,
    /// `timeoutSeconds` of each watch.
    seconds: u32,
    bookmarks: bool,
    restless: bool,
}

impl Wish {
    /// Whether it wants all there is.
    pub(super) fn everything(&self) -> bool {
        !self.alone
    }

    fn range(&self) -> Range {
        if self.alone { Range::key(&object::key(ONE)) } else { Range::prefix(PREFIX) }
    }

    fn params(&self) -> WatchParams {
        let params = WatchParams { bookmarks: self.bookmarks, ..WatchParams::default() }.timeout(self.seconds);
        if self.alone { params.fields(&format!("metadata.name={ONE}")) } else { params }
    }

    fn list_params(&self) -> ListParams {
        let params = ListParams::default();
        if self.alone { params.fields(&format!("metadata.name={ONE}")) } else { params }
    }
}

/// One of each kind.
pub(super) const WISHES: [Wish; 4] = [
    Wish { name: "patient", alone: false, seconds: 290, bookmarks: true, restless: false },
    Wish { name: "restless", alone: false, seconds: 290, bookmarks: true, restless: true },
    Wish { name: "short", alone: false, seconds: 7, bookmarks: false, restless: false },
    Wish { name: "alone", alone: true, seconds: 11, bookmarks: true, restless: false },
];

/// Why a watch is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// It can be resumed.
    Broken,
    /// 410: what comes next is no longer known.
    Expired,
}

/// One watcher.
pub(super) struct Watcher {
    wish: Wish,
    maps: Api<ConfigMap>,
    shown: watch::Sender<i64>,
}

impl Watcher {
    pub(super) fn new(wish: Wish, maps: Api<ConfigMap>, shown: watch::Sender<i64>) -> Self {
        Self { wish, maps, shown }
    }

    /// Watches until it was shown everything up to `upto`, once that is known, or has no patience left.
    pub(super) async fn run(self, mut dice: StdRng, upto: watch::Receiver<Option<i64>>) -> Follower {
        let mut follower = Follower { name: self.wish.name.to_owned(), lives: Vec::new() };
        let (mut expired, mut impatient) = (true, None);
        loop {
            if expired && let Some(life) = self.list().await {
                self.shown.send_replace(life.listed);
                follower.lives.push(life);
                expired = false;
            }
            if !expired && let Some(life) = follower.lives.last_mut() {
                expired = self.watch(life, &mut dice, &upto).await == Ended::Expired;
                let done = upto.borrow().is_some_and(|upto| life.reached() >= upto);
                if done {
                    return follower;
                }
            }
            if upto.borrow().is_some() && impatient.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return follower;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn list(&self) -> Option<Life> {
        let listed = timeout(OPEN, self.maps.list(&self.wish.list_params())).await.ok()?.ok()?;
        let revision = listed.metadata.resource_version?.parse().unwrap();
        let mut items: Vec<_> = listed.items.iter().map(object::pair).collect();
        items.sort_by(|a, b| a.key.cmp(&b.key));
        let watch = Watch { name: self.wish.name.to_owned(), range: self.wish.range(), with_before: false, streams: Vec::new() };
        Some(Life { listed: revision, items, watch })
    }

    /// One more watch of a life, from where the one before ended.
    async fn watch(&self, life: &mut Life, dice: &mut StdRng, upto: &watch::Receiver<Option<i64>>) -> Ended {
        let mut stream = Stream { start: life.reached() + 1, responses: Vec::new() };
        let ended = self.follow(&mut stream, dice, upto).await;
        if !stream.responses.is_empty() || life.watch.streams.is_empty() {
            life.watch.streams.push(stream);
        }
        ended
    }

    /// Notes what a watch tells until it ends, this watcher has enough of it, or it was shown all there is.
    async fn follow(&self, stream: &mut Stream, dice: &mut StdRng, upto: &watch::Receiver<Option<i64>>) -> Ended {
        let (params, version) = (self.wish.params(), (stream.start - 1).to_string());
        let events = match timeout(OPEN, self.maps.watch(&params, &version)).await {
            Ok(Ok(events)) => events,
            Ok(Err(Error::Api(status))) if status.code == 410 => return Ended::Expired,
            Ok(Err(_)) | Err(_) => return Ended::Broken,
        };
        let mut events = pin!(events);
        loop {
            match timeout(ASK, events.next()).await {
                Ok(Some(Ok(WatchEvent::Error(status)))) if status.code == 410 => return Ended::Expired,
                Ok(Some(Ok(event))) => match noted(&event) {
                    Some(response) => stream.responses.push(response),
                    None => return Ended::Broken,
                },
                Ok(Some(Err(_)) | None) => return Ended::Broken,
                Err(_) => {}
            }
            let shown = stream.next() - 1;
            self.shown.send_replace(shown);
            let done = upto.borrow().is_some_and(|upto| shown >= upto);
            if done || (self.wish.restless && dice.random_range(0..RESTLESS) == 0) {
                return Ended::Broken;
            }
        }
    }
}

/// An event as history has it; none for an error.
fn noted(event: &WatchEvent<ConfigMap>) -> Option<Response> {
    let (kind, pair) = match event {
        WatchEvent::Added(map) => (Kind::Put, Pair { version: object::CREATED, ..object::pair(map) }),
        WatchEvent::Modified(map) => (Kind::Put, Pair { version: object::CHANGED, ..object::pair(map) }),
        WatchEvent::Deleted(map) => (Kind::Delete, Pair { value: String::new(), ..object::pair(map) }),
        WatchEvent::Bookmark(bookmark) => {
            let revision = bookmark.metadata.resource_version.parse().unwrap();
            return Some(Response { revision, events: Vec::new(), fragment: false });
        }
        WatchEvent::Error(status) => {
            eprintln!("a watch ended: {status:?}");
            return None;
        }
    };
    Some(Response { revision: pair.modified, events: vec![Event { kind, pair, before: None }], fragment: false })
}
