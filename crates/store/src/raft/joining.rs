//! Joining a cluster that runs: one that was added asks the others who it is.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::timeout;
use tonic::{Request, Response, Status};

use super::{
    log_store::io_error,
    member::RaftNode,
    membership::{self, Identity},
    peers::{self, PeerTls},
    planted,
    types::Member,
    wire::{self, pb},
};
use crate::url::Url;

/// Longest wait for one address.
const ANSWER: Duration = Duration::from_secs(5);

/// Why a cluster cannot be joined.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs")]
    NobodyAnswers,
    #[error("error validating peerURLs: member count is unequal: the cluster has {existing}, --initial-cluster {listed}")]
    Count { existing: usize, listed: usize },
    #[error("error validating peerURLs: no member of --initial-cluster has those of member {id:x}: {urls}")]
    Unmatched { id: u64, urls: String },
    #[error(transparent)]
    Listed(#[from] membership::Error),
}

/// Who this member is, and all members, as the running cluster says.
pub(crate) async fn join(
    cluster: &BTreeMap<String, Vec<Url>>,
    name: &str,
    advertised: &[Url],
    tls: &PeerTls,
) -> Result<(Identity, BTreeMap<u64, Member>), Error> {
    let mine = membership::listed(cluster, name, advertised)?;
    let others = cluster.iter().filter(|(other, _)| *other != name).flat_map(|(_, urls)| urls);
    for url in others {
        match timeout(ANSWER, ask(url, tls)).await {
            Ok(Ok(response)) => return recognise(cluster, &mine, response),
            Ok(Err(status)) => tracing::warn!(%url, %status, "failed to get cluster response"),
            Err(_) => tracing::warn!(%url, "failed to get cluster response in {ANSWER:?}"),
        }
    }
    Err(Error::NobodyAnswers)
}

async fn ask(url: &Url, tls: &PeerTls) -> Result<pb::MembersResponse, Status> {
    let mut client = peers::directory(&url.to_string(), tls).await.map_err(|error| Status::unavailable(error.to_string()))?;
    let response = client.members(pb::MembersRequest {}).await?.into_inner();
    match response.members.is_empty() {
        true => Err(Status::unavailable("it has no cluster itself")),
        false => Ok(response),
    }
}

/// Matches members by their peer URLs.
fn recognise(
    cluster: &BTreeMap<String, Vec<Url>>,
    mine: &[String],
    response: pb::MembersResponse,
) -> Result<(Identity, BTreeMap<u64, Member>), Error> {
    let existing = response.members.len();
    if existing != cluster.len() {
        return Err(Error::Count { existing, listed: cluster.len() });
    }
    let (mut member_id, mut members) = (None, BTreeMap::new());
    for member in response.members {
        let id = member.id;
        let mut urls = member.peer_urls.clone();
        urls.sort();
        if !cluster.values().any(|listed| membership::sorted(listed) == urls) {
            return Err(Error::Unmatched { id, urls: urls.join(",") });
        }
        if urls == mine {
            member_id = Some(id);
        }
        members.insert(id, member.into());
    }
    let member_id = member_id.ok_or(Error::Unmatched { id: 0, urls: mine.join(",") })?;
    Ok((Identity { cluster_id: response.cluster_id, member_id }, members))
}

/// Tells whoever asks who the members are.
#[derive(Clone)]
pub(crate) struct Directory(pub(crate) RaftNode);

#[tonic::async_trait]
impl pb::directory_server::Directory for Directory {
    async fn members(&self, _: Request<pb::MembersRequest>) -> Result<Response<pb::MembersResponse>, Status> {
        let read = |error: std::io::Error| Status::unavailable(error.to_string());
        let position = self.0.state().read(|state, _| planted::members(state)).map_err(io_error).map_err(read)?;
        let members = position.map_err(read)?.iter().map(|(id, member)| wire::member(*id, member)).collect();
        Ok(Response::new(pb::MembersResponse { cluster_id: self.0.identity().cluster_id, members }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(members: &[(u64, &str)]) -> pb::MembersResponse {
        let member = |(id, url): &(u64, &str)| pb::Member { id: *id, peer_urls: vec![url.to_string()], ..Default::default() };
        pb::MembersResponse { cluster_id: 9, members: members.iter().map(member).collect() }
    }

    fn check(members: &[(u64, &str)]) -> Result<(Identity, BTreeMap<u64, Member>), Error> {
        let cluster = membership::parse_initial_cluster("a=http://h1:2380,b=http://h2:2380").unwrap();
        recognise(&cluster, &["http://h2:2380".to_owned()], response(members))
    }

    #[test]
    fn a_joining_member_knows_itself_by_its_peer_urls() {
        let (identity, members) = check(&[(7, "http://h1:2380"), (8, "http://h2:2380")]).unwrap();
        assert_eq!(identity, Identity { cluster_id: 9, member_id: 8 });
        assert_eq!(members.keys().copied().collect::<Vec<_>>(), [7, 8]);
    }

    #[test]
    fn another_cluster_than_the_listed_one_is_not_joined() {
        let error = |members: &[(u64, &str)]| check(members).unwrap_err().to_string();
        assert!(error(&[(7, "http://h1:2380")]).contains("member count is unequal"));
        assert!(error(&[(7, "http://h1:2380"), (8, "http://h3:2380")]).contains("no member of --initial-cluster has those of member 8"));
    }
}
