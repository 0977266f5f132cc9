//! Watches that outlive their connection.

use super::{
    Client, Error,
    endpoints::Picked,
    retry::{Pause, honest},
};
use crate::{
    etcdserverpb::{
        WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse, watch_client::WatchClient, watch_request::RequestUnion,
    },
    mvccpb::Event,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status, Streaming, metadata::MetadataValue};

/// Changes that arrived together: whole revisions, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Revision of the store. Without events it is a progress report: nothing up to it is still to come.
    pub revision: i64,
    /// The events; none in a progress report.
    pub events: Vec<Event>,
}

/// A watch. It reconnects, to another server if need be, and goes on after the last revision it has handed out.
pub struct Watcher {
    client: Client,
    create: WatchCreateRequest,
    connection: Option<Connection>,
    /// Parts of a revision that is not complete yet.
    fragments: Vec<Event>,
    pause: Pause,
    progress_wanted: bool,
}

struct Connection {
    picked: Picked,
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Client {
    /// Watches keys. Connects when first asked for changes; `watch_id` has no meaning here.
    pub fn watch(&self, create: WatchCreateRequest) -> Watcher {
        let create = WatchCreateRequest { watch_id: 0, fragment: true, ..create };
        Watcher { client: self.clone(), create, connection: None, fragments: Vec::new(), pause: Pause::new(), progress_wanted: false }
    }
}

impl Watcher {
    /// The next changes. May be dropped and called again at any time.
    ///
    /// # Errors
    /// Only when the watch cannot go on: its place in history is compacted, or the server refuses it. A lost
    /// connection is not an error; it is re-made until the caller gives up.
    pub async fn next(&mut self) -> Result<Changes, Error> {
        loop {
            match self.receive().await {
                Ok(response) => {
                    if let Some(changes) = self.take(response)? {
                        return Ok(changes);
                    }
                }
                Err(status) => self.lose(honest(status)).await?,
            }
        }
    }

    /// Asks the server to tell how far it is, as a [`Changes`] without events, once all changes before are delivered.
    pub fn request_progress(&mut self) {
        self.progress_wanted = true;
        self.send_progress();
    }

    /// The revision it would resume from; 0 before it was first connected, unless given.
    pub fn next_revision(&self) -> i64 {
        self.create.start_revision
    }

    fn send_progress(&mut self) {
        if let Some(connection) = self.connection.as_ref().filter(|_| self.progress_wanted) {
            let progress = RequestUnion::ProgressRequest(WatchProgressRequest {});
            let request = WatchRequest { request_union: Some(progress) };
            // A full queue holds a request for progress already.
            let _ = connection.requests.try_send(request);
        }
    }

    async fn receive(&mut self) -> Result<WatchResponse, Status> {
        if self.connection.is_none() {
            self.connection = Some(self.open().await?);
        }
        let Some(connection) = &mut self.connection else { return Err(Status::unavailable("not connected")) };
        connection.responses.message().await?.ok_or_else(|| Status::unavailable("watch stream ended"))
    }

