//! Leases.

use super::{Client, Error, retry::Effect};
use crate::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest, LeaseLeasesResponse,
    LeaseRevokeRequest, LeaseRevokeResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, lease_client::LeaseClient,
};
use std::time::Duration;
use tonic::{Status, transport::Channel};

fn lease(channel: Channel) -> LeaseClient<Channel> {
    LeaseClient::new(channel).max_decoding_message_size(usize::MAX)
}

impl Client {
    /// Creates a lease of so many seconds; `id` 0 lets the server choose.
    pub async fn lease_grant(&self, ttl: i64, id: i64) -> Result<LeaseGrantResponse, Error> {
        let request = LeaseGrantRequest { ttl, id };
        self.call(Effect::Writes, request, async |channel, request| lease(channel).lease_grant(request).await).await
    }

    /// Ends a lease and deletes its keys.
    pub async fn lease_revoke(&self, id: i64) -> Result<LeaseRevokeResponse, Error> {
        let request = LeaseRevokeRequest { id };
        self.call(Effect::Writes, request, async |channel, request| lease(channel).lease_revoke(request).await).await
    }

    /// Keeps a lease alive once. A time to live of 0 in the answer says that it is gone.
    pub async fn lease_keep_alive(&self, id: i64) -> Result<LeaseKeepAliveResponse, Error> {
        self.call(Effect::Reads, LeaseKeepAliveRequest { id }, async |channel, request| {
            let message = request.into_inner();
            let requests = tokio_stream::once(message);
            let mut answers = lease(channel).lease_keep_alive(requests).await?.into_inner();
            let answer = answers.message().await?;
            answer.map(tonic::Response::new).ok_or_else(|| Status::unavailable("keep-alive stream ended"))
        })
        .await
    }

    /// Keeps a lease alive, three times in its time to live, until it is gone or cannot be kept any longer.
    ///
    /// # Errors
    /// Ends only with an error: that the lease is gone, or why it could not be kept alive in its time.
    pub async fn lease_keep(&self, id: i64) -> Error {
        loop {
            match self.lease_keep_alive(id).await {
                Ok(answer) if answer.ttl > 0 => {
                    tokio::time::sleep(Duration::from_secs(answer.ttl as u64) / 3).await;
                }
                Ok(_) => return Status::not_found("etcdserver: requested lease not found").into(),
                Err(error) => return error,
            }
        }
    }

    /// A lease's time and, where asked for, its keys. A time to live of -1 says that it is gone.
    pub async fn lease_time_to_live(&self, id: i64, keys: bool) -> Result<LeaseTimeToLiveResponse, Error> {
        let request = LeaseTimeToLiveRequest { id, keys };
        let send = async |channel, request| lease(channel).lease_time_to_live(request).await;
        self.call(Effect::Reads, request, send).await
    }

    /// All leases.
    pub async fn lease_leases(&self) -> Result<LeaseLeasesResponse, Error> {
        let send = async |channel, request| lease(channel).lease_leases(request).await;
        self.call(Effect::Reads, LeaseLeasesRequest {}, send).await
    }
}
