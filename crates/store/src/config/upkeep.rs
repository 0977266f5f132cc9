//! What a member does to keep itself: giving up history, minding its space, checking its data, lease checkpoints, and what
//! it tells of slow requests.

use std::time::Duration;

use component::gates::{self, FeatureGates};

use super::{features::FEATURES, settings::Settings};
use crate::upkeep::{
    auto_compaction::{Policy, Unreadable},
    compactor::Pace,
};

/// How a member keeps itself; names and defaults are etcd's.
#[derive(Clone, Debug)]
pub struct Upkeep {
    /// How the retention is meant: a time, or a number of revisions
    pub auto_compaction_mode: String,
    /// History to keep: a duration or hours, or revisions; 0 keeps all
    pub auto_compaction_retention: String,
    /// Most changes looked at in one step of removing what was compacted
    pub compaction_batch_limit: usize,
    /// Rest between two such steps
    pub compaction_sleep_interval: Duration,
    /// Let the space alarm of this member clear itself once its database is below 90 % of the quota (not in etcd)
    pub quota_auto_disarm: bool,
    /// Time between two comparisons of all members' data; 0 for none
    pub corrupt_check_time: Duration,
    /// Time between two comparisons at compacted revisions
    pub compact_hash_check_time: Duration,
    /// Features to switch on or off, `Name=true|false,…`
    pub feature_gates: String,
    /// Applying a request or reading that takes longer is logged
    pub warning_apply_duration: Duration,
    /// A unary request that takes longer is logged
    pub warning_unary_request_duration: Duration,
    /// Detail of the metrics: `extensive` adds histograms of how long calls take
    pub metrics: String,
}

/// Flags of upkeep that cannot be served.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Retention(#[from] Unreadable),
    #[error("unknown auto-compaction-mode {0:?}")]
    Mode(String),
    #[error("--feature-gates: {0}")]
    Gates(#[from] gates::Error),
    #[error("enabling feature gate LeaseCheckpointPersist requires enabling feature gate LeaseCheckpoint")]
    PersistsNothing,
    #[error("--compact-hash-check-time must be >0 (set to 0s)")]
    NoHashCheckTime,
}

impl Upkeep {
    pub(super) fn new(settings: &Settings) -> Self {
        let or = |time: Duration, default| if time.is_zero() { default } else { time };
        Upkeep {
            auto_compaction_mode: settings.text("auto-compaction-mode"),
            auto_compaction_retention: settings.text("auto-compaction-retention"),
            compaction_batch_limit: match settings.signed("compaction-batch-limit") {
                ..=0 => 1000,
                limit => usize::try_from(limit).unwrap_or(usize::MAX),
            },
            compaction_sleep_interval: or(settings.time("compaction-sleep-interval"), Duration::from_millis(10)),
            quota_auto_disarm: settings.on("quota-auto-disarm"),
            corrupt_check_time: settings.time("corrupt-check-time"),
            compact_hash_check_time: settings.time("compact-hash-check-time"),
            feature_gates: settings.text("feature-gates"),
            warning_apply_duration: or(settings.time("warning-apply-duration"), Duration::from_millis(100)),
            warning_unary_request_duration: or(settings.time("warning-unary-request-duration"), Duration::from_millis(300)),
            metrics: settings.text("metrics"),
        }
    }

    /// Which features are on.
    ///
    /// # Errors
    /// A feature that is not known.
    pub fn features(&self) -> Result<FeatureGates, Error> {
        Ok(FeatureGates::parse(FEATURES, &self.feature_gates)?)
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

    /// Checks what values alone do not show.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        if !["periodic", "revision"].contains(&self.auto_compaction_mode.as_str()) {
            return Err(Error::Mode(self.auto_compaction_mode.clone()));
        }
        Policy::parse(&self.auto_compaction_mode, &self.auto_compaction_retention)?;
        let features = self.features()?;
        if features.enabled("LeaseCheckpointPersist") && !features.enabled("LeaseCheckpoint") {
            return Err(Error::PersistsNothing);
        }
        if self.compact_hash_check_time.is_zero() { Err(Error::NoHashCheckTime) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use component::gates::Feature;

    fn parse(args: &[&str]) -> Upkeep {
        Config::from_flags(args).unwrap().upkeep
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
        let error = |args: &[&str]| Config::from_flags(args).unwrap_err().to_string();
        assert_eq!(error(&["--feature-gates", "Nope=true"]), "--feature-gates: unrecognized feature gate: Nope");
        let persist = ["--experimental-enable-lease-checkpoint-persist"];
        assert!(error(&persist).contains("requires enabling feature gate LeaseCheckpoint"));
        assert!(error(&["--auto-compaction-retention", "soon"]).contains("--auto-compaction-retention"));
        assert_eq!(error(&["--auto-compaction-mode", "x"]), "unknown auto-compaction-mode \"x\"");
        assert!(error(&["--compact-hash-check-time", "0s"]).contains("--compact-hash-check-time"));
    }
}
