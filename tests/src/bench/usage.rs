//! What a process has used, as Linux tells it in `/proc`.

use std::{fs, io, path::Path, time::Duration};

/// What one process has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Time on a processor, in its own code and in the kernel's.
    pub cpu: Duration,
    /// Bytes in memory, program text among them.
    pub resident: u64,
    /// The most there ever were.
    pub peak: u64,
}

/// Of a running process; nothing of one that is gone.
pub fn of(pid: u32) -> Usage {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let status = read("status");
    Usage { cpu: cpu(&read("stat")), resident: memory(&status, "VmRSS:"), peak: memory(&status, "VmHWM:") }
}

/// Ticks are hundredths of a second on every Linux there is.
fn cpu(stat: &str) -> Duration {
    // The name, in parentheses, may hold anything; the fields after it are numbers.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn memory(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// Bytes that the files below a directory take on disk; those that vanish meanwhile take none.
pub fn disk(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let size = |entry: io::Result<fs::DirEntry>| {
        let path = entry.ok()?.path();
        let metadata = path.symlink_metadata().ok()?;
        Some(if metadata.is_dir() { disk(&path) } else { metadata.blocks() * 512 })
    };
    entries.filter_map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_by_what_follows_its_name() {
        let stat = "12 (a) (b c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20";
        assert_eq!(cpu(stat), Duration::from_secs(3));
        let status = "Name:\tx\nVmHWM:\t   4096 kB\nVmRSS:\t   2048 kB\nRssAnon: 1 kB\n";
        assert_eq!((memory(status, "VmRSS:"), memory(status, "VmHWM:")), (2 << 20, 4 << 20));
        assert_eq!((cpu(""), memory("", "VmRSS:")), (Duration::ZERO, 0));
    }

    #[test]
    fn this_process_uses_something() {
        assert!(of(std::process::id()).resident > 0);
        assert_eq!(of(u32::MAX), Usage::default());
    }
}
