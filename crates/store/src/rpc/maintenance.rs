//! The Maintenance service: what the operator asks one member.

use etcd::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmResponse, DefragmentRequest, DefragmentResponse, DowngradeRequest, DowngradeResponse, HashKvRequest,
    HashKvResponse, HashRequest, HashResponse, MoveLeaderRequest, MoveLeaderResponse, SnapshotRequest, SnapshotResponse, StatusRequest,
    StatusResponse, alarm_request::AlarmAction, maintenance_server,
};
use futures::stream::BoxStream;
use tonic::{Request, Response, Status};

use super::{Context, blocking, disk_status, status};
use crate::{
    apply::alarm::Alarms,
    command::{Alarm, AlarmKind, Command},
    config::{ETCD_CLUSTER_VERSION, ETCD_VERSION},
    http::alarm_name,
    mvcc::hash,
    raft::RaftNode,
    refusal::Refusal,
};

/// The service and what it works with.
#[derive(Clone)]
pub(crate) struct Maintenance {
    pub(crate) context: Context,
    pub(crate) raft: RaftNode,
    /// Database size at which writes are refused, in bytes.
    pub(crate) quota: Option<u64>,
}

#[allow(clippy::result_large_err)]
impl Maintenance {
    fn alarms(&self) -> Result<Alarms, Status> {
        self.raft.state().read(|read, _| Alarms::read(read)).and_then(|alarms| alarms).map_err(disk_status)
    }

    /// The raised alarms of a member (0: of all) and kind (None: of any).
    fn raised(&self, member: u64, kind: AlarmKind) -> Result<Vec<Alarm>, Status> {
        let wanted = |(id, number): &(u64, i32)| (member == 0 || *id == member) && (kind == AlarmKind::None || *number == kind as i32);
        let raised = self.alarms()?.0.into_iter().filter(wanted);
        Ok(raised.map(|(member, kind)| Alarm { member, kind, raised: true }).collect())
    }

    async fn set(&self, alarms: Vec<Alarm>) -> Result<Vec<Alarm>, Status> {
        for alarm in &alarms {
            self.raft.propose(Command::Alarm(*alarm)).await?.result?;
        }
        Ok(alarms)
    }

    async fn hash(&self, revision: i64) -> Result<hash::Hash, Status> {
        let state = self.raft.state().clone();
        let hashed = blocking(move || state.read(|read, _| hash::hash(read, revision))).await?;
        hashed.map_err(disk_status)?.map_err(status)
    }

    fn errors(&self, has_leader: bool) -> Result<Vec<String>, Status> {
        let alarms = self.alarms()?.0.into_iter().map(|(member, kind)| {
            let name = AlarmKind::try_from(kind).map_or("UNKNOWN", alarm_name);
            format!("memberID:{member} alarm:{name} ")
        });
        let leader = (!has_leader).then(|| Refusal::NoLeader.text().to_owned());
        Ok(leader.into_iter().chain(alarms).collect())
    }
}

#[tonic::async_trait]
impl maintenance_server::Maintenance for Maintenance {
    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        let request = request.into_inner();
        let kind = AlarmKind::try_from(request.alarm).map_err(|_| Status::invalid_argument("unknown alarm"))?;
        let alarms = match AlarmAction::try_from(request.action) {
            Ok(AlarmAction::Get) => self.raised(request.member_id, kind)?,
            Ok(AlarmAction::Activate) if kind == AlarmKind::None => Vec::new(),
            Ok(AlarmAction::Activate) => self.set(vec![Alarm { member: request.member_id, kind: kind as i32, raised: true }]).await?,
            Ok(AlarmAction::Deactivate) => {
                let raised = self.raised(request.member_id, kind)?.into_iter();
                self.set(raised.map(|alarm| Alarm { raised: false, ..alarm }).collect()).await?
            }
            Err(_) => return Err(Status::invalid_argument("unknown alarm action")),
        };
        let alarms = alarms.into_iter().map(|alarm| AlarmMember { member_id: alarm.member, alarm: alarm.kind });
        let header = self.context.header(self.raft.state().revision());
        Ok(Response::new(AlarmResponse { header, alarms: alarms.collect() }))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let progress = self.raft.progress();
        let size = self.raft.state().database().size().map_err(disk_status)?.try_into().unwrap_or(i64::MAX);
        Ok(Response::new(StatusResponse {
            header: self.context.header(self.raft.state().revision()),
            version: ETCD_VERSION.into(),
            db_size: size,
            leader: progress.leader,
            raft_index: progress.committed,
            raft_term: progress.term,
            raft_applied_index: progress.applied,
            errors: self.errors(progress.leader != 0)?,
            db_size_in_use: size,
            is_learner: progress.learner,
            storage_version: ETCD_CLUSTER_VERSION.into(),
            db_size_quota: self.quota.and_then(|quota| quota.try_into().ok()).unwrap_or_default(),
            downgrade_info: None,
        }))
    }

    async fn defragment(&self, _: Request<DefragmentRequest>) -> Result<Response<DefragmentResponse>, Status> {
        Err(Status::unimplemented("etcdserver: this store reclaims space by itself; there is nothing to defragment"))
    }

    async fn hash(&self, _: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        let hashed = self.hash(0).await?;
        Ok(Response::new(HashResponse { header: self.context.header(hashed.revision), hash: hashed.hash }))
    }

    async fn hash_kv(&self, request: Request<HashKvRequest>) -> Result<Response<HashKvResponse>, Status> {
        let hashed = self.hash(request.into_inner().revision).await?;
        Ok(Response::new(HashKvResponse {
            header: self.context.header(self.raft.state().revision()),
            hash: hashed.hash,
            compact_revision: hashed.compacted,
            hash_revision: hashed.revision,
        }))
    }

    type SnapshotStream = BoxStream<'static, Result<SnapshotResponse, Status>>;

    async fn snapshot(&self, _: Request<SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(Status::unimplemented("etcdserver: snapshots over the network are not supported by this store yet"))
    }

    async fn move_leader(&self, request: Request<MoveLeaderRequest>) -> Result<Response<MoveLeaderResponse>, Status> {
        self.raft.move_leader(request.into_inner().target_id).await?;
        Ok(Response::new(MoveLeaderResponse { header: self.context.header(self.raft.state().revision()) }))
    }

    async fn downgrade(&self, _: Request<DowngradeRequest>) -> Result<Response<DowngradeResponse>, Status> {
        Err(Status::unimplemented("etcdserver: this store has no earlier version to go back to"))
    }
}
