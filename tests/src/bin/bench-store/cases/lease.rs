//! Keeping leases alive.

use std::sync::Arc;

use etcd::etcdserverpb::{LeaseGrantRequest, LeaseKeepAliveRequest, lease_client::LeaseClient};
use tokio::sync::{Mutex, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, transport::Channel};

use super::Context;
use crate::load::{Client, Measured, connections};

const TTL: i64 = 600;

pub(super) async fn keep_alive(context: &Context, streams: usize) -> anyhow::Result<Measured> {
    let channels = connections(&context.members.endpoints().await?, streams.min(context.sizes.connections)).await?;
    let mut clients: Vec<Client> = Vec::with_capacity(streams);
    for channel in channels.into_iter().cycle().take(streams) {
        let lease = Arc::new(Mutex::new(Lease::grant(channel).await?));
        clients.push(Box::new(move || {
            let lease = lease.clone();
            Box::pin(async move { lease.lock().await.keep_alive().await })
        }));
    }
    Ok(context.closed_loop(clients).await)
}

struct Lease {
    id: i64,
    requests: mpsc::Sender<LeaseKeepAliveRequest>,
    answers: Streaming<etcd::etcdserverpb::LeaseKeepAliveResponse>,
}

impl Lease {
    async fn grant(channel: Channel) -> anyhow::Result<Self> {
        let mut client = LeaseClient::new(channel);
        let id = client.lease_grant(LeaseGrantRequest { ttl: TTL, id: 0 }).await?.into_inner().id;
        let (requests, queue) = mpsc::channel(1);
        // A server may open the answers only once it has been asked something.
        requests.send(LeaseKeepAliveRequest { id }).await?;
        let mut answers = client.lease_keep_alive(ReceiverStream::new(queue)).await?.into_inner();
        answers.message().await?;
        Ok(Self { id, requests, answers })
    }

    async fn keep_alive(&mut self) -> Result<(), Status> {
        let ended = || Status::unavailable("the stream ended");
        self.requests.send(LeaseKeepAliveRequest { id: self.id }).await.map_err(|_| ended())?;
        match self.answers.message().await?.ok_or_else(ended)?.ttl {
            TTL => Ok(()),
            ttl => Err(Status::data_loss(format!("a lease of {TTL} s has {ttl} s"))),
        }
    }
}
