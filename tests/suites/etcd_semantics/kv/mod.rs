//! The KV service.

pub(crate) mod compare;
pub(crate) mod range;
pub(crate) mod txn;
pub(crate) mod write;
