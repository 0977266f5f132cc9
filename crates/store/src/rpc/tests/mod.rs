//! The services over a single local member, through the client: what a user of the wire sees.

mod any_bytes;
mod auth;
mod kv;
mod lease;
mod local;
mod queue;
mod range_stream;
mod watch;
