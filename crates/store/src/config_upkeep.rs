//! Flags of what a member does to keep itself: giving up history, minding its space, checking its data, lease
//! checkpoints, and what it tells of slow requests.

use std::time::Duration;

use clap::{ArgAction, Args};
use component::gates::{self, Feature, FeatureGates, Stage};

use crate::{
    config::duration,
    upkeep::{
        auto_compaction::{Policy, Unreadable},
        compactor::Pace,
    },
};

/// etcd 3.6's features, and the flags they had before there were feature gates.
pub const FEATURES: &[Feature] = &[
    Feature { name: "CompactHashCheck", default: false, stage: Stage::Alpha },
    Feature { name: "InitialCorruptCheck", default: false, stage: Stage::Alpha },
    Feature { name: "LeaseCheckpoint", default: false, stage: Stage::Alpha },
    Feature { name: "LeaseCheckpointPersist", default: false, stage: Stage::Alpha },
    Feature { name: "SetMemberLocalAddr", default: false, stage: Stage::Alpha },
    Feature { name: "StopGRPCServiceOnDefrag", default: false, stage: Stage::Alpha },
    Feature { name: "TxnModeWriteWithSharedBuffer", default: true, stage: Stage::Beta },
];

/// How a member keeps itself; names and defaults are etcd's.
#[derive(Clone, Debug, Args)]
pub struct Upkeep {
    /// How --auto-compaction-retention is meant: a time, or a number of revisions
    #[arg(long, env = "ETCD_AUTO_COMPACTION_MODE", default_value = "periodic", value_parser = ["periodic", "revision"])]
    pub auto_compaction_mode: String,
    /// History to keep: a duration or hours, or revisions; 0 keeps all
    #[arg(long, env = "ETCD_AUTO_COMPACTION_RETENTION", default_value = "0", allow_hyphen_values = true)]
    pub auto_compaction_retention: String,
    /// Most changes looked at in one step of removing what was compacted
    #[arg(long, alias = "experimental-compaction-batch-limit", env = "ETCD_COMPACTION_BATCH_LIMIT", default_value_t = 1000)]
    pub compaction_batch_limit: usize,
    /// Rest between two such steps
    #[arg(long, alias = "experimental-compaction-sleep-interval", env = "ETCD_COMPACTION_SLEEP_INTERVAL", default_value = "10ms", value_parser = duration)]
    pub compaction_sleep_interval: Duration,
    /// Let the space alarm of this member clear itself once its database is below 90 % of the quota (not in etcd)
    #[arg(long, env = "ETCD_QUOTA_AUTO_DISARM", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", action = ArgAction::Set)]
    pub quota_auto_disarm: bool,

    /// Compare this member's data with its peers' before serving
    #[arg(long, env = "ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub experimental_initial_corrupt_check: Option<bool>,
    /// Time between two comparisons of all members' data; 0 for none
    #[arg(long, alias = "experimental-corrupt-check-time", env = "ETCD_CORRUPT_CHECK_TIME", default_value = "0s", value_parser = duration)]
    pub corrupt_check_time: Duration,
    /// Have the leader compare all members' data at compacted revisions
    #[arg(long, env = "ETCD_EXPERIMENTAL_COMPACT_HASH_CHECK_ENABLED", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub experimental_compact_hash_check_enabled: Option<bool>,
    /// Time between two of these comparisons
    #[arg(long, alias = "experimental-compact-hash-check-time", env = "ETCD_COMPACT_HASH_CHECK_TIME", default_value = "1m", value_parser = duration)]
    pub compact_hash_check_time: Duration,

    /// Note from time to time what leases have left, so that a new leader does not start them afresh
    #[arg(long, env = "ETCD_EXPERIMENTAL_ENABLE_LEASE_CHECKPOINT", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub experimental_enable_lease_checkpoint: Option<bool>,
    /// Keep that over restarts; always so since 3.6
    #[arg(long, env = "ETCD_EXPERIMENTAL_ENABLE_LEASE_CHECKPOINT_PERSIST", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub experimental_enable_lease_checkpoint_persist: Option<bool>,
    /// Features to switch on or off, `Name=true|false,…`
    #[arg(long, env = "ETCD_FEATURE_GATES", default_value = "")]
    pub feature_gates: String,

    /// Applying a request or reading that takes longer is logged
    #[arg(long, alias = "experimental-warning-apply-duration", env = "ETCD_WARNING_APPLY_DURATION", default_value = "100ms", value_parser = duration)]
    pub warning_apply_duration: Duration,
    /// A unary request that takes longer is logged
    #[arg(long, alias = "experimental-warning-unary-request-duration", env = "ETCD_WARNING_UNARY_REQUEST_DURATION", default_value = "300ms", value_parser = duration)]
    pub warning_unary_request_duration: Duration,
    /// Detail of the metrics: `extensive` adds histograms of how long calls take
    #[arg(long, env = "ETCD_METRICS", default_value = "basic", value_parser = ["basic", "extensive"])]
    pub metrics: String,
}

/// Flags of upkeep that cannot be served.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Retention(#[from] Unreadable),
    #[error("--feature-gates: {0}")]
    Gates(#[from] gates::Error),
    #[error(
        "cannot specify both flags: --{flag} and --feature-gates={feature}=(true|false) at the same time, please just use --feature-gates"
    )]
    Twice { flag: &'static str, feature: &'static str },
    #[error("enabling feature gate LeaseCheckpointPersist requires enabling feature gate LeaseCheckpoint")]
    PersistsNothing,
    #[error("--compact-hash-check-time must be >0 (set to 0s)")]
    NoHashCheckTime,
    #[error("--compaction-batch-limit must be >0 (set to 0)")]
    NoBatch,
}

