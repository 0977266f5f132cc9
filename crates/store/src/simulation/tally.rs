//! What happened in a simulation: a run in which nothing goes wrong proves nothing.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happening {
    /// A message arrives.
    Message,
    /// One has to be sent again by the transport.
    MessageLost,
    /// One of consensus arrives twice.
    MessageRepeated,
    /// A connection breaks.
    BrokenConnection,
    /// Members are parted from each other.
    Partition,
    /// Messages of some to others are lost, answers are not.
    OneWayCut,
    /// A process is killed.
    Kill,
    /// A machine loses its power.
    PowerLoss,
    /// A member is told to stop.
    CleanStop,
    /// A process is killed while it starts.
    CrashStarting,
    /// A process is killed while it stops.
    CrashStopping,
    /// A process is killed while it takes over a snapshot.
    CrashInstalling,
    /// A crash takes a batch of writes.
    BatchLost,
    /// A disk becomes slow.
    SlowDisk,
    /// A disk does nothing for seconds.
    StalledDisk,
    /// The leadership is handed on.
    Transfer,
    /// A member's clock jumps.
    ClockJump,
    /// Another member takes the place of one.
    Exchange,
    /// A member that stayed behind is sent a snapshot.
    Snapshot,
    /// History is given up.
    Compaction,
    /// A watcher has to list because history is gone.
    Relisted,
    /// A client's lease is followed to its end.
    Lease,
    /// A client's write is acknowledged.
    Acknowledged,
    /// A client never learns what became of its write.
    Unknown,
}

impl Happening {
    /// All there are.
    pub(super) const ALL: [Self; 24] = [
        Self::Message,
        Self::MessageLost,
        Self::MessageRepeated,
        Self::BrokenConnection,
        Self::Partition,
        Self::OneWayCut,
        Self::Kill,
        Self::PowerLoss,
        Self::CleanStop,
        Self::CrashStarting,
        Self::CrashStopping,
        Self::CrashInstalling,
        Self::BatchLost,
        Self::SlowDisk,
        Self::StalledDisk,
        Self::Transfer,
        Self::ClockJump,
        Self::Exchange,
        Self::Snapshot,
        Self::Compaction,
        Self::Relisted,
        Self::Lease,
        Self::Acknowledged,
        Self::Unknown,
    ];
}

/// How often what happened.
pub(super) type Counts = BTreeMap<Happening, u64>;

/// Counts; clones share them.
#[derive(Clone, Default)]
pub(super) struct Tally(Arc<Mutex<Counts>>);

impl Tally {
    /// It happened.
    pub(super) fn count(&self, what: Happening) {
        self.add(what, 1);
    }

    /// It happened so often.
    pub(super) fn add(&self, what: Happening, times: u64) {
        *self.0.lock().entry(what).or_default() += times;
    }

    /// The counts by now.
    pub(super) fn counts(&self) -> Counts {
        self.0.lock().clone()
    }
}
