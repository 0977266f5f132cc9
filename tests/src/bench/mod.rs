//! What the programs that measure share: clients under load, latencies, what processes use.

mod histogram;
mod load;
mod usage;

pub use histogram::Histogram;
pub use load::{Client, Measured, Phase, Times, closed_loop, dice, noise, spent};
pub use usage::{Usage, disk, of as usage};
