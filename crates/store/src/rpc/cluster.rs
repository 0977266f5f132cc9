//! The Cluster service: who the members are.

use std::collections::BTreeMap;

use etcd::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse, MemberPromoteRequest, MemberPromoteResponse,
    MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest, MemberUpdateResponse, cluster_server,
};
use tonic::{Request, Response, Status};

use super::{Context, disk_status};
use crate::{apply::member, command::MemberAttributes, raft::RaftNode};

/// The service and what it works with.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) context: Context,
    pub(crate) raft: RaftNode,
}

impl Cluster {
    /// The replicated membership, with what each member published of itself.
    #[allow(clippy::result_large_err)]
    fn members(&self) -> Result<Vec<Member>, Status> {
        let published = self.raft.state().read(|read, _| member::list(read)).and_then(|list| list);
        let published = published.map_err(disk_status)?.into_iter();
        let mut published: BTreeMap<u64, MemberAttributes> = published.map(|member| (member.member, member)).collect();
        let members = self.raft.members().into_iter().map(|(id, member, is_learner)| {
            let attributes = published.remove(&id).unwrap_or_default();
            Member {
                id,
                // Empty until the member has started and said so: clients tell unstarted members by that.
                name: attributes.name,
                peer_ur_ls: member.peer_urls,
                client_ur_ls: attributes.client_urls,
                is_learner,
            }
        });
        Ok(members.collect())
    }
}

/// Membership is fixed for now.
fn fixed<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("etcdserver: changing the membership is not supported by this store yet"))
}

#[tonic::async_trait]
impl cluster_server::Cluster for Cluster {
    async fn member_list(&self, request: Request<MemberListRequest>) -> Result<Response<MemberListResponse>, Status> {
        self.context.barrier(!request.into_inner().linearizable).await?;
        let members = self.members()?;
        let header = self.context.header(self.raft.state().revision());
        Ok(Response::new(MemberListResponse { header, members }))
    }

    async fn member_add(&self, _: Request<MemberAddRequest>) -> Result<Response<MemberAddResponse>, Status> {
        fixed()
    }

    async fn member_remove(&self, _: Request<MemberRemoveRequest>) -> Result<Response<MemberRemoveResponse>, Status> {
        fixed()
    }

    async fn member_update(&self, _: Request<MemberUpdateRequest>) -> Result<Response<MemberUpdateResponse>, Status> {
        fixed()
    }

    async fn member_promote(&self, _: Request<MemberPromoteRequest>) -> Result<Response<MemberPromoteResponse>, Status> {
        fixed()
    }
}
