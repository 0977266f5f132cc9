//! Disks that are slow, and that forget what was not synced when the power goes.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use super::tally::{Happening, Tally};
use crate::disk::{
    Batch, Column, Cursor, Database, Disks, Error, Home, Offload, Open, Read, Result,
    memory::{Memory, MemoryHome},
};

/// Work on a disk at its best takes no longer.
const QUICK: u64 = 2_000;

/// Both disks of a member: they outlive its processes.
pub(super) struct Drive {
    log: Arc<Memory>,
    home: Arc<MemoryHome>,
    /// Microseconds that work takes at most.
    slowness: Arc<AtomicU64>,
    dice: StdRng,
    lies: bool,
}

impl Drive {
    /// Empty. One that lies says that everything is synced, and syncs nothing.
    pub(super) fn new(mut dice: StdRng, lies: bool) -> Self {
        let slowness = Arc::new(AtomicU64::new(QUICK));
        let (longest, throws) = (slowness.clone(), Mutex::new(StdRng::seed_from_u64(dice.random())));
        let pause = move || -> futures::future::BoxFuture<'static, ()> {
            let took = throws.lock().random_range(0..=longest.load(Relaxed));
            Box::pin(tokio::time::sleep(Duration::from_micros(took)))
        };
        let offload = Offload::InPlace(Arc::new(pause));
        Self { log: Arc::new(Memory::with_offload(offload.clone())), home: Arc::new(MemoryHome::new(offload)), slowness, dice, lies }
    }

    /// Work takes up to so long from now on.
    pub(super) fn slow_down(&self, longest: Duration) {
        self.slowness.store(longest.as_micros() as u64, Relaxed);
    }

    /// Work takes no time worth mentioning from now on.
    pub(super) fn recover(&self) {
        self.slowness.store(QUICK, Relaxed);
    }

    /// What a process opens, for as long as it has power.
    pub(super) fn plug_in(&self, power: &Power) -> Open {
        let (log, home, power, lies) = (self.log.clone(), self.home.clone(), power.clone(), self.lies);
        Arc::new(move |_| {
            let log = Arc::new(Disk { database: log.clone(), power: power.clone(), lies });
            let home = Arc::new(Cabinet { home: home.clone(), power: power.clone(), lies });
            Ok(Disks { log, home })
        })
    }

    /// The power goes, or the process is killed before the system has written what it took: of what was not synced, each
    /// disk keeps as much as chance has it.
    pub(super) fn forget(&mut self, tally: &Tally) {
        for disk in [self.log.clone(), self.home.disk()] {
            let unsynced = disk.unsynced();
            let kept = self.dice.random_range(0..=unsynced);
            tally.add(Happening::BatchLost, (unsynced - kept) as u64);
            disk.crash(kept);
        }
    }
}

/// Whether a process lives: what it still does afterwards reaches no disk.
#[derive(Clone, Default)]
pub(super) struct Power(Arc<AtomicBool>);

impl Power {
    /// It lives no more.
    pub(super) fn cut(&self) {
        self.0.store(true, Relaxed);
    }

    fn check(&self) -> Result<()> {
        let gone = || Error::Io { operation: "use the disk", source: "the process is dead".into() };
        if self.0.load(Relaxed) { Err(gone()) } else { Ok(()) }
    }
}

/// A database as one process uses it.
struct Disk<D> {
    database: D,
    power: Power,
    lies: bool,
}

impl<D: std::ops::Deref<Target: Database>> Read for Disk<D> {
    fn get(&self, column: Column, key: &[u8]) -> Result<Option<bytes::Bytes>> {
        self.database.get(column, key)
    }

    fn scan<'a>(&'a self, column: Column, start: &[u8], end: Option<&[u8]>) -> Result<Box<dyn Cursor + 'a>> {
        self.database.scan(column, start, end)
    }
}

impl<D: std::ops::Deref<Target: Database> + Send + Sync + 'static> Database for Disk<D> {
    fn snapshot<'a>(&'a self) -> Box<dyn Read + 'a> {
        self.database.snapshot()
    }

    fn write(&self, batch: Batch) -> Result<()> {
        self.power.check()?;
        self.database.write(batch)
    }

    fn sync(&self) -> Result<()> {
        self.power.check()?;
        if self.lies { Ok(()) } else { self.database.sync() }
    }

    fn size(&self) -> Result<u64> {
        self.database.size()
    }

    fn size_in_use(&self) -> Result<u64> {
        self.database.size_in_use()
    }

    fn rewrite(&self) -> Result<()> {
        self.power.check()?;
        self.database.rewrite()
    }

    fn offload(&self) -> Offload {
        self.database.offload()
    }
}

/// The place of a state as one process uses it.
struct Cabinet {
    home: Arc<MemoryHome>,
    power: Power,
    lies: bool,
}

impl Home for Cabinet {
    fn current(&self) -> Arc<dyn Database> {
        Arc::new(Disk { database: self.home.disk(), power: self.power.clone(), lies: self.lies })
    }

    fn checkpoint(&self, into: &Path) -> Result<()> {
        self.power.check()?;
        self.home.checkpoint(into)
    }

    fn read_copy(&self, from: &Path) -> Result<Arc<dyn Database>> {
        self.home.read_copy(from)
    }

    fn replace(&self, from: &Path) -> Result<()> {
        self.power.check()?;
        self.home.replace(from)
    }
}
