//! Watches the database's size: over the quota, this member raises the alarm that makes all refuse what needs space.

use std::time::Duration;

use component::Shutdown;

use crate::{
    apply::alarm::Alarms,
    command::{Alarm, AlarmKind, Command},
    disk::{self, Read},
    raft::RaftNode,
};

/// How often the size is looked at; a write burst may overshoot the quota by what fits into it.
const LOOK: Duration = Duration::from_secs(1);

/// Runs until shutdown.
pub(super) async fn run(raft: RaftNode, quota: Option<u64>, stop: Shutdown) {
    let Some(quota) = quota else { return };
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        match exceeded(&raft, quota) {
            Ok(false) => {}
            Ok(true) => raise(&raft, quota).await,
            // A disk that fails here fails the next write too, and that stops the member.
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "measure the database"),
        }
    }
}

/// Over the quota, and nobody knows yet.
fn exceeded(raft: &RaftNode, quota: u64) -> disk::Result<bool> {
    let mine = (raft.identity().member_id, AlarmKind::NoSpace as i32);
    let raised = |read: &dyn Read| Alarms::read(read).map(|alarms| alarms.0.contains(&mine));
    Ok(raft.state().database().size()? > quota && !raft.state().read(|read, _| raised(read))??)
}

async fn raise(raft: &RaftNode, quota: u64) {
    tracing::warn!(quota, "the database outgrew its quota; writes that need space are refused from now on");
    let alarm = Alarm { member: raft.identity().member_id, kind: AlarmKind::NoSpace as i32, raised: true };
    if let Err(refusal) = raft.propose(Command::Alarm(alarm)).await {
        tracing::warn!(%refusal, "raise the space alarm; will try again");
    }
}
