//! etcd 3.6's features (`server/features/etcd_features.go`), and which of them mean nothing here.

use component::gates::{Feature, Stage};

/// All of them, in etcd's order.
pub const FEATURES: &[Feature] = &[
    Feature { name: "CompactHashCheck", default: false, stage: Stage::Alpha },
    Feature { name: "InitialCorruptCheck", default: false, stage: Stage::Alpha },
    Feature { name: "LeaseCheckpoint", default: false, stage: Stage::Alpha },
    Feature { name: "LeaseCheckpointPersist", default: false, stage: Stage::Alpha },
    Feature { name: "SetMemberLocalAddr", default: false, stage: Stage::Alpha },
    Feature { name: "StopGRPCServiceOnDefrag", default: false, stage: Stage::Alpha },
    Feature { name: "TxnModeWriteWithSharedBuffer", default: true, stage: Stage::Beta },
];

/// Features that change nothing here, and why.
pub const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("LeaseCheckpointPersist", "what leases have left is always kept over restarts, as in etcd 3.6"),
    ("SetMemberLocalAddr", "the system chooses the address from which peers are reached"),
    ("StopGRPCServiceOnDefrag", "rewriting the database stops no request"),
    ("TxnModeWriteWithSharedBuffer", "reads within a transaction see the same snapshot either way"),
];
