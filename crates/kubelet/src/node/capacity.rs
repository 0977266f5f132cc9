//! What the machine has.

use std::{fs, path::Path};

use super::eviction::{Least, Thresholds};

/// Resources of a node: cores, bytes of memory, bytes of disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
    pub(crate) disk: i64,
}

impl Capacity {
    /// Reads the machine this process runs on; `root` is on the disk that counts.
    pub(crate) fn of_machine(root: &Path) -> Self {
        Self {
            cpu: std::thread::available_parallelism().map_or(1, |n| i64::try_from(n.get()).unwrap_or(1)),
            memory: fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_total(&text)).unwrap_or(1 << 30),
            disk: disk(root).unwrap_or(10 << 30),
        }
    }

    /// What is left for pods once the hard eviction thresholds are set aside.
    pub(crate) fn allocatable(self, thresholds: Thresholds) -> Self {
        let less = |total: i64, least: Least| (total - least.of(total)).max(0);
        Self { memory: less(self.memory, thresholds.memory), disk: less(self.disk, thresholds.disk), ..self }
    }

    /// A node of the size upstream's hollow nodes have.
    pub(crate) fn hollow() -> Self {
        Self { cpu: 32, memory: 256 << 30, disk: 1 << 40 }
    }
}

/// Bytes of memory from `/proc/meminfo`.
fn mem_total(text: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<i64>().ok().map(|kib| kib * 1024)
}

fn disk(path: &Path) -> Option<i64> {
    let existing = path.ancestors().find(|p| p.exists())?;
    let stat = nix::sys::statvfs::statvfs(existing).ok()?;
    i64::try_from(stat.fragment_size().saturating_mul(stat.blocks())).ok()
}

/// Whether the disk `path` is on has less than `least` available.
pub(crate) fn disk_pressure(path: &Path, least: Least) -> bool {
    let Some(existing) = path.ancestors().find(|p| p.exists()) else { return false };
    let Ok(stat) = nix::sys::statvfs::statvfs(existing) else { return false };
    let bytes = |blocks: u64| i64::try_from(stat.fragment_size().saturating_mul(blocks)).unwrap_or(i64::MAX);
    bytes(stat.blocks_available()) < least.of(bytes(stat.blocks()))
}

/// Bytes of memory available, from `/proc/meminfo`.
pub(crate) fn memory_available() -> Option<i64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<i64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_get_what_eviction_leaves() {
        let capacity = Capacity { cpu: 2, memory: 1 << 30, disk: 1000 };
        assert_eq!(capacity.allocatable(Thresholds::default()), Capacity { cpu: 2, memory: (1 << 30) - (100 << 20), disk: 900 });
    }

    #[test]
    fn reads_meminfo() {
        assert_eq!(mem_total("MemTotal:       2048 kB\nMemFree: 1 kB\n"), Some(2 << 20));
    }
}
