//! The etcd v3 wire contract: generated messages and services, and a thin client.
//!
//! Features: `server` generates the service traits, `client` the service stubs and [`client::Client`].
//! Every bytes field is a [`bytes::Bytes`]: decoding shares the buffer that came off the wire.

#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod encoded;

/// What the messages and services look like: an encoded `FileDescriptorSet`.
#[cfg(feature = "server")]
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Keys, values and events.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod mvccpb {
    include!(concat!(env!("OUT_DIR"), "/mvccpb.rs"));
}

/// Users, roles and permissions.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod authpb {
    include!(concat!(env!("OUT_DIR"), "/authpb.rs"));
}

/// The services KV, Watch, Lease, Cluster, Maintenance and Auth.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod etcdserverpb {
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs"));
}

/// The Lock service.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v3lockpb {
    include!(concat!(env!("OUT_DIR"), "/v3lockpb.rs"));
}

/// The Election service.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v3electionpb {
    include!(concat!(env!("OUT_DIR"), "/v3electionpb.rs"));
}
