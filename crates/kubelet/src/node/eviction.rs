//! Hard eviction thresholds: `--eviction-hard`, or `evictionHard` in the config file.
//!
//! They decide when a node reports pressure and what is set aside from its capacity
//! (<https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/>).

use anyhow::bail;

use crate::quantity;

/// Signals upstream knows and this kubelet does not measure; their thresholds are accepted.
const UNMEASURED: [&str; 4] = ["nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "pid.available"];

/// The least that must be free.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Least {
    Bytes(i64),
    Percent(f64),
}

impl Least {
    /// In bytes, of a whole of `total` bytes.
    pub(crate) fn of(self, total: i64) -> i64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (total as f64 * percent / 100.0) as i64,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('%') {
            Some(number) => number.parse().ok().filter(|percent| (0.0..=100.0).contains(percent)).map(Self::Percent),
            None => quantity::value(text).filter(|bytes| *bytes >= 0).map(Self::Bytes),
        }
    }
}

/// `memory.available` and `nodefs.available`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    pub(crate) memory: Least,
    pub(crate) disk: Least,
}

impl Default for Thresholds {
    /// Upstream's: `memory.available<100Mi,nodefs.available<10%`.
    fn default() -> Self {
        Self { memory: Least::Bytes(100 << 20), disk: Least::Percent(10.0) }
    }
}

impl Thresholds {
    /// Reads the flag's form, `signal<value,…`; a signal that is not named has no threshold.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let pairs = text.split(',').filter(|part| !part.trim().is_empty()).map(|part| match part.split_once('<') {
            Some((signal, value)) => Ok((signal.trim(), value.trim())),
            None => bail!("--eviction-hard: {part:?} is not of the form signal<value"),
        });
        Self::from_pairs(pairs.collect::<anyhow::Result<Vec<_>>>()?)
    }

    /// Reads signals and values, as the config file has them.
    pub(crate) fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> anyhow::Result<Self> {
        let mut thresholds = Self { memory: Least::Bytes(0), disk: Least::Bytes(0) };
        for (signal, value) in pairs {
            let Some(least) = Least::parse(value) else {
                bail!("eviction threshold of {signal}: {value:?} is neither a quantity nor a percentage")
            };
            match signal {
                "memory.available" => thresholds.memory = least,
                "nodefs.available" => thresholds.disk = least,
                _ if UNMEASURED.contains(&signal) => tracing::info!(signal, "eviction signal is not measured; its threshold has no effect"),
                _ => bail!("unknown eviction signal {signal:?}"),
            }
        }
        Ok(thresholds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_quantities_or_percentages() {
        let parsed = Thresholds::parse("memory.available<1Gi,nodefs.available<0%,imagefs.available<15%").unwrap();
        assert_eq!(parsed, Thresholds { memory: Least::Bytes(1 << 30), disk: Least::Percent(0.0) });
        assert_eq!(Least::Percent(10.0).of(1000), 100);
    }

    #[test]
    fn wrong_thresholds_are_named() {
        let error = |text| Thresholds::parse(text).unwrap_err().to_string();
        assert_eq!(error("disk<1Gi"), "unknown eviction signal \"disk\"");
        assert!(error("memory.available<lots").contains("neither a quantity nor a percentage"));
        assert!(error("memory.available").contains("is not of the form signal<value"));
    }
}
