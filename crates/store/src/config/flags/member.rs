//! Flags of one member: where it keeps its data, where it listens, and its limits.

use super::{Flag, accepted, flag};
use crate::config::kind::Kind::{Bool, Signed, Text, Time, Unsigned, Urls};

const NO_BOLT: &str = "the state lies in RocksDB, not in bbolt: it is written with each batch of the log, whose size follows the load";

pub(super) const FLAGS: &[Flag] = &[
    flag("name", Text, "default", "Human-readable name for this member"),
    flag("data-dir", Text, "", "Path to the data directory; NAME.etcd when not given"),
    flag("wal-dir", Text, "", "Directory of its own for the log of consensus, on a faster disk for example"),
    flag("snapshot-count", Unsigned, "10000", "Log entries after which a snapshot is taken (one is also taken after 16 MiB of log)"),
    accepted(
        "snapshot-catchup-entries",
        Unsigned,
        "5000",
        "the log is kept back to the snapshot before the latest one, however many entries that is",
    ),
    flag("heartbeat-interval", Unsigned, "100", "Time between a leader's heartbeats, in milliseconds"),
    flag("election-timeout", Unsigned, "1000", "Time without a heartbeat after which a follower campaigns, in milliseconds"),
    accepted(
        "initial-election-tick-advance",
        Bool,
        "true",
        "a member that starts asks the others whether it may stand for election at once, and disturbs no leader by it",
    ),
    flag("listen-peer-urls", Urls, "http://localhost:2380", "URLs to listen on for peer traffic"),
    flag(
        "listen-client-urls",
        Urls,
        "http://localhost:2379",
        "URLs to listen on for client traffic; port 0 takes any free port and prints it",
    ),
    flag("listen-client-http-urls", Urls, "", "URLs to listen on for HTTP; with them --listen-client-urls are for gRPC only"),
    accepted("max-snapshots", Unsigned, "5", "there is one snapshot at a time, which takes little room besides the state"),
    accepted("max-wals", Unsigned, "5", "the log goes as soon as a snapshot holds what it says"),
    accepted("memory-mlock", Bool, "false", "memory is not locked: most of it is a cache that may as well be read again"),
    flag("quota-backend-bytes", Signed, "0", "Database size at which the space alarm is raised; 0 means 2 GiB, below 0 never"),
    accepted("backend-bbolt-freelist-type", Text, "map", NO_BOLT),
    accepted("backend-batch-interval", Time, "0s", NO_BOLT),
    accepted("backend-batch-limit", Signed, "0", NO_BOLT),
    flag("max-txn-ops", Unsigned, "128", "Most operations in one transaction"),
    flag("max-request-bytes", Unsigned, "1572864", "Largest client request"),
    flag("max-concurrent-streams", Unsigned, "4294967295", "Most streams a client may have open on one connection"),
    accepted("grpc-keepalive-min-time", Time, "5s", "clients may ask as often as they like whether the server is there"),
    flag("grpc-keepalive-interval", Time, "2h", "How often a client is asked whether it is still there; 0 for never"),
    flag("grpc-keepalive-timeout", Time, "20s", "How long it has to answer before its connection is closed"),
    flag("socket-reuse-port", Bool, "false", "Set SO_REUSEPORT on listeners, so that several processes may listen on one port"),
    accepted("socket-reuse-address", Bool, "false", "SO_REUSEADDR is set on every listener"),
    flag("enable-grpc-gateway", Bool, "true", "Serve JSON over HTTP under /v3/"),
    accepted("raft-read-timeout", Time, "5s", "a peer that says nothing is asked after two seconds and given up after four"),
    accepted("raft-write-timeout", Time, "5s", "a peer that says nothing is asked after two seconds and given up after four"),
    flag("max-learners", Signed, "1", "Members that learn only, at most"),
];
