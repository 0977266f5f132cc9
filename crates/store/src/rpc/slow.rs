//! Reads that take long are logged, with where the time went.

use std::time::{Duration, Instant};

use super::Context;
use crate::command::{Range, RangeResponse};

/// Times the steps of a read.
pub(super) struct Trace {
    start: Instant,
    last: Instant,
    steps: Vec<(&'static str, Duration)>,
}

impl Trace {
    pub(super) fn begin() -> Self {
        let start = Instant::now();
        Trace { start, last: start, steps: Vec::new() }
    }

    /// A step is done.
    pub(super) fn step(&mut self, name: &'static str) {
        let now = Instant::now();
        self.steps.push((name, now - self.last));
        self.last = now;
    }

    fn took(&self) -> Duration {
        self.last - self.start
    }
}

impl Context {
    /// Counts a range, and logs it if it took long.
    pub(super) fn note_range(&self, range: &Range, trace: &Trace, found: Option<&RangeResponse>) {
        if found.is_some() {
            self.metrics.ranges.inc();
        }
        let success = if found.is_some() { "true" } else { "false" };
        self.metrics.range_duration.get_or_create(&[("success", success)]).observe(trace.took().as_secs_f64());
        if trace.took() <= self.limits.slow_apply {
            return;
        }
        self.metrics.slow_applies.inc();
        let (found, expected) = (found.map(|found| found.kvs.len()), self.limits.slow_apply);
        tracing::warn!(
            took = ?trace.took(),
            expected_duration = ?expected,
            prefix = "read-only range ",
            key = %range.key.escape_ascii(),
            range_end = %range.range_end.escape_ascii(),
            limit = range.limit,
            revision = range.revision,
            range_response_count = found,
            steps = ?trace.steps,
            "apply request took too long"
        );
    }

    /// The same for a transaction that only reads.
    pub(super) fn note_read_txn(&self, operations: usize, trace: &Trace) {
        if trace.took() <= self.limits.slow_apply {
            return;
        }
        self.metrics.slow_applies.inc();
        let expected = self.limits.slow_apply;
        let (took, steps) = (trace.took(), &trace.steps);
        tracing::warn!(?took, expected_duration = ?expected, prefix = "read-only txn ", operations, ?steps, "apply request took too long");
    }
}