impl Upkeep {
    /// Which features are on.
    ///
    /// # Errors
    /// A feature that is not known, or one that is set in both ways.
    pub fn features(&self) -> Result<FeatureGates, Error> {
        let mut settings = self.feature_gates.clone();
        for (flag, feature, value) in self.former_flags() {
            let Some(value) = value else { continue };
            if settings.split(',').any(|setting| setting.trim().split('=').next() == Some(feature)) {
                return Err(Error::Twice { flag, feature });
            }
            settings.push_str(&format!(",{feature}={value}"));
        }
        Ok(FeatureGates::parse(FEATURES, &settings)?)
    }

    /// Features that have a flag of their own: flag, feature, value.
    fn former_flags(&self) -> [(&'static str, &'static str, Option<bool>); 4] {
        [
            ("experimental-initial-corrupt-check", "InitialCorruptCheck", self.experimental_initial_corrupt_check),
            ("experimental-compact-hash-check-enabled", "CompactHashCheck", self.experimental_compact_hash_check_enabled),
            ("experimental-enable-lease-checkpoint", "LeaseCheckpoint", self.experimental_enable_lease_checkpoint),
            ("experimental-enable-lease-checkpoint-persist", "LeaseCheckpointPersist", self.experimental_enable_lease_checkpoint_persist),
        ]
    }

    /// A feature is on.
    pub fn enabled(&self, feature: &str) -> bool {
        self.features().is_ok_and(|features| features.enabled(feature))
    }

    /// How much history is kept automatically; none when all of it.
    pub fn compaction(&self) -> Option<Policy> {
        Policy::parse(&self.auto_compaction_mode, &self.auto_compaction_retention).ok().flatten()
    }

    /// How fast what was compacted is removed.
    pub fn pace(&self) -> Pace {
        Pace { rows: self.compaction_batch_limit, rest: self.compaction_sleep_interval }
    }

    /// Checks what clap cannot.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        Policy::parse(&self.auto_compaction_mode, &self.auto_compaction_retention)?;
        let features = self.features()?;
        if features.enabled("LeaseCheckpointPersist") && !features.enabled("LeaseCheckpoint") {
            return Err(Error::PersistsNothing);
        }
        match () {
            () if self.compact_hash_check_time.is_zero() => Err(Error::NoHashCheckTime),
            () if self.compaction_batch_limit == 0 => Err(Error::NoBatch),
            () => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use clap::Parser;

    fn parse(args: &[&str]) -> Upkeep {
        Config::parse_from([&["store"], args].concat()).upkeep
    }

    #[test]
    fn defaults_are_those_of_etcd() {
        let upkeep = parse(&[]);
        assert_eq!(upkeep.compaction(), None);
        assert_eq!(upkeep.pace(), Pace { rows: 1000, rest: Duration::from_millis(10) });
        assert_eq!((upkeep.corrupt_check_time, upkeep.compact_hash_check_time), (Duration::ZERO, Duration::from_secs(60)));
        assert_eq!(upkeep.warning_apply_duration, Duration::from_millis(100));
        assert_eq!(upkeep.warning_unary_request_duration, Duration::from_millis(300));
        let on = |feature: &&Feature| upkeep.enabled(feature.name);
        assert_eq!(FEATURES.iter().filter(on).map(|feature| feature.name).collect::<Vec<_>>(), ["TxnModeWriteWithSharedBuffer"]);
        assert_eq!(upkeep.validate(), Ok(()));
    }

    #[test]
    fn features_are_switched_by_gate_or_by_their_former_flag() {
        assert!(parse(&["--feature-gates", "LeaseCheckpoint=true"]).enabled("LeaseCheckpoint"));
        assert!(parse(&["--experimental-enable-lease-checkpoint"]).enabled("LeaseCheckpoint"));
        assert!(parse(&["--experimental-initial-corrupt-check=true"]).enabled("InitialCorruptCheck"));
        assert!(!parse(&["--experimental-compact-hash-check-enabled=false"]).enabled("CompactHashCheck"));
    }

    #[test]
    fn former_names_of_flags_are_taken_too() {
        let upkeep = parse(&["--experimental-corrupt-check-time", "5m", "--experimental-compaction-batch-limit=7"]);
        assert_eq!((upkeep.corrupt_check_time, upkeep.compaction_batch_limit), (Duration::from_secs(300), 7));
    }

    #[test]
    fn contradicting_flags_are_named() {
        let error = |args: &[&str]| parse(args).validate().unwrap_err().to_string();
        let both = ["--experimental-initial-corrupt-check", "--feature-gates", "InitialCorruptCheck=true"];
        assert!(error(&both).starts_with("cannot specify both flags: --experimental-initial-corrupt-check"));
        assert_eq!(error(&["--feature-gates", "Nope=true"]), "--feature-gates: unrecognized feature gate: Nope");
        let persist = ["--experimental-enable-lease-checkpoint-persist"];
        assert!(error(&persist).contains("requires enabling feature gate LeaseCheckpoint"));
        assert!(error(&["--auto-compaction-retention", "soon"]).contains("--auto-compaction-retention"));
        assert!(error(&["--compact-hash-check-time", "0s"]).contains("--compact-hash-check-time"));
    }
}
