//! The Election service: who is first in line leads, and says something by its key's value.

use bytes::Bytes;
use etcd::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest, ProclaimResponse, ResignRequest,
    ResignResponse, election_server::Election,
};
use futures::{StreamExt, stream, stream::BoxStream};
use tonic::{Request, Response, Status};

use super::{
    Context, convert,
    identity::Credentials,
    queue::{Place, prefix},
};
use crate::{
    command::{DeleteRange, Put, Request as Operation},
    mvcc::{KeyRange, KeyValue, key_range::prefix_end},
};

fn missing_leader() -> Status {
    Status::unknown("\"leader\" field must be provided")
}

fn not_leader() -> Status {
    Status::unknown("election: not leader")
}

impl Context {
    /// Sets what the holder of a place says; the revision.
    async fn proclaim_as(&self, who: &Credentials, key: &Bytes, created: i64, lease: i64, value: Bytes) -> Result<i64, Status> {
        let put = Operation::Put(Put { key: key.clone(), value, lease, ..Default::default() });
        let (revision, response) = self.if_created(who, key, created, Some(put), None).await?;
        if response.succeeded { Ok(revision) } else { Err(not_leader()) }
    }

    /// Who leads, as of a revision.
    async fn elected(&self, who: &Credentials, prefix: &Bytes) -> Result<(i64, Option<KeyValue>), Status> {
        let (revision, line) = self.line(who, prefix).await?;
        Ok((revision, line.into_iter().min_by_key(|kv| kv.create_revision)))
    }

    fn leader_response(&self, revision: i64, kv: KeyValue) -> LeaderResponse {
        LeaderResponse { header: self.header(revision), kv: Some(convert::key_value(kv)) }
    }

    /// The next leader, or word of the present one, after what was `said`: revision of the key, then where to go on.
    async fn next_word(&self, who: &Credentials, prefix: &Bytes, said: i64) -> Result<(i64, KeyValue), Status> {
        loop {
            let (revision, leader) = self.elected(who, prefix).await?;
            if let Some(kv) = leader.filter(|kv| kv.mod_revision != said) {
                return Ok((revision, kv));
            }
            let end = prefix_end(prefix).unwrap_or(Bytes::from_static(&[0]));
            self.wait_for_changes(vec![KeyRange::new(prefix, &end)], revision).await;
        }
    }
}

#[tonic::async_trait]
impl Election for Context {
    async fn campaign(&self, request: Request<CampaignRequest>) -> Result<Response<CampaignResponse>, Status> {
        let who = Credentials::of(&request);
        let CampaignRequest { name, lease, value } = request.into_inner();
        let place = self.enter(&who, &name, lease, value.clone()).await?;
        if place.value != value {
            self.proclaim_as(&who, &place.key, place.revision, place.lease, value).await?;
        }
        if !self.wait_turn(&who, &place).await? {
            return Err(Status::unknown("election: session is expired"));
        }
        let Place { key, lease, revision, entered, .. } = place;
        // As in etcd, however long it waited for its turn.
        let header = self.header(entered);
        Ok(Response::new(CampaignResponse { header, leader: Some(LeaderKey { name, key, rev: revision, lease }) }))
    }

    async fn proclaim(&self, request: Request<ProclaimRequest>) -> Result<Response<ProclaimResponse>, Status> {
        let who = Credentials::of(&request);
        let ProclaimRequest { leader, value } = request.into_inner();
        let leader = leader.ok_or_else(missing_leader)?;
        let revision = self.proclaim_as(&who, &leader.key, leader.rev, leader.lease, value).await?;
        Ok(Response::new(ProclaimResponse { header: self.header(revision) }))
    }

    async fn leader(&self, request: Request<LeaderRequest>) -> Result<Response<LeaderResponse>, Status> {
        let (revision, leader) = self.elected(&Credentials::of(&request), &prefix(&request.get_ref().name)).await?;
        let leader = leader.ok_or_else(|| Status::unknown("election: no leader"))?;
        Ok(Response::new(self.leader_response(revision, leader)))
    }

    type ObserveStream = BoxStream<'static, Result<LeaderResponse, Status>>;

    async fn observe(&self, request: Request<LeaderRequest>) -> Result<Response<Self::ObserveStream>, Status> {
        let (who, prefix) = (Credentials::of(&request), prefix(&request.get_ref().name));
        let words = stream::try_unfold((self.clone(), who, prefix, 0), |(context, who, prefix, said)| async move {
            let (revision, kv) = context.next_word(&who, &prefix, said).await?;
            let said = kv.mod_revision;
            Ok(Some((context.leader_response(revision, kv), (context, who, prefix, said))))
        });
        Ok(Response::new(words.boxed()))
    }

    async fn resign(&self, request: Request<ResignRequest>) -> Result<Response<ResignResponse>, Status> {
        let who = Credentials::of(&request);
        let leader = request.into_inner().leader.ok_or_else(missing_leader)?;
        let delete = Operation::DeleteRange(DeleteRange { key: leader.key.clone(), ..Default::default() });
        let (revision, _) = self.if_created(&who, &leader.key, leader.rev, Some(delete), None).await?;
        Ok(Response::new(ResignResponse { header: self.header(revision) }))
    }
}
