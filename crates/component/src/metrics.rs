//! Metrics in Prometheus' text format.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::{Metric, Registry as Inner};

use crate::process_metrics::ProcessCollector;

/// The content type of [`Registry::encode`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics of one process; handed about behind an `Arc`.
pub struct Registry {
    inner: Mutex<Inner>,
    /// Counters whose names do not end in `_total`.
    bare: Mutex<BTreeSet<String>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// A registry that holds the `process_*` metrics.
    pub fn new() -> Self {
        let mut inner = Inner::default();
        inner.register_collector(Box::new(ProcessCollector));
        Self { inner: Mutex::new(inner), bare: Mutex::default() }
    }

    /// Adds a metric under upstream's name; a counter's name is given without its `_total`.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.inner.lock().register(name, help, metric);
    }

    /// Adds a counter under the whole of upstream's name, whether that ends in `_total` or not.
    pub fn register_counter(&self, name: &str, help: &str, counter: impl Metric) {
        let short = name.strip_suffix("_total").unwrap_or_else(|| {
            self.bare.lock().insert(name.to_owned());
            name
        });
        self.register(short, help, counter);
    }

    /// Adds a collector, asked at each scrape.
    pub fn register_collector(&self, collector: Box<dyn prometheus_client::collector::Collector>) {
        self.inner.lock().register_collector(collector);
    }

    /// All metrics as text, see [`CONTENT_TYPE`].
    pub fn encode(&self) -> String {
        let mut open_metrics = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut open_metrics, &self.inner.lock());
        classic(&open_metrics, &self.bare.lock())
    }
}

/// Turns OpenMetrics into the classic text format: there a counter's TYPE and HELP lines carry the `_total` too,
/// and scrapers that do not negotiate refuse `# EOF`. Counters that are `bare` have no `_total` at all.
fn classic(open_metrics: &str, bare: &BTreeSet<String>) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help: Option<(&str, &str)> = None;
    let mut stripped: Option<&str> = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            stripped = Some(name).filter(|name| bare.contains(*name));
            let suffix = if kind == "counter" && stripped.is_none() { "_total" } else { "" };
            if let Some((_, help)) = help.take() {
                text.push_str(&format!("# HELP {name}{suffix} {help}\n"));
            }
            text.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
        } else if !line.starts_with("# ") {
            let sample = stripped.and_then(|name| Some((name, line.strip_prefix(name)?.strip_prefix("_total")?)));
            match sample {
                Some((name, rest)) => text.extend([name, rest]),
                None => text.push_str(line),
            }
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    #[test]
    fn counters_and_gauges_are_typed_as_prometheus_reads_them() {
        let registry = Registry::new();
        let counter: Counter = Counter::default();
        counter.inc();
        registry.register("apiserver_request", "Requests", counter);
        registry.register("workqueue_depth", "Depth", Gauge::<i64>::default());
        let text = registry.encode();
        assert!(text.contains("# TYPE apiserver_request_total counter\napiserver_request_total 1\n"), "{text}");
        assert!(text.contains("# TYPE workqueue_depth gauge\nworkqueue_depth 0\n"), "{text}");
        assert!(text.contains("process_resident_memory_bytes"), "{text}");
        assert!(!text.contains("# EOF"), "{text}");
    }

    #[test]
    fn a_counter_has_the_name_it_was_given() {
        let registry = Registry::new();
        let counters: [Counter; 2] = Default::default();
        for counter in &counters {
            counter.inc();
        }
        registry.register_counter("etcd_server_health_success", "Checks", counters[0].clone());
        registry.register_counter("etcd_server_slow_apply_total", "Slow ones", counters[1].clone());
        let text = registry.encode();
        assert!(text.contains("# TYPE etcd_server_health_success counter\netcd_server_health_success 1\n"), "{text}");
        assert!(text.contains("# TYPE etcd_server_slow_apply_total counter\netcd_server_slow_apply_total 1\n"), "{text}");
    }
}
