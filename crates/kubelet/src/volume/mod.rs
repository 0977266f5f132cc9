//! A pod's volumes on this node: set up before its containers start, kept current, removed after its end.

pub(crate) mod atomic;
pub(crate) mod objects;
pub(crate) mod ownership;
pub(crate) mod payload;
pub(crate) mod token;

use std::{
    collections::HashMap,
    path::{Component, Path, PathBuf},
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use k8s_openapi::api::core::v1::{Pod, Volume};
use parking_lot::Mutex;

use crate::{
    node::{Node, paths::Paths},
    pod::facts,
};

/// First and last wait after volumes could not be set up.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(122));

/// Where a mount comes from.
pub(crate) struct Host {
    pub(crate) path: PathBuf,
    pub(crate) read_only: bool,
}

/// Volumes of one node's pods.
pub(crate) struct Volumes {
    node: OnceLock<Weak<Node>>,
    retries: Mutex<HashMap<String, Duration>>,
}

impl Volumes {
    pub(crate) fn new() -> Self {
        Self { node: OnceLock::new(), retries: Mutex::default() }
    }

    /// Ties the volumes to their node; once, before the first pod.
    pub(crate) fn attach(&self, node: &Arc<Node>) {
        let _ = self.node.set(Arc::downgrade(node));
    }

    fn node(&self) -> Option<Arc<Node>> {
        self.node.get().and_then(Weak::upgrade)
    }

    /// Sets up or refreshes all volumes of the pod; on failure tells an event and says how long to wait.
    pub(crate) async fn ensure(&self, pod: &Pod) -> Result<(), Duration> {
        let Some(node) = self.node() else { return Ok(()) };
        if node.simulated {
            return Ok(());
        }
        let directory = node.paths.pod(facts::uid(pod));
        if let Err(error) = tokio::fs::create_dir_all(&directory).await {
            tracing::warn!(directory = %directory.display(), %error, "create pod directory");
            return Err(RETRY.0 * 10);
        }
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            if let Err(error) = set_up(&node, pod, volume).await {
                let text = format!("MountVolume.SetUp failed for volume {:?} : {error}", volume.name);
                node.events.pod(pod, None, "Warning", "FailedMount", &text);
                let mut retries = self.retries.lock();
                let wait = retries.entry(facts::uid(pod).to_owned()).or_insert(RETRY.0);
                let now = *wait;
                *wait = (now * 2).min(RETRY.1);
                return Err(now);
            }
        }
        self.retries.lock().remove(facts::uid(pod));
        Ok(())
    }

    /// The host path of a volume of the pod, or of a path within it.
    pub(crate) async fn host_path(&self, pod: &Pod, name: &str, sub_path: Option<&str>) -> Result<Host, String> {
        let node = self.node().ok_or("the kubelet stops")?;
        let volume = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten()).find(|v| v.name == name);
        let volume = volume.ok_or_else(|| format!("volume {name:?} is not among the pod's volumes"))?;
        let base = location(&node.paths, pod, volume);
        let read_only = payload::is_api_backed(volume);
        let Some(sub_path) = sub_path else { return Ok(Host { path: base, read_only }) };
        let path = within(&base, sub_path)?;
        if !tokio::fs::try_exists(&path).await.unwrap_or(false) && !read_only {
            tokio::fs::create_dir_all(&path)
                .await
                .map_err(|e| format!("failed to create subPath directory for volumeMount {name:?}: {e}"))?;
        }
        let real = tokio::fs::canonicalize(&path).await.map_err(|e| format!("failed to prepare subPath for volumeMount {name:?}: {e}"))?;
        let root = tokio::fs::canonicalize(&base).await.map_err(|e| format!("failed to prepare subPath for volumeMount {name:?}: {e}"))?;
        // A container may have put a symlink there.
        if !real.starts_with(&root) {
            return Err(format!("subpath {sub_path:?} not within volume path {:?}", base.display()));
        }
        Ok(Host { path: real, read_only })
    }

    /// Forgets the pod; its files go with the pod's directory.
    pub(crate) fn forget(&self, uid: &str) {
        self.retries.lock().remove(uid);
    }
}

