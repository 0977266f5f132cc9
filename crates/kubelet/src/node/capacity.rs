//! What the machine has.

use std::{fs, path::Path};

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

/// Share of a disk that is free, 0 to 1.
pub(crate) fn disk_free(path: &Path) -> Option<f64> {
    let existing = path.ancestors().find(|p| p.exists())?;
    let stat = nix::sys::statvfs::statvfs(existing).ok()?;
    (stat.blocks() > 0).then(|| stat.blocks_available() as f64 / stat.blocks() as f64)
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
    fn reads_meminfo() {
        assert_eq!(mem_total("MemTotal:       2048 kB\nMemFree: 1 kB\n"), Some(2 << 20));
    }
}
