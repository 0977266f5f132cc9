//! Reading and writing the files; each is replaced as a whole, since running parts read them again.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, lchown};
use std::path::Path;

use anyhow::Context;

pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

/// Writes a file that everybody may read.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    write_with_mode(path, text, 0o644)
}

/// Writes a file that only its owner may read.
pub(crate) fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    write_with_mode(path, text, 0o600)
}

fn write_with_mode(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    #[cfg(test)]
    kill::point()?;
    let parent = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let replace = || {
        // One that an interrupted run left behind may have another mode.
        let _ = std::fs::remove_file(&fresh);
        let mut file: File = OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)?;
        // What is written next must not outlive this: a certificate without its key serves nobody.
        File::open(parent)?.sync_all()
    };
    replace().with_context(|| format!("write {}", path.display()))
}

/// Hands everything below `directory` to the user to whom the directory itself belongs: root in a container writes for a
/// user outside.
pub(crate) fn hand_to_owner(directory: &Path) -> anyhow::Result<()> {
    let owner = directory.metadata().with_context(|| format!("read {}", directory.display()))?;
    hand_over(directory, owner.uid(), owner.gid())
}

fn hand_over(directory: &Path, user: u32, group: u32) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(directory).with_context(|| format!("read {}", directory.display()))? {
        let entry = entry.with_context(|| format!("read {}", directory.display()))?;
        let (path, meta) = (entry.path(), entry.metadata().with_context(|| format!("read {}", entry.path().display()))?);
        if (meta.uid(), meta.gid()) != (user, group) {
            // Never through a link: whoever owns the directory could have put one there since it was looked at.
            lchown(&path, Some(user), Some(group)).with_context(|| format!("change owner of {}", path.display()))?;
        }
        if meta.is_dir() {
            hand_over(&path, user, group)?;
        }
    }
    Ok(())
}

/// Ends a run after some of its writes, as a kill would: each of them is done as a whole or not at all.
#[cfg(test)]
pub(super) mod kill {
    use std::cell::Cell;

    thread_local!(static LEFT: Cell<Option<usize>> = const { Cell::new(None) });

    /// Lets this thread write so many more files; `None`: any number.
    pub(crate) fn after(writes: Option<usize>) {
        LEFT.set(writes);
    }

    pub(super) fn point() -> anyhow::Result<()> {
        let left = LEFT.get();
        anyhow::ensure!(left != Some(0), "killed");
        LEFT.set(left.map(|left| left - 1));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_private_file_stays_private_when_it_replaces_an_open_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b.key");
        write(&path, "for all").unwrap();
        write_private(&path, "for me").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "for me");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
