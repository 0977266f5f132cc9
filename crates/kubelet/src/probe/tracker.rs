//! From single tries to a verdict: as many in a row as the thresholds ask for.

/// Counts equal outcomes in a row.
#[derive(Debug)]
pub(super) struct Tracker {
    success_threshold: i32,
    failure_threshold: i32,
    last: Option<bool>,
    run: i32,
}

impl Tracker {
    /// Thresholds as in the probe's spec; 1 and 3 by default.
    pub(super) fn new(success_threshold: Option<i32>, failure_threshold: Option<i32>) -> Self {
        Self {
            success_threshold: success_threshold.unwrap_or(1).max(1),
            failure_threshold: failure_threshold.unwrap_or(3).max(1),
            last: None,
            run: 0,
        }
    }

    /// The verdict after one more try, once there were enough of a kind.
    pub(super) fn record(&mut self, success: bool) -> Option<bool> {
        if self.last != Some(success) {
            self.last = Some(success);
            self.run = 0;
        }
        self.run = self.run.saturating_add(1);
        let needed = if success { self.success_threshold } else { self.failure_threshold };
        (self.run >= needed).then_some(success)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_its_threshold_in_a_row() {
        let mut tracker = Tracker::new(Some(2), Some(3));
        let tries = [false, false, true, false, false, false, true, true];
        let verdicts: Vec<_> = tries.into_iter().map(|ok| tracker.record(ok)).collect();
        assert_eq!(verdicts, [None, None, None, None, None, Some(false), None, Some(true)]);
    }
}
