//! The Watch service: one task per stream carries all its watchers.

mod responses;
mod stream;

use super::{
    Context,
    layers::{leader_lost, requires_leader},
};
use etcd::{encoded, encoded::watch_server::Watch, etcdserverpb::WatchRequest};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Answers a client may leave unread before its watchers wait. Nothing else waits for them.
const UNREAD: usize = 16;

#[tonic::async_trait]
impl Watch for Context {
    type WatchStream = ReceiverStream<Result<encoded::WatchResponse, Status>>;

    async fn watch(&self, request: Request<Streaming<WatchRequest>>) -> Result<Response<Self::WatchStream>, Status> {
        let (sender, receiver) = mpsc::channel(UNREAD);
        let leader_lost = leader_lost(self.node.clone(), requires_leader(request.metadata()));
        let stream = stream::Stream::new(self.clone(), sender);
        tokio::spawn(stream.run(request.into_inner(), leader_lost));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
