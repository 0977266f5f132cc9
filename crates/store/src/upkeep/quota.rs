//! The database's quota. A request that does not fit any more is refused at the door and raises the alarm that makes
//! all members refuse what needs space; writes through other members that make this one's database outgrow its quota
//! raise it too.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use component::Shutdown;
use parking_lot::Mutex;

use crate::{
    apply::alarm::Alarms,
    command::{Alarm, AlarmKind, Command, Op, Put, Request, Txn},
    disk::{self, Database, Read},
    node::Node,
    refusal::Refusal,
};

/// How often the size is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A measured size is good for so long: measuring costs more than a write.
const FRESH: Duration = Duration::from_millis(100);
/// What a lease takes; etcd's estimate.
pub(crate) const LEASE: u64 = 64;
/// What a version takes beside key and value; etcd's estimate.
const VERSION: u64 = 256;

/// The room a database has under its quota; clones share what was measured.
#[derive(Clone, Default)]
pub struct Space {
    /// In bytes; none for no limit.
    quota: Option<u64>,
    measured: Arc<Mutex<Option<Measured>>>,
}

struct Measured {
    at: Instant,
    size: u64,
    /// Estimated bytes of requests let in since.
    since: u64,
}

impl Space {
    /// Under a quota.
    pub fn new(quota: Option<u64>) -> Self {
        Space { quota, measured: Arc::default() }
    }

    /// Lets a request in that takes so many bytes, if they fit.
    ///
    /// # Errors
    /// The database cannot be measured.
    pub fn admits(&self, database: &dyn Database, bytes: u64) -> disk::Result<bool> {
        let Some(quota) = self.quota.filter(|_| bytes > 0) else { return Ok(true) };
        let mut measured = self.measured.lock();
        let known = measured.take().filter(|known| known.at.elapsed() < FRESH);
        let mut known = match known {
            Some(known) => known,
            None => Measured { at: Instant::now(), size: database.size()?, since: 0 },
        };
        let fits = |known: &Measured| known.size + known.since + bytes < quota;
        // Space may just have been given back: what does not fit by an earlier measure is measured against the present.
        if !fits(&known) {
            known.size = database.size()?;
        }
        let fits = fits(&known);
        known.since += if fits { bytes } else { 0 };
        *measured = Some(known);
        Ok(fits)
    }
}

/// What a put takes, about, in bytes.
pub(crate) fn of_put(put: &Put) -> u64 {
    VERSION + (put.key.len() + put.value.len()) as u64
}

/// What a transaction takes at most. As in etcd, puts of nested ones are not looked at.
pub(crate) fn of_txn(txn: &Txn) -> u64 {
    let of = |op: &Op| if let Some(Request::Put(put)) = &op.request { of_put(put) } else { 0 };
    let branch = |ops: &[Op]| ops.iter().map(of).sum::<u64>();
    branch(&txn.success).max(branch(&txn.failure))
}

/// The alarm of this member is raised.
fn raised(node: &dyn Node) -> disk::Result<bool> {
    let mine = (node.identity().member, AlarmKind::NoSpace as i32);
    let raised = |read: &dyn Read| Alarms::read(read).map(|alarms| alarms.0.contains(&mine));
    node.state().read(|read, _| raised(read))?
}

async fn set(node: &dyn Node, raised: bool) -> Result<(), Refusal> {
    let alarm = Alarm { member: node.identity().member, kind: AlarmKind::NoSpace as i32, raised };
    node.propose(Command::Alarm(alarm)).await?.result.map(drop)
}

/// Raises the alarm, unless it is.
pub(crate) async fn raise(node: &dyn Node) -> disk::Result<()> {
    if raised(node)? {
        return Ok(());
    }
    tracing::warn!("the database outgrew its quota; writes that need space are refused from now on");
    if let Err(refusal) = set(node, true).await {
        tracing::warn!(%refusal, "raise the space alarm; will try again");
    }
    Ok(())
}

/// A larger quota is more than etcd recommends, in bytes.
const RECOMMENDED: u64 = 8 << 30;

fn announce(quota: Option<u64>) {
    match quota {
        None => tracing::info!("disabled backend quota"),
        Some(quota) if quota > RECOMMENDED => tracing::warn!(quota, recommended = RECOMMENDED, "quota exceeds the maximum value"),
        Some(quota) => tracing::info!(quota, "enabled backend quota"),
    }
}

/// Runs until shutdown. With `disarms`, the alarm of this member is cleared once there is space again.
pub(crate) async fn run(node: Arc<dyn Node>, quota: Option<u64>, disarms: bool, stop: Shutdown) {
    announce(quota);
    let Some(quota) = quota else { return };
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        if let Err(error) = look(&*node, quota, disarms).await {
            // A disk that fails here fails the next write too, and that stops the member.
            tracing::warn!(error = &error as &dyn std::error::Error, "measure the database");
        }
    }
}

async fn look(node: &dyn Node, quota: u64, disarms: bool) -> disk::Result<()> {
    let size = node.state().database().size()?;
    if size > quota {
        return raise(node).await;
    }
    if disarms && size < quota / 10 * 9 && raised(node)? {
        tracing::info!(size, quota, "the database has space again: clearing the space alarm");
        if let Err(refusal) = set(node, false).await {
            tracing::warn!(%refusal, "clear the space alarm; will try again");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        command::DeleteRange,
        disk::{Batch, Column, memory::Memory},
    };

    fn database(bytes: usize) -> Memory {
        let memory = Memory::new();
        let mut batch = Batch::default();
        batch.put(Column::Current, "", vec![0; bytes]);
        memory.write(batch).unwrap();
        memory
    }

    #[test]
    fn what_was_let_in_counts_before_it_is_measured() {
        let (database, space) = (database(500), Space::new(Some(1000)));
        let admits = |bytes| space.admits(&database, bytes).unwrap();
        assert!(admits(300));
        assert!(!admits(200), "no room is left but for 199");
        assert!(admits(199));
        assert!(admits(0), "what takes no space is none of the quota's");
        assert!(!admits(1));
    }

    #[test]
    fn space_that_is_given_back_is_there_at_once() {
        let (database, space) = (database(900), Space::new(Some(1000)));
        assert!(!space.admits(&database, 200).unwrap());
        let mut batch = Batch::default();
        batch.put(Column::Current, "", vec![0; 100]);
        database.write(batch).unwrap();
        assert!(space.admits(&database, 200).unwrap());
    }

    #[test]
    fn no_quota_admits_everything() {
        assert!(Space::new(None).admits(&database(500), u64::MAX).unwrap());
    }

    #[test]
    fn a_transaction_takes_what_its_larger_branch_puts() {
        let put =
            |size: usize| Op { request: Some(Request::Put(Put { key: "k".into(), value: vec![0; size].into(), ..Default::default() })) };
        let delete = Op { request: Some(Request::DeleteRange(DeleteRange::default())) };
        let txn = Txn { success: vec![put(10), put(20), delete.clone()], failure: vec![put(100)], ..Default::default() };
        assert_eq!(of_txn(&txn), 2 * 257 + 30);
        assert_eq!(of_txn(&Txn { success: vec![delete], ..Default::default() }), 0);
    }
}
