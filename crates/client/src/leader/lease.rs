//! What a lease record means at a given instant, and the records this instance writes. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1::MicroTime};
use tokio::time::Instant;

use super::Config;

/// The record last seen, and since when it has looked like that.
#[derive(Debug, Default)]
pub(super) struct Observed {
    record: Option<(LeaseSpec, Instant)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Someone else leads, and has shown it recently enough.
    HeldByOther,
    /// Free, stale, or ours.
    Available,
}

impl Observed {
    pub(super) fn observe(&mut self, spec: LeaseSpec, now: Instant) {
        if self.record.as_ref().is_none_or(|(seen, _)| *seen != spec) {
            self.record = Some((spec, now));
        }
    }

    pub(super) fn held_by_other(&self, identity: &str) -> bool {
        let holder = self.record.as_ref().and_then(|(spec, _)| spec.holder_identity.as_deref());
        holder.is_some_and(|holder| !holder.is_empty() && holder != identity)
    }

    pub(super) fn verdict(&self, identity: &str, now: Instant) -> Verdict {
        let fresh = self.record.as_ref().is_some_and(|(spec, since)| {
            let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
            *since + Duration::from_secs(seconds) > now
        });
        if self.held_by_other(identity) && fresh { Verdict::HeldByOther } else { Verdict::Available }
    }
}

/// The record that makes or keeps this instance the leader.
pub(super) fn claim(current: &LeaseSpec, config: &Config, now: Timestamp) -> LeaseSpec {
    let renewal = current.holder_identity.as_deref() == Some(&config.identity);
    let first = current.renew_time.is_none();
    let transitions = current.lease_transitions.unwrap_or(0);
    let acquired = if renewal { current.acquire_time.clone() } else { None };
    LeaseSpec {
        holder_identity: Some(config.identity.clone()),
        lease_duration_seconds: Some(i32::try_from(config.lease_duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: acquired.or_else(|| Some(micro(now))),
        renew_time: Some(micro(now)),
        lease_transitions: Some(if renewal || first { transitions } else { transitions.saturating_add(1) }),
        ..current.clone()
    }
}

/// The record that lets the next candidate in at once.
pub(super) fn release(current: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(micro(now)),
        renew_time: Some(micro(now)),
        ..current.clone()
    }
}

/// `now` to the microsecond, which is all the wire carries: what is read back then equals what was written.
fn micro(now: Timestamp) -> MicroTime {
    MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use k8s_openapi::api::coordination::v1::LeaseSpec;
    use tokio::time::Instant;

    use super::{Config, Observed, Verdict, claim, release};

    fn config(identity: &str) -> Config {
        Config {
            namespace: "kube-system".into(),
            name: "kube-controller-manager".into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn waits_the_whole_duration_from_its_own_observation() {
        let (mut observed, start) = (Observed::default(), Instant::now());
        // Renewed an hour ago or in an hour by the holder's clock: it makes no difference.
        observed.observe(claim(&LeaseSpec::default(), &config("a"), at(0)), start);
        assert_eq!(observed.verdict("b", start + Duration::from_secs(14)), Verdict::HeldByOther);
        assert_eq!(observed.verdict("b", start + Duration::from_secs(15)), Verdict::Available);
        assert_eq!(observed.verdict("a", start), Verdict::Available);
    }

    #[test]
    fn a_renewal_starts_the_wait_anew() {
        let (mut observed, start) = (Observed::default(), Instant::now());
        let first = claim(&LeaseSpec::default(), &config("a"), at(0));
        observed.observe(first.clone(), start);
        observed.observe(claim(&first, &config("a"), at(2)), start + Duration::from_secs(10));
        assert_eq!(observed.verdict("b", start + Duration::from_secs(20)), Verdict::HeldByOther);
    }

    #[test]
    fn a_takeover_counts_a_transition_and_a_renewal_keeps_the_acquire_time() {
        let first = claim(&LeaseSpec::default(), &config("a"), at(1));
        assert_eq!(first.lease_transitions, Some(0));
        let renewed = claim(&first, &config("a"), at(3));
        assert_eq!((renewed.acquire_time, renewed.lease_transitions), (first.acquire_time.clone(), Some(0)));
        let taken = claim(&first, &config("b"), at(30));
        assert_eq!((taken.acquire_time.map(|time| time.0), taken.lease_transitions), (Some(at(30)), Some(1)));
    }

    #[test]
    fn a_released_lease_is_free_at_once() {
        let (mut observed, now) = (Observed::default(), Instant::now());
        observed.observe(release(&claim(&LeaseSpec::default(), &config("a"), at(1)), at(2)), now);
        assert_eq!(observed.verdict("b", now), Verdict::Available);
    }
}
