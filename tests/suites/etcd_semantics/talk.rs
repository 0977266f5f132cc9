//! A conversation with a server: what is asked, and what must be answered.

use std::fmt::Debug;
use std::time::Duration;

use etcd::etcdserverpb::{
    AlarmRequest, AlarmResponse, CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, HashKvRequest,
    HashKvResponse, HashRequest, HashResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
    MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse, MemberPromoteRequest, MemberPromoteResponse,
    MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest, MemberUpdateResponse, MoveLeaderRequest, MoveLeaderResponse,
    PutRequest, PutResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse, TxnRequest, TxnResponse,
    alarm_request::AlarmAction, cluster_client::ClusterClient, kv_client::KvClient, lease_client::LeaseClient,
    maintenance_client::MaintenanceClient,
};
use etcd::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderRequest, LeaderResponse, ProclaimRequest, ProclaimResponse, ResignRequest, ResignResponse,
    election_client::ElectionClient,
};
use etcd::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse, lock_client::LockClient};
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::text::{Frame, Text, refusal};

/// Longest wait for something that must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A request of one kind, and where it goes.
pub(crate) trait Ask: Clone + Debug {
    type Answer: Text;
    async fn ask(self, channel: Channel) -> Result<Self::Answer, Status>;
}

macro_rules! asks {
    ($($request:ident -> $client:ident.$method:ident -> $answer:ident;)*) => {$(
        impl Ask for $request {
            type Answer = $answer;

            async fn ask(self, channel: Channel) -> Result<$answer, Status> {
                let mut client = $client::new(channel).max_decoding_message_size(usize::MAX);
                client.$method(self).await.map(Response::into_inner)
            }
        }
    )*};
}

asks! {
    RangeRequest -> KvClient.range -> RangeResponse;
    PutRequest -> KvClient.put -> PutResponse;
    DeleteRangeRequest -> KvClient.delete_range -> DeleteRangeResponse;
    TxnRequest -> KvClient.txn -> TxnResponse;
    CompactionRequest -> KvClient.compact -> CompactionResponse;
    LeaseGrantRequest -> LeaseClient.lease_grant -> LeaseGrantResponse;
    LeaseRevokeRequest -> LeaseClient.lease_revoke -> LeaseRevokeResponse;
    LeaseTimeToLiveRequest -> LeaseClient.lease_time_to_live -> LeaseTimeToLiveResponse;
    LeaseLeasesRequest -> LeaseClient.lease_leases -> LeaseLeasesResponse;
    AlarmRequest -> MaintenanceClient.alarm -> AlarmResponse;
    StatusRequest -> MaintenanceClient.status -> StatusResponse;
    HashRequest -> MaintenanceClient.hash -> HashResponse;
    HashKvRequest -> MaintenanceClient.hash_kv -> HashKvResponse;
    MoveLeaderRequest -> MaintenanceClient.move_leader -> MoveLeaderResponse;
    MemberListRequest -> ClusterClient.member_list -> MemberListResponse;
    MemberAddRequest -> ClusterClient.member_add -> MemberAddResponse;
    MemberRemoveRequest -> ClusterClient.member_remove -> MemberRemoveResponse;
    MemberUpdateRequest -> ClusterClient.member_update -> MemberUpdateResponse;
    MemberPromoteRequest -> ClusterClient.member_promote -> MemberPromoteResponse;
    LockRequest -> LockClient.lock -> LockResponse;
    UnlockRequest -> LockClient.unlock -> UnlockResponse;
    CampaignRequest -> ElectionClient.campaign -> CampaignResponse;
    ProclaimRequest -> ElectionClient.proclaim -> ProclaimResponse;
    LeaderRequest -> ElectionClient.leader -> LeaderResponse;
    ResignRequest -> ElectionClient.resign -> ResignResponse;
}

impl Ask for LeaseKeepAliveRequest {
    type Answer = LeaseKeepAliveResponse;

    async fn ask(self, channel: Channel) -> Result<LeaseKeepAliveResponse, Status> {
        let mut answers = LeaseClient::new(channel).lease_keep_alive(tokio_stream::once(self)).await?.into_inner();
        answers.message().await?.ok_or_else(|| Status::unknown("the stream ended without an answer"))
    }
}

/// What must be answered.
pub(crate) struct Expected {
    before_3_6: String,
    since_3_6: String,
}

