//! The Maintenance service: what the operator asks one member.

use std::{path::PathBuf, sync::Arc, time::Instant};

use etcd::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmResponse, DefragmentRequest, DefragmentResponse, DowngradeInfo, DowngradeRequest, DowngradeResponse,
    HashKvRequest, HashKvResponse, HashRequest, HashResponse, MoveLeaderRequest, MoveLeaderResponse, SnapshotRequest, SnapshotResponse,
    StatusRequest, StatusResponse, alarm_request::AlarmAction, downgrade_request::DowngradeAction, maintenance_server,
};
use futures::stream::BoxStream;
use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Request, Response, Status};

use super::{Context, blocking, disk_status, snapshot};
use crate::{
    apply::{
        alarm::Alarms,
        downgrade::{self, MinorVersion},
    },
    backup::{
        self,
        hash::{self, Hash},
    },
    command::{Alarm, AlarmKind, Command, Downgrade},
    config::{ETCD_CLUSTER_VERSION, ETCD_VERSION},
    disk::{self, Read},
    http::alarm_name,
    raft::{RaftNode, planted},
    refusal::Refusal,
};

/// Walks over the whole state at a time; more wait.
const WALKS: usize = 2;

/// The service and what it works with.
#[derive(Clone)]
pub(crate) struct Maintenance {
    context: Context,
    raft: RaftNode,
    /// Database size at which writes are refused, in bytes.
    quota: Option<u64>,
    walks: Arc<Semaphore>,
    /// One rewriting of the database at a time.
    rewrites: Arc<Semaphore>,
}

#[allow(clippy::result_large_err)]
impl Maintenance {
    pub(crate) fn new(context: Context, raft: RaftNode, quota: Option<u64>) -> Self {
        Self { context, raft, quota, walks: Arc::new(Semaphore::new(WALKS)), rewrites: Arc::new(Semaphore::new(1)) }
    }

    /// A place to walk over the whole state.
    async fn walk(&self) -> Result<OwnedSemaphorePermit, Status> {
        self.walks.clone().acquire_owned().await.map_err(|_| Refusal::Stopped.into())
    }

    fn alarms(&self) -> Result<Alarms, Status> {
        self.raft.state().read(|read, _| Alarms::read(read)).and_then(|alarms| alarms).map_err(disk_status)
    }

    /// The raised alarms of a kind (None: of any), whoever raised them.
    fn raised(&self, kind: AlarmKind) -> Result<Vec<Alarm>, Status> {
        let wanted = |(_, number): &(u64, i32)| kind == AlarmKind::None || *number == kind as i32;
        let raised = self.alarms()?.0.into_iter().filter(wanted);
        Ok(raised.map(|(member, kind)| Alarm { member, kind, raised: true }).collect())
    }

    async fn set(&self, alarms: Vec<Alarm>) -> Result<Vec<Alarm>, Status> {
        for alarm in &alarms {
            self.raft.propose(Command::Alarm(*alarm)).await?.result?;
        }
        Ok(alarms)
    }

    /// Hashes what is there while it goes on changing.
    async fn hashed(
        &self,
        took: &Histogram,
        hash: impl FnOnce(&dyn Read, PathBuf) -> Result<Hash, backup::Error> + Send + 'static,
    ) -> Result<Hash, Status> {
        let _place = self.walk().await?;
        let (raft, start) = (self.raft.clone(), Instant::now());
        let work = move || hash(&*raft.state().database().snapshot(), raft.scratch());
        let hashed = blocking(self.raft.state(), work).await?.map_err(backup_status);
        took.observe(start.elapsed().as_secs_f64());
        hashed
    }

    fn downgrade_info(&self) -> Result<DowngradeInfo, Status> {
        let target = self.raft.state().read(|read, _| downgrade::target(read)).and_then(|target| target).map_err(disk_status)?;
        Ok(DowngradeInfo { enabled: target.is_some(), target_version: target.unwrap_or_default() })
    }

