//! Members as users run them: processes that are killed, started again, misconfigured.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod auth;
mod backup;
mod chaos;
mod connections;
mod corruption;
mod damage;
mod disk;
mod failover;
mod flags;
mod known_bugs;
mod leases;
mod limits;
mod maintenance;
mod membership;
mod metrics;
mod newcomer;
mod partitions;
mod single;
mod support;
mod tls;
mod upkeep;
mod writer;
