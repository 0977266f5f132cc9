//! The Cluster service: who the members are, and changing that.

use std::collections::BTreeMap;

use etcd::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse, MemberPromoteRequest, MemberPromoteResponse,
    MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest, MemberUpdateResponse, ResponseHeader, cluster_server,
};
use tonic::{Request, Response, Status};

use super::{Context, disk_status};
use crate::{
    apply::member,
    command::MemberAttributes,
    raft::{
        RaftNode, membership, planted,
        reconfigure::{self, Change},
    },
    refusal::Refusal,
    url::Url,
};

/// The service and what it works with.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) context: Context,
    pub(crate) raft: RaftNode,
}

#[allow(clippy::result_large_err)]
impl Cluster {
    /// The applied membership, with what each member published of itself.
    fn members(&self) -> Result<Vec<Member>, Status> {
        let both = self.raft.state().read(|read, _| Ok((planted::members(read), member::list(read)?)));
        let (members, published) = both.and_then(|both| both).map_err(disk_status)?;
        let mut published: BTreeMap<u64, MemberAttributes> = published.into_iter().map(|member| (member.member, member)).collect();
        let members = members.map_err(|error| Status::internal(error.to_string()))?.into_iter().map(|(id, member)| {
            let attributes = published.remove(&id).unwrap_or_default();
            Member {
                id,
                // Empty until the member has started and said so: clients tell unstarted members by that.
                name: attributes.name,
                peer_ur_ls: member.peer_urls,
                client_ur_ls: attributes.client_urls,
                is_learner: member.learner,
            }
        });
        Ok(members.collect())
    }

    /// Changes the membership; who the members are then.
    async fn change(&self, change: Change) -> Result<(Option<ResponseHeader>, Vec<Member>), Status> {
        let gone = if let Change::Remove(id) = &change { Some(*id) } else { None };
        self.raft.reconfigure(change).await?;
        let mut members = self.members()?;
        // One that put itself out may not have heard that it is done.
        members.retain(|member| Some(member.id) != gone);
        Ok((self.context.header(self.raft.state().revision()), members))
    }
}

/// The URLs of a request, in order.
fn peer_urls(texts: &[String]) -> Result<Vec<Url>, Refusal> {
    let urls = texts.iter().map(|text| text.parse()).collect::<Result<Vec<Url>, _>>();
    urls.ok().filter(|urls| !urls.is_empty()).ok_or(Refusal::MemberBadUrls)
}

#[tonic::async_trait]
impl cluster_server::Cluster for Cluster {
    async fn member_list(&self, request: Request<MemberListRequest>) -> Result<Response<MemberListResponse>, Status> {
        self.context.barrier(!request.into_inner().linearizable).await?;
        let members = self.members()?;
        let header = self.context.header(self.raft.state().revision());
        Ok(Response::new(MemberListResponse { header, members }))
    }

    async fn member_add(&self, request: Request<MemberAddRequest>) -> Result<Response<MemberAddResponse>, Status> {
        let request = request.into_inner();
        let urls = peer_urls(&request.peer_ur_ls)?;
        let id = membership::fresh_member_id(&urls, rand::random());
        let added = reconfigure::newcomer(membership::sorted(&urls), request.is_learner);
        let (header, members) = self.change(Change::Add(id, added)).await?;
        let member = members.iter().find(|member| member.id == id).cloned();
        Ok(Response::new(MemberAddResponse { header, member, members }))
    }

    async fn member_remove(&self, request: Request<MemberRemoveRequest>) -> Result<Response<MemberRemoveResponse>, Status> {
        let (header, members) = self.change(Change::Remove(request.into_inner().id)).await?;
        Ok(Response::new(MemberRemoveResponse { header, members }))
    }

    async fn member_update(&self, request: Request<MemberUpdateRequest>) -> Result<Response<MemberUpdateResponse>, Status> {
        let request = request.into_inner();
        let urls = membership::sorted(&peer_urls(&request.peer_ur_ls)?);
        let (header, members) = self.change(Change::Update(request.id, urls)).await?;
        Ok(Response::new(MemberUpdateResponse { header, members }))
    }

    async fn member_promote(&self, request: Request<MemberPromoteRequest>) -> Result<Response<MemberPromoteResponse>, Status> {
        let (header, members) = self.change(Change::Promote(request.into_inner().id)).await?;
        Ok(Response::new(MemberPromoteResponse { header, members }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_urls_must_be_some_and_all_be_addresses() {
        let read = |texts: &[&str]| peer_urls(&texts.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(read(&["http://h:2380", "https://h:2380"]).unwrap().len(), 2);
        for wrong in [&[][..], &["h:2380"], &["http://h"], &["http://h:2380/path"], &["http://h:2380", "nonsense"]] {
            assert_eq!(read(wrong), Err(Refusal::MemberBadUrls), "{wrong:?}");
        }
    }
}
