//! The Watch service: one task per stream carries all its watchers.

mod responses;
mod stream;

use super::{
    Context,
    identity::Credentials,
    layers::{leader_lost, requires_leader},
};
use etcd::{encoded, encoded::watch_server::Watch, etcdserverpb::WatchRequest};
use futures::{StreamExt, stream::Map};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Answers a client may leave unread before its watchers wait. Nothing else waits for them.
const UNREAD: usize = 16;

type Answer = Result<encoded::WatchResponse, Status>;

/// An answer on its way to a client.
#[derive(Debug)]
pub struct Queued {
    answer: Answer,
    _pending: Pending,
}

/// Events that are pending until this is dropped, taken by the client or not.
#[derive(Debug)]
struct Pending {
    gauge: Gauge,
    events: i64,
}

impl Queued {
    fn new(answer: Answer, gauge: &Gauge) -> Self {
        let events = answer.as_ref().map_or(0, |answer| answer.events.len() as i64);
        gauge.inc_by(events);
        Queued { answer, _pending: Pending { gauge: gauge.clone(), events } }
    }
}

fn taken(queued: Queued) -> Answer {
    queued.answer
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.gauge.dec_by(self.events);
    }
}

#[tonic::async_trait]
impl Watch for Context {
    type WatchStream = Map<ReceiverStream<Queued>, fn(Queued) -> Answer>;

    async fn watch(&self, request: Request<Streaming<WatchRequest>>) -> Result<Response<Self::WatchStream>, Status> {
        let (sender, receiver) = mpsc::channel(UNREAD);
        let leader_lost = leader_lost(self.node.clone(), requires_leader(request.metadata()));
        let stream = stream::Stream::new(self.clone(), Credentials::of(&request), sender);
        tokio::spawn(stream.run(request.into_inner(), leader_lost));
        Ok(Response::new(ReceiverStream::new(receiver).map(taken as fn(Queued) -> Answer)))
    }
}