impl From<&str> for Expected {
    fn from(text: &str) -> Self {
        since_3_6(text, text)
    }
}

impl From<String> for Expected {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

/// What etcd 3.5 answers, and what 3.6 does: the store goes by that.
pub(crate) fn since_3_6(before: &str, since: &str) -> Expected {
    Expected { before_3_6: before.to_owned(), since_3_6: since.to_owned() }
}

/// A conversation, which began on an empty server.
pub(crate) struct Talk {
    pub(crate) channel: Channel,
    pub(crate) frame: Frame,
    /// It speaks as etcd 3.6 does.
    pub(crate) is_3_6: bool,
}

impl Talk {
    /// Connects, and empties the server.
    pub(crate) async fn begin(endpoint: &str) -> Self {
        let channel = Channel::from_shared(endpoint.to_owned()).unwrap().connect().await.unwrap();
        let status = StatusRequest {}.ask(channel.clone()).await.unwrap();
        for alarm in AlarmRequest::default().ask(channel.clone()).await.unwrap().alarms {
            let off = AlarmRequest { action: AlarmAction::Deactivate.into(), member_id: alarm.member_id, alarm: alarm.alarm };
            off.ask(channel.clone()).await.unwrap();
        }
        for lease in (LeaseLeasesRequest {}).ask(channel.clone()).await.unwrap().leases {
            LeaseRevokeRequest { id: lease.id }.ask(channel.clone()).await.unwrap();
        }
        let everything = DeleteRangeRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() };
        let emptied = everything.ask(channel.clone()).await.unwrap().header.unwrap();
        let frame = Frame { base: emptied.revision, cluster: emptied.cluster_id, member: emptied.member_id, term: status.raft_term };
        Self { channel, frame, is_3_6: !status.version.starts_with("3.5.") }
    }

    /// The server's number for a revision that is counted from the conversation's beginning.
    pub(crate) fn at(&self, revision: i64) -> i64 {
        self.frame.base + revision
    }

    /// Asks, and compares what is answered.
    pub(crate) async fn ask<R: Ask>(&self, request: R, expected: impl Into<Expected>) {
        let question = request.clone();
        let said = self.told(request).await;
        let wanted = self.wanted(expected);
        assert_eq!(said, wanted, "{:.800}", format!("{question:?}"));
    }

    /// Asks; what is answered, as text.
    pub(crate) async fn told<R: Ask>(&self, request: R) -> String {
        let question = request.clone();
        match tokio::time::timeout(PATIENCE, request.ask(self.channel.clone())).await {
            Err(_) => panic!("no answer within {PATIENCE:?} to {question:?}"),
            Ok(answered) => answered.map_or_else(|status| refusal(&status), |answer| answer.text(&self.frame)),
        }
    }

    /// Asks for what must succeed.
    pub(crate) async fn get<R: Ask>(&self, request: R) -> R::Answer {
        tokio::time::timeout(PATIENCE, request.ask(self.channel.clone())).await.expect("an answer in time").unwrap()
    }

    /// The answer to expect from this server.
    pub(crate) fn wanted(&self, expected: impl Into<Expected>) -> String {
        let Expected { before_3_6, since_3_6 } = expected.into();
        if self.is_3_6 { since_3_6 } else { before_3_6 }
    }

    /// Puts a key.
    pub(crate) async fn put(&self, key: &str, value: &str) {
        self.get(put(key, value)).await;
    }

    /// Deletes a key.
    pub(crate) async fn delete(&self, key: &str) {
        self.get(delete(key)).await;
    }

    /// Grants a lease.
    pub(crate) async fn grant(&self, id: i64, ttl: i64) {
        self.get(LeaseGrantRequest { id, ttl }).await;
    }
}

/// A put of one key.
pub(crate) fn put(key: &str, value: &str) -> PutRequest {
    PutRequest { key: key.to_owned().into(), value: value.to_owned().into(), ..Default::default() }
}

/// A read of one key.
pub(crate) fn get(key: &str) -> RangeRequest {
    RangeRequest { key: key.to_owned().into(), ..Default::default() }
}

/// A read of the keys from one to before another.
pub(crate) fn range(key: &str, end: &str) -> RangeRequest {
    RangeRequest { range_end: end.to_owned().into(), ..get(key) }
}

/// A deletion of one key.
pub(crate) fn delete(key: &str) -> DeleteRangeRequest {
    DeleteRangeRequest { key: key.to_owned().into(), ..Default::default() }
}
