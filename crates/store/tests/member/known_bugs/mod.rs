//! Bugs that other stores had, of which etcd keeps a public list, as tests of real processes; see the table in
//! `crates/store/tests/README.md`. Numbers are those of etcd's issues.

mod behind;
mod compaction;
mod crashes;
mod pauses;
mod watches;

use etcd::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse, watch_client::WatchClient, watch_request::RequestUnion};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::support::Member;

/// Longest wait for an answer that must come.
const PATIENCE: Duration = Duration::from_secs(30);

fn signal(member: &Member, signal: Signal) {
    kill(Pid::from_raw(member.pid().try_into().unwrap()), signal).unwrap();
}

/// A stream of watches, opened by its first requests.
struct Watching {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Watching {
    async fn open(member: &Member, creates: impl IntoIterator<Item = WatchCreateRequest>) -> Self {
        let (requests, receiver) = mpsc::channel(64);
        for create in creates {
            requests.send(WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }).await.unwrap();
        }
        let mut client = WatchClient::new(member.channel()).max_decoding_message_size(usize::MAX);
        let responses = client.watch(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { requests, responses }
    }

    async fn next(&mut self) -> WatchResponse {
        let next = tokio::time::timeout(PATIENCE, self.responses.message()).await.expect("an answer in time");
        next.unwrap().expect("the stream goes on")
    }
}

/// A watch of everything under `k`.
fn all(start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest { key: "k".into(), range_end: "l".into(), start_revision, ..Default::default() }
}

/// The revisions of an answer's events.
fn revisions(response: &WatchResponse) -> Vec<i64> {
    response.events.iter().map(|event| event.kv.as_ref().unwrap().mod_revision).collect()
}
