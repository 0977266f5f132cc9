//! What clients of a store saw, and whether a store that loses, repeats and reorders nothing can have done it.
//!
//! Pure: records in, a verdict out. The truth everything is held against is the [`Log`]: the changes by revision, read
//! back when the run is over. [`calls::check`] replays it and asks of every call whether its answer is the right one and
//! came at a right time; [`watches::check`] asks of every watcher whether it was shown the log, all of it, once and in
//! order. [`followers::check`] asks the same of clients that list first and list again when history is gone. [`leases::check`] asks
//! of every lease whether it lived as long as it was promised.

pub mod calls;
pub mod followers;
pub mod leases;
mod log;
mod model;
#[cfg(test)]
mod tests;
mod violation;
pub mod watches;

pub use calls::{Answer, Call, Compare, Found, Op, Outcome, Request};
pub use followers::{Follower, Life};
pub use log::{Event, Kind, Log, Pair, Range};
pub use violation::Violation;
pub use watches::{Response, Stream, Watch};
