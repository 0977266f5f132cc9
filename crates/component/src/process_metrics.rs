//! The `process_*` metrics that every Prometheus client library exports, read from /proc.

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

#[derive(Debug)]
pub(crate) struct ProcessCollector;

/// Name, help and how it is read; none where the system does not tell.
type Reading = (&'static str, &'static str, fn() -> Option<f64>);

const GAUGES: [Reading; 6] = [
    ("process_resident_memory_bytes", "Resident memory size in bytes", resident_bytes),
    ("process_virtual_memory_bytes", "Virtual memory size in bytes", virtual_bytes),
    ("process_virtual_memory_max_bytes", "Maximum amount of virtual memory available in bytes", most_virtual_bytes),
    ("process_open_fds", "Number of open file descriptors", open_files),
    ("process_max_fds", "Maximum number of open file descriptors", most_open_files),
    ("process_start_time_seconds", "Start time of the process since unix epoch in seconds", start_time),
];

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        for (name, help, read) in GAUGES {
            let Some(value) = read() else { continue };
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        if let Some(seconds) = cpu_seconds() {
            let (name, help) = ("process_cpu_seconds", "Total user and system CPU time spent in seconds");
            let counter = ConstCounter::new(seconds);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        Ok(())
    }
}

/// A field of /proc/self/statm, in bytes.
fn memory(field: usize) -> Option<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: i64 = statm.split_whitespace().nth(field)?.parse().ok()?;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some((pages * page) as f64)
}

fn virtual_bytes() -> Option<f64> {
    memory(0)
}

fn resident_bytes() -> Option<f64> {
    memory(1)
}

fn most_virtual_bytes() -> Option<f64> {
    getrlimit(Resource::RLIMIT_AS).ok().map(|(soft, _)| soft as f64)
}

fn cpu_seconds() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Some(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// How many files are open.
pub fn open_files() -> Option<f64> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count() as f64)
}

/// How many files may be open.
pub fn most_open_files() -> Option<f64> {
    getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft as f64)
}

/// When the system came up, from /proc/stat, and how long after that the process did, in ticks, from /proc/self/stat.
fn start_time() -> Option<f64> {
    let system = std::fs::read_to_string("/proc/stat").ok()?;
    let boot: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let process = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, the name, may itself have spaces and brackets; the start is the 22nd.
    let ticks: f64 = process.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    Some(boot + ticks / per_second as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_started_before_now_and_after_the_system() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let start = start_time().unwrap();
        assert!(start <= now + 1.0 && start > now - 24.0 * 3600.0, "{start} of {now}");
        assert!(virtual_bytes() > resident_bytes());
        assert!(open_files() < most_open_files());
    }
}
