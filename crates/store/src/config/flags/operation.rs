//! Flags of watching over a member, and of what it does to keep itself.

use super::{Flag, accepted, flag, refused};
use crate::config::kind::Kind::{Bool, OneOf, Signed, Text, Time, Unsigned, Urls, Words};

const NO_TRACES: &str = "no traces are exported; slow requests are logged with where their time went";
const NO_ROTATION: &str = "log files are not rotated here; logrotate with copytruncate does it";
/// etcd stops at any other level, too.
const LEVELS: &[&str] = &["debug", "info", "warn", "error", "dpanic", "panic", "fatal"];

pub(super) const MONITORING: &[Flag] = &[
    accepted("enable-pprof", Bool, "false", "profiles of a Go program; perf and other tools of the system see into this one"),
    flag("metrics", Text, "basic", "Detail of the metrics: `extensive` adds histograms of how long calls take"),
    flag("listen-metrics-urls", Urls, "", "Further URLs for /metrics and the health endpoints"),
    accepted("enable-distributed-tracing", Bool, "false", NO_TRACES),
    accepted("distributed-tracing-address", Text, "localhost:4317", NO_TRACES),
    accepted("distributed-tracing-service-name", Text, "etcd", NO_TRACES),
    accepted("distributed-tracing-instance-id", Text, "", NO_TRACES),
    accepted("distributed-tracing-sampling-rate", Signed, "0", NO_TRACES),
    flag("warning-apply-duration", Time, "100ms", "Applying a request or reading that takes longer is logged"),
    flag("warning-unary-request-duration", Time, "300ms", "A unary request that takes longer is logged"),
];

pub(super) const LOGGING: &[Flag] = &[
    refused("logger", Text, "zap", "there is one kind of log, in the form that --log-format says; write zap or nothing"),
    flag("log-outputs", Words, "default", "Where the log goes: default, stderr, stdout or files"),
    flag("log-level", OneOf(LEVELS), "info", "debug, info, warn, error, panic or fatal"),
    flag("log-format", Text, "json", "json, one object a line as etcd writes it, or console, for people"),
    accepted("enable-log-rotation", Bool, "false", NO_ROTATION),
    accepted(
        "log-rotation-config-json",
        Text,
        r#"{"maxsize": 100, "maxage": 0, "maxbackups": 0, "localtime": false, "compress": false}"#,
        NO_ROTATION,
    ),
];

pub(super) const UPKEEP: &[Flag] = &[
    flag("corrupt-check-time", Time, "0s", "Time between two comparisons of all members' data; 0 for none"),
    flag("compact-hash-check-time", Time, "1m", "Time between two comparisons of the data at compacted revisions"),
    flag("compaction-batch-limit", Signed, "0", "Most changes looked at in one step of removing what was compacted; 0 means 1000"),
    flag("compaction-sleep-interval", Time, "0s", "Rest between two such steps; 0 means 10ms"),
    flag("watch-progress-notify-interval", Time, "0s", "Time between progress notifications of idle watches; 0 means 10m"),
    flag(
        "bootstrap-defrag-threshold-megabytes",
        Unsigned,
        "0",
        "Rewrite the database at start when that frees so many megabytes; 0 for never",
    ),
    accepted("downgrade-check-time", Time, "5s", "what version the members speak is seen with every message"),
    flag("feature-gates", Text, "", "Features to switch on or off, `Name=true|false,…`"),
    flag(
        "quota-auto-disarm",
        Bool,
        "false",
        "Let the space alarm of this member clear itself once its database is below 90 % of the quota (not in etcd)",
    ),
];

pub(super) const UNSAFE: &[Flag] = &[
    flag(
        "force-new-cluster",
        Bool,
        "false",
        "Make what this member has a cluster of it alone; for when the others are lost: none of them may be started on its data again",
    ),
    accepted("unsafe-no-fsync", Bool, "false", "an acknowledged write has always been synced"),
];
