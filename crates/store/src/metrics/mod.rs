//! etcd's metrics: counters kept as things happen, gauges read at each scrape.

mod frames;
mod gauges;
mod table;
mod tally;

pub(crate) use frames::Frames;
pub(crate) use gauges::{register_gauges, register_label};
pub use table::Table;
pub(crate) use table::{KnownLabels, Labels};

use std::{
    ops::Deref,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use component::metrics::Registry;

/// What is counted while the member runs; clones share the numbers.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Table>);

impl Deref for Metrics {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.0
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Counts without showing.
    pub fn new() -> Self {
        Self(Arc::new(Table::new()))
    }

    /// Registers what is counted.
    pub(crate) fn register(registry: &Registry) -> Self {
        Self(Arc::new(Table::register(registry)))
    }

    /// The raft log was synced.
    pub(crate) fn wal_synced(&self, took: Duration) {
        self.wal_fsync.observe(took.as_secs_f64());
    }

    /// A step of removing compacted versions was taken.
    pub(crate) fn compaction_step(&self, took: Duration, removed: u64) {
        self.compaction_pause.observe(took.as_secs_f64() * 1000.0);
        self.compaction_keys.inc_by(removed);
    }

    /// All compacted versions are removed.
    pub(crate) fn compaction_done(&self, took: Duration) {
        self.compaction_total.observe(took.as_secs_f64() * 1000.0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.compaction_last.set(now.as_secs() as i64);
    }
}

/// One label with a member's number, as etcd writes it.
pub(crate) fn member_label(name: &'static str, id: u64) -> Labels {
    vec![(name, format!("{id:x}"))]
}
