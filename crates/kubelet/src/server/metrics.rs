//! What operators' dashboards read, under upstream's names.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::gauge::ConstGauge,
};

use super::Nodes;
use crate::pod::facts;

/// Counts the pods and containers at each scrape.
pub(super) struct Running(pub(super) Nodes);

impl std::fmt::Debug for Running {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Running").field("nodes", &self.0.len()).finish()
    }
}

impl Collector for Running {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let pods: Vec<_> = self.0.iter().flat_map(|node| node.pods.all()).collect();
        let running = pods.iter().filter(|pod| !facts::is_terminal(pod)).count();
        let containers: usize = pods
            .iter()
            .filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref())
            .map(|statuses| statuses.iter().filter(|s| s.state.as_ref().is_some_and(|s| s.running.is_some())).count())
            .sum();
        let rows = [
            ("kubelet_running_pods", "Number of pods that have a running pod sandbox", running),
            ("kubelet_running_containers", "Number of containers currently running", containers),
            ("kubelet_desired_pods", "The number of pods the kubelet is being instructed to run.", pods.len()),
        ];
        for (name, help, value) in rows {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}
