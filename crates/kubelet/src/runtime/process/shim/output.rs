//! What the command writes: to the log, and to whoever is attached.

use std::{
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use super::{super::frames::Kind, attach::Clients, log::Log};
use crate::logs::format;

/// Between two looks whether output still comes.
const LOOK: Duration = Duration::from_millis(10);
/// Looks without a byte until the rest is given up.
const QUIET: u32 = 50;

/// Where output goes.
pub(super) struct Output {
    pub(super) log: Log,
    pub(super) clients: Clients,
    /// Chunks so far, and those on their way now.
    moved: AtomicUsize,
    busy: AtomicUsize,
}

impl Output {
    pub(super) fn new(log: Log) -> Self {
        Self { log, clients: Clients::default(), moved: AtomicUsize::new(0), busy: AtomicUsize::new(0) }
    }

    /// Copies one of the command's streams to its end.
    pub(super) fn copy(self: &Arc<Self>, mut stream: impl Read + Send + 'static, kind: Kind) -> JoinHandle<()> {
        let output = self.clone();
        std::thread::spawn(move || {
            let name = if kind == Kind::Stderr { "stderr" } else { "stdout" };
            let mut chunk = vec![0; format::MOST_PER_LINE];
            // A terminal whose other side is closed reads as an error, not as an end.
            while let Ok(read @ 1..) = stream.read(&mut chunk) {
                output.busy.fetch_add(1, Ordering::SeqCst);
                output.log.write(name, &chunk[..read]);
                output.clients.send(kind, &chunk[..read]);
                output.moved.fetch_add(1, Ordering::SeqCst);
                output.busy.fetch_sub(1, Ordering::SeqCst);
            }
        })
    }

    /// Waits for the copies to end. Grandchildren may hold the streams open for ever; once nothing comes, no longer.
    pub(super) fn drain(&self, copies: &[JoinHandle<()>]) {
        let (mut quiet, mut before) = (0, self.moved.load(Ordering::SeqCst));
        while quiet < QUIET && !copies.iter().all(JoinHandle::is_finished) {
            std::thread::sleep(LOOK);
            let now = self.moved.load(Ordering::SeqCst);
            quiet = if now == before && self.busy.load(Ordering::SeqCst) == 0 { quiet + 1 } else { 0 };
            before = now;
        }
    }
}
