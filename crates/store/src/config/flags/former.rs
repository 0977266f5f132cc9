//! Names that flags had before 3.6, and those that mean nothing since long.

use super::{Flag, Meaning, accepted};
use crate::config::kind::Kind::{self, Bool, Signed, Switch, Text, Time, Unsigned};

const fn former(name: &'static str, kind: Kind, default: &'static str, now: &'static str) -> Flag {
    Flag { name, kind, default, help: "", meaning: Meaning::Former(now) }
}

const fn gate(name: &'static str, default: &'static str, feature: &'static str) -> Flag {
    Flag { name, kind: Bool, default, help: "", meaning: Meaning::FormerGate(feature) }
}

pub(super) const NAMES: &[Flag] = &[
    former("experimental-bootstrap-defrag-threshold-megabytes", Unsigned, "0", "bootstrap-defrag-threshold-megabytes"),
    former("experimental-compact-hash-check-time", Time, "1m", "compact-hash-check-time"),
    former("experimental-compaction-batch-limit", Signed, "0", "compaction-batch-limit"),
    former("experimental-compaction-sleep-interval", Time, "0s", "compaction-sleep-interval"),
    former("experimental-corrupt-check-time", Time, "0s", "corrupt-check-time"),
    former("experimental-distributed-tracing-address", Text, "localhost:4317", "distributed-tracing-address"),
    former("experimental-distributed-tracing-instance-id", Text, "", "distributed-tracing-instance-id"),
    former("experimental-distributed-tracing-sampling-rate", Signed, "0", "distributed-tracing-sampling-rate"),
    former("experimental-distributed-tracing-service-name", Text, "etcd", "distributed-tracing-service-name"),
    former("experimental-downgrade-check-time", Time, "5s", "downgrade-check-time"),
    former("experimental-enable-distributed-tracing", Bool, "false", "enable-distributed-tracing"),
    former("experimental-max-learners", Signed, "1", "max-learners"),
    former("experimental-memory-mlock", Bool, "false", "memory-mlock"),
    former("experimental-peer-skip-client-san-verification", Bool, "false", "peer-skip-client-san-verification"),
    former("experimental-snapshot-catchup-entries", Unsigned, "5000", "snapshot-catchup-entries"),
    former("experimental-warning-apply-duration", Time, "0s", "warning-apply-duration"),
    former("experimental-warning-unary-request-duration", Time, "0s", "warning-unary-request-duration"),
    former("experimental-watch-progress-notify-interval", Time, "0s", "watch-progress-notify-interval"),
    gate("experimental-compact-hash-check-enabled", "false", "CompactHashCheck"),
    gate("experimental-enable-lease-checkpoint", "false", "LeaseCheckpoint"),
    gate("experimental-enable-lease-checkpoint-persist", "false", "LeaseCheckpointPersist"),
    gate("experimental-initial-corrupt-check", "false", "InitialCorruptCheck"),
    gate("experimental-stop-grpc-service-on-defrag", "false", "StopGRPCServiceOnDefrag"),
    gate("experimental-txn-mode-write-with-shared-buffer", "true", "TxnModeWriteWithSharedBuffer"),
];

const GONE_SINCE: &str = "etcd takes it for old scripts' sake and ignores it";

pub(super) const GONE: &[Flag] = &[
    accepted("v2-deprecation", Text, "write-only", "there is no v2 store"),
    accepted("cluster-active-size", Switch, "", GONE_SINCE),
    accepted("cluster-remove-delay", Switch, "", GONE_SINCE),
    accepted("cluster-sync-interval", Switch, "", GONE_SINCE),
    accepted("config", Switch, "", GONE_SINCE),
    accepted("force", Switch, "", GONE_SINCE),
    accepted("max-result-buffer", Switch, "", GONE_SINCE),
    accepted("max-retry-attempts", Switch, "", GONE_SINCE),
    accepted("peer-heartbeat-interval", Switch, "", GONE_SINCE),
    accepted("peer-election-timeout", Switch, "", GONE_SINCE),
    accepted("retry-interval", Switch, "", GONE_SINCE),
    accepted("snapshot", Switch, "", GONE_SINCE),
    accepted("v", Switch, "", GONE_SINCE),
    accepted("vv", Switch, "", GONE_SINCE),
    accepted("test.coverprofile", Switch, "", GONE_SINCE),
    accepted("test.outputdir", Switch, "", GONE_SINCE),
];
