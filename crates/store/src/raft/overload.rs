//! Whether this member is so far behind that it takes nothing more.

use openraft::async_runtime::watch::WatchReceiver;

use super::member::RaftNode;
use crate::refusal::Refusal;

/// Entries that are committed but not applied here, at most; etcd's.
const GAP: u64 = 5000;

impl RaftNode {
    /// Refuses a proposal while too much waits to be applied already.
    pub(super) fn check_load(&self) -> Result<(), Refusal> {
        let committed = self.raft().metrics().borrow_watched().local_committed.map_or(0, |id| id.index);
        let applied = self.inner.applied.borrow_watched().saturating_sub(1);
        check(committed, applied)
    }
}

fn check(committed: u64, applied: u64) -> Result<(), Refusal> {
    if committed > applied + GAP { Err(Refusal::TooManyRequests) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_is_far_behind_takes_nothing_more() {
        assert_eq!(check(6000, 1000), Ok(()));
        assert_eq!(check(6001, 1000), Err(Refusal::TooManyRequests));
        assert_eq!(check(0, 1000), Ok(()));
    }
}
