//! Time as an argument: logic that is tested takes a [`Clock`] or an instant, never the system's own.

use jiff::Timestamp;

/// A source of wall-clock time.
pub trait Clock: Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The machine's present moment, for edges that need no substitute.
pub fn now() -> Timestamp {
    Timestamp::now()
}