    /// The version a client means, if the cluster can go back to it.
    async fn downgrade_target(&self, version: &str) -> Result<String, Status> {
        let target: MinorVersion = version.parse().map_err(|()| Refusal::WrongDowngradeVersion)?;
        self.context.barrier(false).await?;
        match () {
            () if target != downgrade::CLUSTER_VERSION.before() => Err(Refusal::InvalidDowngradeTarget.into()),
            () if self.downgrade_info()?.enabled => Err(Refusal::DowngradeInProcess.into()),
            () => Ok(format!("{target}.0")),
        }
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

/// The answer when the state cannot be walked over.
pub(super) fn backup_status(error: backup::Error) -> Status {
    match error {
        backup::Error::Refused(refusal) => refusal.into(),
        backup::Error::Disk(error) => disk_status(error),
        error => {
            tracing::warn!(error = &error as &dyn std::error::Error, "walk over the state");
            Status::internal(format!("etcdserver: {error}"))
        }
    }
}

#[tonic::async_trait]
impl maintenance_server::Maintenance for Maintenance {
    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        let request = request.into_inner();
        let kind = AlarmKind::try_from(request.alarm).map_err(|_| Status::invalid_argument("unknown alarm"))?;
        // Answered whatever the alarms are: how else would one be taken back?
        self.raft.read_barrier().await?;
        let alarms = match AlarmAction::try_from(request.action) {
            Ok(AlarmAction::Get) => self.raised(kind)?,
            Ok(AlarmAction::Activate) if kind == AlarmKind::None => Vec::new(),
            Ok(AlarmAction::Activate) => self.set(vec![Alarm { member: request.member_id, kind: kind as i32, raised: true }]).await?,
            // As in etcd, one alarm of one member at a time: clients list them first.
            Ok(AlarmAction::Deactivate) => {
                let raised = self.raised(kind)?.into_iter().filter(|alarm| kind != AlarmKind::None && alarm.member == request.member_id);
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
        let database = self.raft.state().database();
        let bytes = |size: disk::Result<u64>| size.map(|bytes| bytes.try_into().unwrap_or(i64::MAX)).map_err(disk_status);
        Ok(Response::new(StatusResponse {
            header: self.context.header(self.raft.state().revision()),
            version: ETCD_VERSION.into(),
            db_size: bytes(database.size())?,
            leader: progress.leader,
            raft_index: progress.committed,
            raft_term: progress.term,
            raft_applied_index: progress.applied,
            errors: self.errors(progress.leader != 0)?,
            db_size_in_use: bytes(database.size_in_use())?,
            is_learner: progress.learner,
            storage_version: ETCD_CLUSTER_VERSION.into(),
            db_size_quota: self.quota.and_then(|quota| quota.try_into().ok()).unwrap_or_default(),
            downgrade_info: Some(self.downgrade_info()?),
        }))
    }

    async fn defragment(&self, _: Request<DefragmentRequest>) -> Result<Response<DefragmentResponse>, Status> {
        let _place = self.rewrites.acquire().await.map_err(|_| Status::from(Refusal::Stopped))?;
        let raft = self.raft.clone();
        let metrics = self.context.metrics.clone();
        let sizes = blocking(self.raft.state(), move || {
            let start = Instant::now();
            metrics.defrag_inflight.set(1);
            let database = raft.state().database();
            let before = database.size()?;
            let rewritten = database.rewrite();
            metrics.defrag_inflight.set(0);
            metrics.defrag.observe(start.elapsed().as_secs_f64());
            rewritten?;
            Ok((before, database.size()?))
        });
        let (before, after) = sizes.await?.map_err(disk_status)?;
        tracing::info!(before, after, "finished defragment");
        Ok(Response::new(DefragmentResponse::default()))
    }

    async fn hash(&self, _: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        let hash = |read: &dyn Read, scratch| {
            let standing = planted::standing(read).map_err(backup::Error::Standing)?;
            hash::hash_all(read, &standing, scratch)
        };
        let hashed = self.hashed(&self.context.metrics.hash, hash).await?;
        Ok(Response::new(HashResponse { header: self.context.header(hashed.revision), hash: hashed.hash }))
    }

    async fn hash_kv(&self, request: Request<HashKvRequest>) -> Result<Response<HashKvResponse>, Status> {
        let revision = request.into_inner().revision;
        let took = &self.context.metrics.hash_rev;
        let hashed = self.hashed(took, move |read, scratch| hash::hash_kv(read, revision, scratch)).await?;
        Ok(Response::new(HashKvResponse {
            header: self.context.header(self.raft.state().revision()),
            hash: hashed.hash,
            compact_revision: hashed.compacted,
            hash_revision: hashed.revision,
        }))
    }

    type SnapshotStream = BoxStream<'static, Result<SnapshotResponse, Status>>;

    async fn snapshot(&self, _: Request<SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        let place = self.walk().await?;
        Ok(Response::new(snapshot::stream(self.raft.clone(), place)))
    }

    async fn move_leader(&self, request: Request<MoveLeaderRequest>) -> Result<Response<MoveLeaderResponse>, Status> {
        self.raft.move_leader(request.into_inner().target_id).await?;
        Ok(Response::new(MoveLeaderResponse::default()))
    }

    async fn downgrade(&self, request: Request<DowngradeRequest>) -> Result<Response<DowngradeResponse>, Status> {
        let request = request.into_inner();
        match DowngradeAction::try_from(request.action) {
            Ok(DowngradeAction::Validate) => drop(self.downgrade_target(&request.version).await?),
            Ok(DowngradeAction::Enable) => {
                let target = self.downgrade_target(&request.version).await?;
                self.raft.propose(Command::Downgrade(Downgrade { target })).await?.result?;
            }
            // As in etcd, there need be none to cancel.
            Ok(DowngradeAction::Cancel) => {
                self.context.barrier(false).await?;
                if self.downgrade_info()?.enabled {
                    self.raft.propose(Command::Downgrade(Downgrade::default())).await?.result?;
                }
            }
            Err(_) => return Err(Status::invalid_argument("etcdserver: unknown method")),
        }
        let header = self.context.header(self.raft.state().revision());
        Ok(Response::new(DowngradeResponse { header, version: downgrade::CLUSTER_VERSION.to_string() }))
    }
}
