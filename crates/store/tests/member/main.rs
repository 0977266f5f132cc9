//! Members as users run them: processes that are killed, started again, misconfigured.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod backup;
mod chaos;
mod disk;
mod failover;
mod flags;
mod maintenance;
mod membership;
mod newcomer;
mod partitions;
mod single;
mod support;
mod tls;
