//! Reading and writing keys, and asking servers how they are.

use super::{Client, Error, retry::Effect};
use crate::etcdserverpb::{
    AlarmRequest, AlarmResponse, CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, MemberListRequest,
    MemberListResponse, PutRequest, PutResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse, TxnRequest, TxnResponse,
    alarm_request::AlarmAction, cluster_client::ClusterClient, kv_client::KvClient, maintenance_client::MaintenanceClient,
    request_op::Request as Op,
};
use tonic::transport::Channel;

/// Answers are as large as they are.
fn kv(channel: Channel) -> KvClient<Channel> {
    KvClient::new(channel).max_decoding_message_size(usize::MAX).max_encoding_message_size(usize::MAX)
}

impl Client {
    /// Reads keys.
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error> {
        self.call(Effect::Reads, request, async |channel, request| kv(channel).range(request).await).await
    }

    /// Sets a key.
    pub async fn put(&self, request: PutRequest) -> Result<PutResponse, Error> {
        self.call(Effect::Writes, request, async |channel, request| kv(channel).put(request).await).await
    }

    /// Deletes keys.
    pub async fn delete_range(&self, request: DeleteRangeRequest) -> Result<DeleteRangeResponse, Error> {
        self.call(Effect::Writes, request, async |channel, request| kv(channel).delete_range(request).await).await
    }

    /// Runs a transaction.
    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Error> {
        let effect = if reads_only(&request) { Effect::Reads } else { Effect::Writes };
        self.call(effect, request, async |channel, request| kv(channel).txn(request).await).await
    }

    /// Gives up history below a revision. Doing it twice ends in [`Error::Compacted`] and harms nothing.
    pub async fn compact(&self, request: CompactionRequest) -> Result<CompactionResponse, Error> {
        self.call(Effect::Writes, request, async |channel, request| kv(channel).compact(request).await).await
    }

    /// The members of the cluster.
    pub async fn member_list(&self, linearizable: bool) -> Result<MemberListResponse, Error> {
        let send = async |channel: Channel, request| ClusterClient::new(channel).member_list(request).await;
        self.call(Effect::Reads, MemberListRequest { linearizable }, send).await
    }

    /// The status of the server in favour.
    pub async fn status(&self) -> Result<StatusResponse, Error> {
        let send = async |channel: Channel, request| MaintenanceClient::new(channel).status(request).await;
        self.call(Effect::Reads, StatusRequest {}, send).await
    }

    /// The servers' URLs.
    pub fn servers(&self) -> Vec<&str> {
        self.endpoints.names()
    }

    /// The status of one server, by its URL.
    pub async fn status_of(&self, endpoint: &str) -> Result<StatusResponse, Error> {
        let channel = self.endpoints.by_name(endpoint);
        let channel = channel.ok_or_else(|| Error::Config(format!("{endpoint} is none of the endpoints")))?;
        let mut client = MaintenanceClient::new(channel);
        let answer = tokio::time::timeout(self.request_timeout, client.status(StatusRequest {})).await;
        Ok(answer.map_err(|_| Error::deadline())??.into_inner())
    }

    /// The raised alarms.
    pub async fn alarms(&self) -> Result<AlarmResponse, Error> {
        let request = AlarmRequest { action: AlarmAction::Get as i32, ..Default::default() };
        let send = async |channel: Channel, request| MaintenanceClient::new(channel).alarm(request).await;
        self.call(Effect::Reads, request, send).await
    }
}

fn reads_only(txn: &TxnRequest) -> bool {
    txn.success.iter().chain(&txn.failure).all(|op| matches!(op.request, Some(Op::RequestRange(_))))
}
