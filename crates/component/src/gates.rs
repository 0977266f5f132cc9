//! Feature gates: `--feature-gates Name=true,Other=false` against the table of one binary.

use std::collections::{BTreeMap, BTreeSet};

/// How mature a feature is; upstream's stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off by default, may change or go.
    Alpha,
    /// May be on by default.
    Beta,
    /// Always on; setting it to false is refused.
    Ga,
}

/// One feature of a binary.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Upstream's name.
    pub name: &'static str,
    /// Whether it is on unless said otherwise.
    pub default: bool,
    /// How mature it is.
    pub stage: Stage,
}

/// Why a `--feature-gates` value was refused; texts as upstream's.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// Not of the form `name=bool`.
    #[error("missing bool value for {0}")]
    MissingValue(String),
    /// The value is not a boolean.
    #[error("invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax")]
    NotABool {
        /// The feature.
        name: String,
        /// What was given.
        value: String,
    },
    /// The binary has no such feature.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    /// A feature that is always on was switched off.
    #[error("cannot set feature gate {0} to false, feature is locked to true")]
    Locked(String),
}

/// Which features are on.
#[derive(Clone, Debug, Default)]
pub struct FeatureGates(BTreeMap<&'static str, bool>);

impl FeatureGates {
    /// The table's defaults with the flag's settings laid over them. `AllAlpha` and `AllBeta` stand for all features of a stage
    /// that are not named themselves.
    ///
    /// # Errors
    /// When a setting is malformed, unknown or locked.
    pub fn parse(table: &[Feature], flag: &str) -> Result<Self, Error> {
        let mut gates: BTreeMap<_, _> = table.iter().map(|feature| (feature.name, feature.default)).collect();
        let mut named = BTreeSet::new();
        let mut stages = Vec::new();
        for setting in flag.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').ok_or_else(|| Error::MissingValue(setting.to_owned()))?;
            let stage = [("AllAlpha", Stage::Alpha), ("AllBeta", Stage::Beta)].into_iter().find(|(all, _)| *all == name);
            if let Some((_, stage)) = stage {
                stages.push((stage, parse_bool(name, value)?));
                continue;
            }
            let feature = table.iter().find(|known| known.name == name).ok_or_else(|| Error::Unknown(name.to_owned()))?;
            let on = parse_bool(name, value)?;
            if !on && feature.stage == Stage::Ga {
                return Err(Error::Locked(name.to_owned()));
            }
            gates.insert(feature.name, on);
            named.insert(feature.name);
        }
        for (stage, on) in stages {
            let unnamed = table.iter().filter(|feature| feature.stage == stage && !named.contains(feature.name));
            gates.extend(unnamed.map(|feature| (feature.name, on)));
        }
        Ok(Self(gates))
    }

    /// Whether the feature is on; one that the table lacks is off.
    pub fn enabled(&self, name: &str) -> bool {
        self.0.get(name).copied().unwrap_or(false)
    }
}

fn parse_bool(name: &str, value: &str) -> Result<bool, Error> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(Error::NotABool { name: name.to_owned(), value: value.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Feature] = &[
        Feature { name: "CBORServingAndStorage", default: false, stage: Stage::Alpha },
        Feature { name: "WatchList", default: true, stage: Stage::Beta },
        Feature { name: "ServerSideApply", default: true, stage: Stage::Ga },
    ];

    #[test]
    fn settings_lie_over_defaults() {
        let gates = FeatureGates::parse(TABLE, "CBORServingAndStorage=true, WatchList=false").unwrap();
        assert!(gates.enabled("CBORServingAndStorage") && !gates.enabled("WatchList") && gates.enabled("ServerSideApply"));
    }

    #[test]
    fn a_whole_stage_is_switched_where_nothing_is_said_of_a_feature() {
        let gates = FeatureGates::parse(TABLE, "WatchList=true,AllAlpha=true,AllBeta=false").unwrap();
        assert!(gates.enabled("CBORServingAndStorage") && gates.enabled("WatchList") && gates.enabled("ServerSideApply"));
    }

    #[test]
    fn wrong_settings_are_named() {
        let error = |flag| FeatureGates::parse(TABLE, flag).unwrap_err().to_string();
        assert_eq!(error("Nope=true"), "unrecognized feature gate: Nope");
        assert_eq!(error("WatchList"), "missing bool value for WatchList");
        assert_eq!(error("ServerSideApply=false"), "cannot set feature gate ServerSideApply to false, feature is locked to true");
    }
}
