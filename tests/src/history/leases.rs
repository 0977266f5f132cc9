//! What clients saw of their leases, and whether each lived as long as it was promised, and no longer than it had to.

use std::time::Duration;

use super::Violation;

/// A lease over its whole life, as its one client saw it. Times are counted from the start of the run.
#[derive(Clone, Debug)]
pub struct Lease {
    /// For complaints.
    pub name: String,
    /// How long it lives after each renewal.
    pub ttl: Duration,
    /// Its grant and its renewals: those that succeeded.
    pub renewals: Vec<Seen>,
    /// What it looked like, in order.
    pub looks: Vec<(Seen, Sight)>,
}

/// When something was asked, and when answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When it was sent.
    pub sent: Duration,
    /// When the answer came.
    pub answered: Duration,
}

/// What a look at a lease shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// It is there.
    Alive,
    /// It is not.
    Gone,
}

/// Whether a lease kept its promise. Somebody's clock may have jumped at these times, which may end leases.
///
/// # Errors
/// It did not.
pub fn check(lease: &Lease, jumps: &[Duration]) -> Result<(), Violation> {
    let gone = lease.looks.iter().filter(|(_, sight)| *sight == Sight::Gone).map(|(seen, _)| *seen);
    let Some(first) = gone.clone().map(|seen| seen.answered).min() else {
        return Err(Violation::LeaseNeverEnded { lease: lease.name.clone() });
    };
    let excused = |from, to| jumps.iter().any(|jump| (from..=to).contains(jump));
    for renewal in &lease.renewals {
        if renewal.sent > first {
            return Err(Violation::LeaseCameBack { lease: lease.name.clone(), gone: first, renewed: renewal.answered });
        }
        let promised = renewal.sent + lease.ttl;
        if let Some(look) = gone.clone().find(|look| look.answered < promised && !excused(renewal.sent, look.answered)) {
            return Err(Violation::LeaseEndedEarly { lease: lease.name.clone(), promised, gone: look.answered });
        }
    }
    match lease.looks.iter().find(|(seen, sight)| *sight == Sight::Alive && seen.sent > first) {
        Some((seen, _)) => Err(Violation::LeaseCameBack { lease: lease.name.clone(), gone: first, renewed: seen.answered }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(sent: u64, answered: u64) -> Seen {
        Seen { sent: Duration::from_secs(sent), answered: Duration::from_secs(answered) }
    }

    fn lease(renewals: &[(u64, u64)], looks: &[(u64, u64, Sight)]) -> Lease {
        Lease {
            name: "it".to_owned(),
            ttl: Duration::from_secs(5),
            renewals: renewals.iter().map(|(sent, answered)| seen(*sent, *answered)).collect(),
            looks: looks.iter().map(|(sent, answered, sight)| (seen(*sent, *answered), *sight)).collect(),
        }
    }

    #[test]
    fn a_lease_lives_until_its_last_renewal_is_over_and_then_ends() {
        let right = lease(&[(0, 1), (3, 4)], &[(5, 6, Sight::Alive), (7, 9, Sight::Gone), (10, 11, Sight::Gone)]);
        assert_eq!(check(&right, &[]), Ok(()));
    }

    #[test]
    fn one_that_ends_before_its_time_is_found_unless_a_clock_jumped() {
        let early = lease(&[(0, 1), (3, 4)], &[(5, 6, Sight::Gone)]);
        assert!(matches!(check(&early, &[]), Err(Violation::LeaseEndedEarly { .. })));
        assert_eq!(check(&early, &[Duration::from_secs(5)]), Ok(()));
        assert!(
            matches!(check(&early, &[Duration::from_secs(2)]), Err(Violation::LeaseEndedEarly { .. })),
            "it was renewed after the jump"
        );
    }

    #[test]
    fn one_that_comes_back_or_never_ends_is_found() {
        let back = lease(&[(0, 1)], &[(6, 7, Sight::Gone), (8, 9, Sight::Alive)]);
        assert!(matches!(check(&back, &[]), Err(Violation::LeaseCameBack { .. })));
        let renewed = lease(&[(0, 1), (8, 9)], &[(6, 7, Sight::Gone)]);
        assert!(matches!(check(&renewed, &[]), Err(Violation::LeaseCameBack { .. })));
        let endless = lease(&[(0, 1)], &[(60, 61, Sight::Alive)]);
        assert!(matches!(check(&endless, &[]), Err(Violation::LeaseNeverEnded { .. })));
    }
}
