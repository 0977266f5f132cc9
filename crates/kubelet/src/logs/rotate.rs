//! Keeps log files small: a file that has grown too big moves away and the runtime opens a new one.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    cri::{describe, v1},
    node::Node,
};

/// How often sizes are checked (upstream's `containerLogMonitorInterval`).
const EVERY: Duration = Duration::from_secs(10);

/// When to rotate and how many files to keep, the current one included.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) size: u64,
    pub(crate) files: usize,
}

/// Rotates for ever.
pub(crate) async fn run(node: &Node, limits: Limits) {
    loop {
        tokio::time::sleep(EVERY).await;
        let running = v1::ContainerStateValue { state: v1::ContainerState::ContainerRunning as i32 };
        let filter = v1::ContainerFilter { state: Some(running), ..Default::default() };
        let listed = node.cri.list_containers(v1::ListContainersRequest { filter: Some(filter) }).await;
        for container in listed.map(|l| l.containers).unwrap_or_default() {
            if let Err(error) = check(node, &container.id, limits).await {
                tracing::warn!(node = node.name, container = container.id, error, "rotate container log");
            }
        }
    }
}

async fn check(node: &Node, id: &str, limits: Limits) -> Result<(), String> {
    let request = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
    let answer = node.cri.container_status(request).await.map_err(|e| describe(&e))?;
    let path = PathBuf::from(answer.status.unwrap_or_default().log_path);
    let Ok(metadata) = tokio::fs::metadata(&path).await else { return Ok(()) };
    if metadata.len() < limits.size {
        return Ok(());
    }
    remove_oldest(&path, limits.files.saturating_sub(2)).await.map_err(|e| e.to_string())?;
    let stamp = node.now().strftime("%Y%m%d-%H%M%S").to_string();
    let moved = path.with_extension(format!("log.{stamp}"));
    tokio::fs::rename(&path, &moved).await.map_err(|e| format!("move {path:?}: {e}"))?;
    let request = v1::ReopenContainerLogRequest { container_id: id.to_owned() };
    if let Err(error) = node.cri.reopen_container_log(request).await {
        // Whatever the container writes still goes to the old file: give it its name back.
        tokio::fs::rename(&moved, &path).await.map_err(|e| e.to_string())?;
        return Err(describe(&error));
    }
    Ok(())
}

/// Removes a log and all that was rotated from it.
pub(crate) async fn remove(path: &Path) -> std::io::Result<()> {
    let absent = |error: std::io::Error| if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) };
    remove_oldest(path, 0).await.or_else(absent)?;
    tokio::fs::remove_file(path).await.or_else(absent)
}

/// Leaves the newest `keep` of the files rotated from `path`.
async fn remove_oldest(path: &Path, keep: usize) -> std::io::Result<()> {
    let prefix = format!("{}.", path.file_name().unwrap_or_default().to_string_lossy());
    let Some(directory) = path.parent() else { return Ok(()) };
    let mut rotated = vec![];
    let mut entries = tokio::fs::read_dir(directory).await?;
    while let Some(entry) = entries.next_entry().await? {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            rotated.push(entry.path());
        }
    }
    rotated.sort();
    let surplus = rotated.len().saturating_sub(keep);
    for old in &rotated[..surplus] {
        tokio::fs::remove_file(old).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_go_first() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["0.log", "0.log.20260101-000000", "0.log.20260102-000000", "0.log.20260103-000000", "1.log.20260101-000000"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        remove_oldest(&directory.path().join("0.log"), 1).await.unwrap();
        let mut left: Vec<String> =
            std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["0.log", "0.log.20260103-000000", "1.log.20260101-000000"]);
    }
}
