//! `fsGroup`: volumes readable (and writable where they are) by a group.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

use k8s_openapi::api::core::v1::Pod;

/// The pod's `fsGroup`.
pub(crate) fn fs_group(pod: &Pod) -> Option<u32> {
    let context = pod.spec.as_ref().and_then(|s| s.security_context.as_ref())?;
    context.fs_group.and_then(|group| u32::try_from(group).ok())
}

/// Gives a tree to the group; new files in its directories will belong to it too. Nothing to do without a group, nor for
/// a kubelet that is not root: its containers run as its own user.
pub(crate) fn apply(path: &Path, group: Option<u32>) -> io::Result<()> {
    let Some(group) = group.filter(|_| nix::unistd::geteuid().is_root()) else { return Ok(()) };
    walk(path, group)
}

fn walk(path: &Path, group: u32) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    std::os::unix::fs::lchown(path, None, Some(group))?;
    if metadata.is_symlink() {
        return Ok(());
    }
    let mode = metadata.permissions().mode();
    let more = if metadata.is_dir() { 0o2070 } else { 0o060 & (mode >> 3 | 0o040) };
    fs::set_permissions(path, fs::Permissions::from_mode(mode | more))?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            walk(&entry?.path(), group)?;
        }
    }
    Ok(())
}
