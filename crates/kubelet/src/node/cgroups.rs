//! The machine's cgroups: what every container gets there without asking; as upstream's `kuberuntime_container_linux.go`.

use std::{collections::HashMap, fs, path::Path};

use anyhow::bail;

/// Which cgroups the machine has, as far as containers' settings depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cgroups {
    /// One tree a controller, also where version 2 is mounted beside them.
    V1,
    /// One tree for all; `swap` tells whether the kernel counts swapped memory.
    V2 { swap: bool },
}

impl Cgroups {
    /// Reads the machine this process runs on.
    pub(crate) fn of_machine() -> Self {
        Self::at(Path::new("/sys/fs/cgroup"), &fs::read_to_string("/proc/self/cgroup").unwrap_or_default())
    }

    /// `root` is where cgroups are mounted, `own` the text of `/proc/self/cgroup`.
    fn at(root: &Path, own: &str) -> Self {
        if !root.join("cgroup.controllers").exists() {
            return Self::V1;
        }
        // The tree's root lacks the file, so a group below it is looked at, of which only one is sure to exist.
        let group = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        Self::V2 { swap: root.join(group).join("memory.swap.max").exists() }
    }

    /// Files of version 2 with what every container's group has in them; none in version 1.
    ///
    /// # Errors
    /// `singleProcessOOMKill: false` asks for what version 1 cannot do.
    pub(crate) fn files(self, single_process_oom_kill: Option<bool>) -> anyhow::Result<HashMap<String, String>> {
        let Self::V2 { swap } = self else {
            if single_process_oom_kill == Some(false) {
                bail!("invalid configuration: singleProcessOOMKill must not be explicitly set to false when using cgroup v1");
            }
            return Ok(HashMap::new());
        };
        let mut files = HashMap::new();
        // A container that lost one of its processes would go on in a state that nobody restarts it from.
        if !single_process_oom_kill.unwrap_or(false) {
            files.insert("memory.oom.group".to_owned(), "1".to_owned());
        }
        // `NoSwap`, upstream's default; without the file the runtime would fail to write it.
        if swap {
            files.insert("memory.swap.max".to_owned(), "0".to_owned());
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(file, value)| ((*file).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn tells_version_2_by_its_root_and_swap_by_its_own_group() {
        let root = tempfile::tempdir().unwrap();
        let hybrid = "1:memory:/node\n0::/node\n";
        assert_eq!(Cgroups::at(root.path(), hybrid), Cgroups::V1);
        fs::write(root.path().join("cgroup.controllers"), "cpu memory").unwrap();
        assert_eq!(Cgroups::at(root.path(), "0::/node\n"), Cgroups::V2 { swap: false });
        fs::create_dir(root.path().join("node")).unwrap();
        fs::write(root.path().join("node/memory.swap.max"), "max").unwrap();
        assert_eq!(Cgroups::at(root.path(), "0::/node\n"), Cgroups::V2 { swap: true });
        assert_eq!(Cgroups::at(root.path(), "0::/\n"), Cgroups::V2 { swap: false });
    }

    #[test]
    fn on_version_2_a_container_dies_as_a_whole_and_does_not_swap() {
        let both = map(&[("memory.oom.group", "1"), ("memory.swap.max", "0")]);
        assert_eq!(Cgroups::V2 { swap: true }.files(None).unwrap(), both);
        assert_eq!(Cgroups::V2 { swap: false }.files(Some(false)).unwrap(), map(&[("memory.oom.group", "1")]));
        assert_eq!(Cgroups::V2 { swap: false }.files(Some(true)).unwrap(), map(&[]));
    }

    #[test]
    fn version_1_cannot_kill_a_container_as_a_whole() {
        assert_eq!(Cgroups::V1.files(None).unwrap(), map(&[]));
        assert_eq!(Cgroups::V1.files(Some(true)).unwrap(), map(&[]));
        let error = Cgroups::V1.files(Some(false)).unwrap_err().to_string();
        assert!(error.contains("singleProcessOOMKill"), "{error}");
    }
}
