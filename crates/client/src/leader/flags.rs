//! The `--leader-elect*` flags every elected component shares.

use std::time::Duration;

use clap::ArgAction;

use super::Config;

/// Leader election flags, with upstream's names and defaults. Use with `#[command(flatten)]`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Flags {
    /// Start a leader election client and gain leadership before executing the main loop.
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub leader_elect: bool,
    /// The duration that non-leader candidates will wait after observing a leadership renewal until attempting to acquire leadership.
    #[arg(long, default_value = "15s", value_parser = parse_duration)]
    pub leader_elect_lease_duration: Duration,
    /// The interval between attempts by the acting leader to renew its leadership before it stops leading.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub leader_elect_renew_deadline: Duration,
    /// The duration the clients should wait between attempting acquisition and renewal of leadership.
    #[arg(long, default_value = "2s", value_parser = parse_duration)]
    pub leader_elect_retry_period: Duration,
    /// The type of resource object used for locking; only leases are supported.
    #[arg(long, default_value = "leases", value_parser = ["leases"])]
    pub leader_elect_resource_lock: String,
    /// The name of the resource object used for locking; the component's own name when absent.
    #[arg(long)]
    pub leader_elect_resource_name: Option<String>,
    /// The namespace of the resource object used for locking.
    #[arg(long, default_value = "kube-system")]
    pub leader_elect_resource_namespace: String,
}

/// Timings that cannot work.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// Others would take over before the leader notices that it cannot renew.
    #[error("leaseDuration must be greater than renewDeadline")]
    LeaseTooShort,
    /// The leader would step down after its first missed renewal.
    #[error("renewDeadline must be greater than retryPeriod*JitterFactor")]
    DeadlineTooShort,
    /// The lease records whole seconds.
    #[error("leaseDuration must be greater than one second")]
    LeaseBelowSecond,
    /// Attempts would follow each other without pause.
    #[error("retryPeriod must be greater than zero")]
    NoPause,
}

impl Flags {
    /// The configuration of an election for `component`'s lease as `identity`.
    ///
    /// # Errors
    /// The timings contradict each other.
    pub fn config(&self, component: &str, identity: String) -> Result<Config, Error> {
        let retry = self.leader_elect_retry_period;
        if self.leader_elect_lease_duration <= self.leader_elect_renew_deadline {
            return Err(Error::LeaseTooShort);
        }
        if self.leader_elect_renew_deadline <= retry.mul_f64(super::JITTER) {
            return Err(Error::DeadlineTooShort);
        }
        if self.leader_elect_lease_duration < Duration::from_secs(1) {
            return Err(Error::LeaseBelowSecond);
        }
        if retry.is_zero() {
            return Err(Error::NoPause);
        }
        Ok(Config {
            namespace: self.leader_elect_resource_namespace.clone(),
            name: self.leader_elect_resource_name.clone().unwrap_or_else(|| component.to_owned()),
            identity,
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: retry,
        })
    }
}

/// Parses a duration as upstream's flags take it: `15s`, `1m30s`, `5m0s`, `100ms`, `1.5h`, `0`.
///
/// # Errors
/// Says that `text` is no duration.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let parsed = text.parse::<jiff::SignedDuration>().ok();
    parsed.and_then(|duration| Duration::try_from(duration).ok()).ok_or_else(|| format!("time: invalid duration {text:?}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;

    use super::{Error, Flags, parse_duration};

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        flags: Flags,
    }

    fn parse(args: &[&str]) -> Flags {
        Command::parse_from([&["x"], args].concat()).flags
    }

    #[test]
    fn defaults_are_upstreams() {
        let config = parse(&[]).config("kube-scheduler", "me".into()).unwrap();
        assert_eq!((config.namespace.as_str(), config.name.as_str()), ("kube-system", "kube-scheduler"));
        let seconds = [config.lease_duration, config.renew_deadline, config.retry_period].map(|time| time.as_secs());
        assert_eq!(seconds, [15, 10, 2]);
    }

    #[test]
    fn election_can_be_switched_off_and_on() {
        assert!(!parse(&["--leader-elect=false"]).leader_elect);
        assert!(parse(&["--leader-elect"]).leader_elect);
    }

    #[test]
    fn refuses_a_lease_that_runs_out_before_the_leader_notices() {
        let flags = parse(&["--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=10s"]);
        assert_eq!(flags.config("x", "me".into()).unwrap_err(), Error::LeaseTooShort);
    }

    #[test]
    fn reads_go_durations() {
        assert_eq!(parse_duration("5m0s"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        assert!(parse_duration("-5s").is_err());
        assert!(parse_duration("soon").is_err());
    }
}
