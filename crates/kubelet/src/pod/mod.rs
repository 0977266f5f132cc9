//! One pod: its worker, the pure decisions behind it, and the steps that carry them out.

pub(crate) mod admit;
pub(crate) mod backoff;
pub(crate) mod conditions;
pub(crate) mod create;
pub(crate) mod env;
pub(crate) mod facts;
pub(crate) mod fields;
#[cfg(test)]
mod fixture;
pub(crate) mod hooks;
pub(crate) mod images;
pub(crate) mod kill;
mod phase;
pub(crate) mod plan;
pub(crate) mod qos;
pub(crate) mod security;
pub(crate) mod services;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod worker;