/// `base/sub`, which must stay below `base`.
fn within(base: &Path, sub: &str) -> Result<PathBuf, String> {
    let sub_path = Path::new(sub);
    let inside = sub_path.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    if inside { Ok(base.join(sub_path)) } else { Err(format!("subPath {sub:?} must be relative and not contain '..'")) }
}

/// Where a volume lies on the host.
fn location(paths: &Paths, pod: &Pod, volume: &Volume) -> PathBuf {
    if let Some(host) = &volume.host_path {
        return PathBuf::from(&host.path);
    }
    paths.volume(facts::uid(pod), payload::plugin(volume), &volume.name)
}

async fn set_up(node: &Arc<Node>, pod: &Pod, volume: &Volume) -> Result<(), String> {
    let path = location(&node.paths, pod, volume);
    if let Some(host) = &volume.host_path {
        return host_path(&path, host.type_.as_deref().unwrap_or_default()).await;
    }
    if volume.empty_dir.is_some() {
        return empty_dir(pod, &path).await;
    }
    if !payload::is_api_backed(volume) {
        return Err("this kind of volume is not supported by this kubelet".into());
    }
    let files = payload::files(node, pod, volume).await?;
    let group = ownership::fs_group(pod);
    let target = path.clone();
    tokio::task::spawn_blocking(move || atomic::write(&target, &files).and_then(|()| ownership::apply(&target, group)))
        .await
        .map_err(|e| e.to_string())?
        .map_err(|e| format!("write {path:?}: {e}"))
}

async fn empty_dir(pod: &Pod, path: &Path) -> Result<(), String> {
    if tokio::fs::try_exists(path).await.unwrap_or(false) {
        return Ok(());
    }
    let (target, group) = (path.to_owned(), ownership::fs_group(pod));
    let made = tokio::task::spawn_blocking(move || {
        std::fs::create_dir_all(&target)?;
        std::fs::set_permissions(&target, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
        ownership::apply(&target, group)
    });
    made.await.map_err(|e| e.to_string())?.map_err(|e| format!("create {path:?}: {e}"))
}

/// Checks or creates a host path as its type says.
async fn host_path(path: &Path, kind: &str) -> Result<(), String> {
    use std::os::unix::fs::FileTypeExt;
    let found = tokio::fs::metadata(path).await.ok();
    let make = |result: std::io::Result<()>| result.map_err(|e| format!("create host path {path:?}: {e}"));
    let is =
        |fits: bool, what: &str| if fits { Ok(()) } else { Err(format!("hostPath type check failed: {} is not {what}", path.display())) };
    let kind_of = found.as_ref().map(std::fs::Metadata::file_type);
    match kind {
        "" => Ok(()),
        "DirectoryOrCreate" if found.is_none() => make(tokio::fs::create_dir_all(path).await),
        "FileOrCreate" if found.is_none() => make(tokio::fs::write(path, b"").await),
        "DirectoryOrCreate" | "Directory" => is(kind_of.is_some_and(|k| k.is_dir()), "a directory"),
        "FileOrCreate" | "File" => is(kind_of.is_some_and(|k| k.is_file()), "a file"),
        "Socket" => is(kind_of.is_some_and(|k| k.is_socket()), "a socket file"),
        "CharDevice" => is(kind_of.is_some_and(|k| k.is_char_device()), "a character device"),
        "BlockDevice" => is(kind_of.is_some_and(|k| k.is_block_device()), "a block device"),
        other => Err(format!("{other:?} is not a hostPath type")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sub_path_stays_within_its_volume() {
        let base = Path::new("/v");
        assert_eq!(within(base, "a/b").unwrap(), Path::new("/v/a/b"));
        assert!(within(base, "../b").is_err());
        assert!(within(base, "/etc").is_err());
    }
}
