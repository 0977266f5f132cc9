//! The Watch service.

pub(crate) mod creating;
pub(crate) mod telling;

use etcd::etcdserverpb::{
    PutRequest, RequestOp, TxnRequest, WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
    request_op::Request, watch_client::WatchClient, watch_request::RequestUnion,
};
use etcd::mvccpb::Event;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::talk::{Expected, PATIENCE, Talk};
use crate::text::{Frame, Text};

/// A stream of watches.
struct Stream<'a> {
    talk: &'a Talk,
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Talk {
    /// Opens a stream with its first watch.
    async fn watch(&self, first: WatchCreateRequest) -> Stream<'_> {
        let (requests, receiver) = mpsc::channel(64);
        // A server may say nothing, not even that there is a stream, before the first request.
        requests.send(request(RequestUnion::CreateRequest(first))).await.unwrap();
        let mut client = WatchClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX);
        let opened = tokio::time::timeout(PATIENCE, client.watch(ReceiverStream::new(receiver))).await.expect("a stream in time");
        Stream { talk: self, requests, responses: opened.unwrap().into_inner() }
    }
}

impl Stream<'_> {
    async fn create(&self, create: WatchCreateRequest) {
        self.requests.send(request(RequestUnion::CreateRequest(create))).await.unwrap();
    }

    async fn cancel(&self, watch_id: i64) {
        self.requests.send(request(RequestUnion::CancelRequest(WatchCancelRequest { watch_id }))).await.unwrap();
    }

    async fn ask_for_progress(&self) {
        self.requests.send(request(RequestUnion::ProgressRequest(WatchProgressRequest {}))).await.unwrap();
    }

    async fn next(&mut self) -> WatchResponse {
        let next = tokio::time::timeout(PATIENCE, self.responses.message()).await.expect("an answer in time");
        next.unwrap().expect("the stream goes on")
    }

    async fn hears(&mut self, expected: impl Into<Expected>) {
        let said = self.next().await.text(&self.talk.frame);
        assert_eq!(said, self.talk.wanted(expected));
    }

    /// So many events of a watch, in as many answers as the server likes, none of which splits a revision.
    async fn events(&mut self, watch_id: i64, count: usize) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        while events.len() < count {
            let response = self.next().await;
            assert_eq!((response.watch_id, response.created, response.canceled, response.fragment), (watch_id, false, false, false));
            let (first, last) = (revision(response.events.first()), revision(response.events.last()));
            assert!(events.last().is_none_or(|before| revision(Some(before)) < first), "a revision was split");
            assert!(response.header.unwrap().revision >= last, "the header is behind its events");
            events.extend(response.events);
        }
        events
    }

    async fn hears_events(&mut self, watch_id: i64, expected: &[&str]) {
        let events = self.events(watch_id, expected.len()).await;
        assert_eq!(told(&self.talk.frame, &events), expected);
    }
}

fn told(frame: &Frame, events: &[Event]) -> Vec<String> {
    events.iter().map(|event| frame.event(event)).collect()
}

fn revision(event: Option<&Event>) -> i64 {
    event.and_then(|event| event.kv.as_ref()).map_or(0, |kv| kv.mod_revision)
}

fn request(union: RequestUnion) -> WatchRequest {
    WatchRequest { request_union: Some(union) }
}

fn on(key: &str) -> WatchCreateRequest {
    WatchCreateRequest { key: key.to_owned().into(), ..Default::default() }
}

fn over(key: &str, end: &str) -> WatchCreateRequest {
    WatchCreateRequest { range_end: end.to_owned().into(), ..on(key) }
}

/// Puts keys in one transaction.
fn together(keys: &[String], value: &[u8]) -> TxnRequest {
    let put = |key: &String| PutRequest { key: key.clone().into(), value: value.to_vec().into(), ..Default::default() };
    let success = keys.iter().map(|key| RequestOp { request: Some(Request::RequestPut(put(key))) }).collect();
    TxnRequest { success, ..Default::default() }
}
