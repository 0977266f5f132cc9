//! bbolt's file format, as far as a snapshot of etcd needs it: written front to back in one go, read without trust.

pub mod format;
pub mod read;
pub mod write;
