//! Container logs: CRI's file format, reading, rotation.

pub(crate) mod format;
pub(crate) mod options;
pub(crate) mod read;
pub(crate) mod rotate;
