//! The time of leases, which only the leader counts: asked for here, answered there.

use std::{future::Future, time::Duration};

use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Response, Status};

use super::{
    member::RaftNode,
    peers::{Client, Lane},
    wire::pb::{LeaseRequest, LeaseResponse},
};
use crate::{
    lease::renew,
    node::{LeaseTime, Node},
    refusal::Refusal,
};

/// Between attempts to find who counts.
const RETRY: Duration = Duration::from_millis(50);

/// Starts a lease's time afresh, if this member counts it.
pub(super) async fn renew_here(node: &RaftNode, id: i64) -> Result<LeaseResponse, Status> {
    let granted = renew::renew(node, id).await;
    if granted.is_ok() {
        node.metrics().leases_renewed.inc();
    }
    answer(granted.map(|seconds| (Duration::from_secs(seconds.unsigned_abs()), Duration::ZERO)))
}

/// A lease's time, if this member counts it.
pub(super) async fn time_here(node: &dyn Node, id: i64) -> Result<LeaseResponse, Status> {
    answer(renew::time(node, id).await.map(|time| (time.granted, time.remaining)))
}

/// A refusal for good is an answer; one that another member may not give is an error.
fn answer(result: Result<(Duration, Duration), Refusal>) -> Result<LeaseResponse, Status> {
    match result {
        Ok((granted, remaining)) => {
            Ok(LeaseResponse { granted_millis: granted.as_millis() as u64, remaining_millis: remaining.as_millis() as u64, refusal: None })
        }
        Err(Refusal::LeaseNotFound) => Ok(LeaseResponse { refusal: Some(Refusal::LeaseNotFound as i32), ..Default::default() }),
        Err(refusal) => Err(Status::new(Code::Unavailable, refusal.text())),
    }
}

impl RaftNode {
    /// See [`Node::lease_renew`]; the granted seconds.
    pub(crate) async fn renew_lease(&self, id: i64) -> Result<i64, Refusal> {
        let ask = async |mut client: Client| client.lease_renew(LeaseRequest { id }).await;
        let response = self.ask_leader(async || renew_here(self, id).await, ask).await?;
        Ok((response.granted_millis / 1000) as i64)
    }

    /// See [`Node::lease_time`].
    pub(crate) async fn time_of_lease(&self, id: i64) -> Result<LeaseTime, Refusal> {
        let ask = async |mut client: Client| client.lease_time(LeaseRequest { id }).await;
        let response = self.ask_leader(async || time_here(self, id).await, ask).await?;
        let millis = Duration::from_millis;
        Ok(LeaseTime { granted: millis(response.granted_millis), remaining: millis(response.remaining_millis) })
    }

    /// Asks whoever leads until it answers. Safe to repeat: a second answer is as good as the first.
    async fn ask_leader<Here, There>(&self, here: impl Fn() -> Here, there: impl Fn(Client) -> There) -> Result<LeaseResponse, Refusal>
    where
        Here: Future<Output = Result<LeaseResponse, Status>>,
        There: Future<Output = Result<Response<LeaseResponse>, Status>>,
    {
        let attempts = async {
            loop {
                let leader = self.leadership().wait().await;
                let id = leader.id.node_id;
                let answer = if self.leadership().is_mine(&leader) {
                    here().await
                } else {
                    match self.peers().client(id, &leader.member, Lane::Log).await {
                        Ok(client) => there(client).await.map(Response::into_inner),
                        Err(error) => Err(Status::new(Code::Unavailable, error.to_string())),
                    }
                };
                match answer {
                    Ok(response) => return response,
                    Err(status) => tracing::debug!(%status, "ask the leader for a lease"),
                }
                self.peers().forget(id, Lane::Log);
                sleep(RETRY).await;
            }
        };
        let response = timeout_at(Instant::now() + self.patience(), attempts).await.map_err(|_| Refusal::Timeout)?;
        match response.refusal {
            Some(number) => Err(Refusal::try_from(number).unwrap_or(Refusal::Unknown)),
            None => Ok(response),
        }
    }
}
