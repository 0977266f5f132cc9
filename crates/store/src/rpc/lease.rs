//! The Lease service.

use super::{Context, disk_status, identity::Credentials, status};
use crate::{
    apply::lease,
    auth::Access,
    command::{Command, LeaseGrant, LeaseRevoke, Response as Answer},
    disk::Read,
    mvcc::{self, Revisions},
    node::LeaseTime,
    refusal::Refusal,
    upkeep::quota,
};
use etcd::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest, LeaseLeasesResponse,
    LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, lease_server::Lease,
};
use futures::{StreamExt, stream::BoxStream};
use rand::Rng;
use std::time::Duration;
use tonic::{Request, Response, Status, Streaming};

/// Keep-alives of one stream worked on at once.
const KEEP_ALIVES: usize = 32;

#[tonic::async_trait]
impl Lease for Context {
    async fn lease_grant(&self, request: Request<LeaseGrantRequest>) -> Result<Response<LeaseGrantResponse>, Status> {
        let who = Credentials::of(&request);
        let LeaseGrantRequest { ttl, id } = request.into_inner();
        self.admit(quota::LEASE).await?;
        // Chosen here, not when applied: that must not roll dice.
        let id = if id == 0 { rand::rng().random_range(1..i64::MAX) } else { id };
        let grant = LeaseGrant { id, ttl: ttl.max(self.limits.min_lease_ttl) };
        match self.propose_for(&who, Command::LeaseGrant(grant)).await? {
            (revision, Answer::LeaseGrant(LeaseGrant { id, ttl })) => {
                let header = self.header(revision);
                Ok(Response::new(LeaseGrantResponse { header, id, ttl, error: String::new() }))
            }
            _ => Err(Refusal::Unknown.into()),
        }
    }

    async fn lease_revoke(&self, request: Request<LeaseRevokeRequest>) -> Result<Response<LeaseRevokeResponse>, Status> {
        let revoke = LeaseRevoke { id: request.get_ref().id, expired_in: 0 };
        let (revision, _) = self.propose_for(&Credentials::of(&request), Command::LeaseRevoke(revoke)).await?;
        Ok(Response::new(LeaseRevokeResponse { header: self.header(revision) }))
    }

    type LeaseKeepAliveStream = BoxStream<'static, Result<LeaseKeepAliveResponse, Status>>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let (context, who) = (self.clone(), Credentials::of(&request));
        let answers = request.into_inner().map(move |request| {
            let (context, who) = (context.clone(), who.clone());
            async move { context.keep_alive(&who, request?.id).await }
        });
        Ok(Response::new(answers.buffered(KEEP_ALIVES).boxed()))
    }

    async fn lease_time_to_live(&self, request: Request<LeaseTimeToLiveRequest>) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        let asked = self.asked(&Credentials::of(&request)).await?;
        let LeaseTimeToLiveRequest { id, keys } = request.into_inner();
        let time = match self.node.lease_time(id).await {
            Err(Refusal::LeaseNotFound) => {
                let header = self.header(self.node.state().revision());
                return Ok(Response::new(LeaseTimeToLiveResponse { header, id, ttl: -1, ..Default::default() }));
            }
            time => time?,
        };
        let held = |read: &dyn Read, revisions: Revisions| -> mvcc::Result<_> {
            if !keys {
                return Ok((Vec::new(), revisions.current));
            }
            asked.may_with_lease(read, id, Access::Read)?;
            Ok((lease::keys(read, id)?, revisions.current))
        };
        let (keys, revision) = self.node.state().read(held).map_err(disk_status)?.map_err(status)?;
        self.unchanged(&asked)?;
        let LeaseTime { granted, remaining } = time;
        let (ttl, granted_ttl) = (remaining.as_secs() as i64, granted.as_secs() as i64);
        Ok(Response::new(LeaseTimeToLiveResponse { header: self.header(revision), id, ttl, granted_ttl, keys }))
    }

    async fn lease_leases(&self, request: Request<LeaseLeasesRequest>) -> Result<Response<LeaseLeasesResponse>, Status> {
        self.barrier(false).await?;
        let asked = self.asked(&Credentials::of(&request)).await?;
        asked.named()?;
        let list = |read: &dyn Read, revisions: Revisions| -> mvcc::Result<_> {
            let leases = lease::list(read)?;
            leases.iter().try_for_each(|(id, _)| asked.may_with_lease(read, *id, Access::Read))?;
            Ok((leases, revisions.current))
        };
        let (mut leases, revision) = self.node.state().read(list).map_err(disk_status)?.map_err(status)?;
        self.unchanged(&asked)?;
        // As in etcd, whichever ends first comes first, where that is known.
        self.node.state().with_lessor(|lessor, now| leases.sort_by_key(|(id, _)| lessor.remaining(*id, now).map(|time| time.left)));
        let leases = leases.into_iter().map(|(id, _)| LeaseStatus { id }).collect();
        Ok(Response::new(LeaseLeasesResponse { header: self.header(revision), leases }))
    }
}

impl Context {
    /// A lease that is gone is not an error: it has no time left.
    async fn keep_alive(&self, who: &Credentials, id: i64) -> Result<LeaseKeepAliveResponse, Status> {
        let asked = self.asked(who).await?;
        if asked.enabled() {
            let may = self.node.state().read(|read, _| asked.may_with_lease(read, id, Access::Write));
            may.map_err(disk_status)?.map_err(status)?;
        }
        let ttl = match self.node.lease_renew(id).await {
            Err(Refusal::LeaseNotFound) => 0,
            ttl => ttl?,
        };
        Ok(LeaseKeepAliveResponse { header: self.header(self.node.state().revision()), id, ttl })
    }
}

/// Shortest lease for an election timeout, in seconds, as etcd has it.
pub fn min_ttl(election_timeout: Duration) -> i64 {
    election_timeout.mul_f64(1.5).as_secs_f64().ceil() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_outlives_an_election() {
        assert_eq!(min_ttl(Duration::from_millis(1000)), 2);
        assert_eq!(min_ttl(Duration::from_millis(100)), 1);
    }
}