    async fn open(&mut self) -> Result<Connection, Status> {
        let picked = self.client.endpoints.pick();
        let (requests, receiver) = mpsc::channel(4);
        let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(self.create.clone())) };
        requests.try_send(create).map_err(|_| Status::internal("watch request queue"))?;
        let mut request = Request::new(ReceiverStream::new(receiver));
        // A member cut off from the others must say so rather than stay silent.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        let mut client = WatchClient::new(picked.channel.clone()).max_decoding_message_size(usize::MAX);
        let opened = tokio::time::timeout(self.client.request_timeout, client.watch(request)).await;
        let result = opened.unwrap_or_else(|_| Err(Status::unavailable("watch stream was not opened in time")));
        match result {
            Ok(responses) => Ok(Connection { picked, requests, responses: responses.into_inner() }),
            Err(status) => {
                self.client.endpoints.avoid(&picked);
                Err(status)
            }
        }
    }

    /// What a response means; none when there is nothing to hand out yet.
    fn take(&mut self, response: WatchResponse) -> Result<Option<Changes>, Error> {
        let revision = response.header.as_ref().map_or(0, |header| header.revision);
        if response.canceled {
            self.connection = None;
            return Err(cancelled(response));
        }
        if response.created {
            self.pause = Pause::new();
            if self.create.start_revision <= 0 {
                // From now on it must not miss what happens while it reconnects.
                self.create.start_revision = revision + 1;
            }
            self.send_progress();
            return Ok(None);
        }
        if response.events.is_empty() && !response.fragment && self.fragments.is_empty() {
            self.progress_wanted = false;
            self.create.start_revision = self.create.start_revision.max(revision + 1);
            return Ok(Some(Changes { revision, events: Vec::new() }));
        }
        self.fragments.extend(response.events);
        if response.fragment {
            return Ok(None);
        }
        let events = std::mem::take(&mut self.fragments);
        let last = events.last().and_then(|event| event.kv.as_ref()).map_or(0, |kv| kv.mod_revision);
        self.create.start_revision = self.create.start_revision.max(last + 1);
        Ok(Some(Changes { revision, events }))
    }

    /// Gets over a lost connection, or gives up on a refusal.
    async fn lose(&mut self, status: Status) -> Result<(), Error> {
        if let Some(connection) = self.connection.take() {
            self.client.endpoints.avoid(&connection.picked);
        }
        self.fragments.clear();
        let temporary = matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted);
        if !temporary {
            return Err(status.into());
        }
        tracing::debug!(code = ?status.code(), message = status.message(), "watch lost; resuming");
        self.pause.wait().await;
        Ok(())
    }
}

fn cancelled(response: WatchResponse) -> Error {
    match response.compact_revision {
        0 => Error::WatchCanceled(response.cancel_reason),
        compact_revision => Error::Compacted { compact_revision },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{client::Config, etcdserverpb::ResponseHeader, mvccpb::KeyValue};

    fn watcher(start_revision: i64) -> Watcher {
        let client = Client::connect(Config::new(["http://127.0.0.1:1"])).unwrap();
        client.watch(WatchCreateRequest { key: "k".into(), start_revision, ..Default::default() })
    }

    fn response(revision: i64, events: &[i64]) -> WatchResponse {
        let event = |revision: &i64| Event { kv: Some(KeyValue { mod_revision: *revision, ..Default::default() }), ..Default::default() };
        let header = Some(ResponseHeader { revision, ..Default::default() });
        WatchResponse { header, events: events.iter().map(event).collect(), ..Default::default() }
    }

    #[tokio::test]
    async fn resumes_after_what_it_handed_out() {
        let mut watcher = watcher(0);
        let created = WatchResponse { created: true, ..response(7, &[]) };
        assert_eq!(watcher.take(created).unwrap(), None);
        assert_eq!(watcher.next_revision(), 8);
        let changes = watcher.take(response(12, &[9, 10])).unwrap().unwrap();
        assert_eq!((changes.events.len(), watcher.next_revision()), (2, 11));
        assert_eq!(watcher.take(response(20, &[])).unwrap().unwrap(), Changes { revision: 20, events: vec![] });
        assert_eq!(watcher.next_revision(), 21);
    }

    #[tokio::test]
    async fn hands_out_a_fragmented_revision_whole() {
        let mut watcher = watcher(5);
        let first = WatchResponse { fragment: true, ..response(9, &[9]) };
        assert_eq!(watcher.take(first).unwrap(), None);
        assert_eq!(watcher.next_revision(), 5);
        assert_eq!(watcher.take(response(9, &[9])).unwrap().unwrap().events.len(), 2);
        assert_eq!(watcher.next_revision(), 10);
    }

    #[tokio::test]
    async fn says_when_its_place_is_compacted() {
        let cancelled = WatchResponse { canceled: true, compact_revision: 30, ..response(40, &[]) };
        let error = watcher(5).take(cancelled).unwrap_err();
        assert!(matches!(error, Error::Compacted { compact_revision: 30 }));
    }
}
