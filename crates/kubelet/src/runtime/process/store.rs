//! The process runtime's records on disk: one JSON file per sandbox, one directory per container.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{pid::Process, shim};
use crate::cri::v1;

/// A sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Sandbox {
    pub(super) status: v1::PodSandboxStatus,
    pub(super) log_directory: String,
}

/// A container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Container {
    pub(super) sandbox_id: String,
    pub(super) status: v1::ContainerStatus,
    pub(super) instructions: shim::Instructions,
    pub(super) shim: Option<Process>,
    pub(super) process: Option<Process>,
}

impl Container {
    pub(super) fn is_running(&self) -> bool {
        self.status.state == v1::ContainerState::ContainerRunning as i32
    }

    pub(super) fn exited(&mut self, code: i32, at: i64) {
        self.status.state = v1::ContainerState::ContainerExited as i32;
        self.status.exit_code = code;
        self.status.finished_at = at;
        self.status.reason = if code == 0 { "Completed" } else { "Error" }.into();
    }
}

/// The directory of the runtime.
pub(super) struct Store {
    sandboxes: PathBuf,
    containers: PathBuf,
}

impl Store {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let store = Self { sandboxes: root.join("sandboxes"), containers: root.join("containers") };
        fs::create_dir_all(&store.sandboxes)?;
        fs::create_dir_all(&store.containers)?;
        Ok(store)
    }

    pub(super) fn container_directory(&self, id: &str) -> PathBuf {
        self.containers.join(id)
    }

    /// All records. One that cannot be read was never finished writing, and is removed.
    pub(super) fn load(&self) -> io::Result<(BTreeMap<String, Sandbox>, BTreeMap<String, Container>)> {
        let mut sandboxes = BTreeMap::new();
        for entry in fs::read_dir(&self.sandboxes)? {
            let path = entry?.path();
            let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            match read(&path) {
                Some(sandbox) => drop(sandboxes.insert(id, sandbox)),
                None => fs::remove_file(&path)?,
            }
        }
        let mut containers = BTreeMap::new();
        for entry in fs::read_dir(&self.containers)? {
            let path = entry?.path();
            let id = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match read(&path.join("container.json")) {
                Some(container) => drop(containers.insert(id, container)),
                None => fs::remove_dir_all(&path)?,
            }
        }
        Ok((sandboxes, containers))
    }

    pub(super) fn save_sandbox(&self, id: &str, sandbox: &Sandbox) -> io::Result<()> {
        write(&self.sandboxes.join(format!("{id}.json")), sandbox)
    }

    pub(super) fn save_container(&self, id: &str, container: &Container) -> io::Result<()> {
        let directory = self.container_directory(id);
        fs::create_dir_all(&directory)?;
        write(&directory.join(shim::INSTRUCTIONS), &container.instructions)?;
        write(&directory.join("container.json"), container)
    }

    /// Sees whether a running container's process has ended, and records it.
    pub(super) fn refresh(&self, id: &str, container: &mut Container, now: i64) {
        let directory = self.container_directory(id);
        if let Some(exit) = read::<shim::Exit>(&directory.join(shim::EXIT)) {
            container.exited(exit.code, exit.finished_at);
        } else if !container.shim.is_some_and(Process::alive) && !container.process.is_some_and(Process::alive) {
            // The shim may have written it between the two looks.
            match read::<shim::Exit>(&directory.join(shim::EXIT)) {
                Some(exit) => container.exited(exit.code, exit.finished_at),
                None => {
                    container.exited(137, now);
                    container.status.message = "the process ended and left no exit code".into();
                }
            }
        } else {
            return;
        }
        if let Err(error) = self.save_container(id, container) {
            tracing::warn!(container = id, %error, "record the end of a container");
        }
    }

    pub(super) fn remove_sandbox(&self, id: &str) -> io::Result<()> {
        absent_is_fine(fs::remove_file(self.sandboxes.join(format!("{id}.json"))))
    }

    pub(super) fn remove_container(&self, id: &str) -> io::Result<()> {
        absent_is_fine(fs::remove_dir_all(self.container_directory(id)))
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Replaces a file as a whole.
pub(super) fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let staged = path.with_extension("tmp");
    fs::write(&staged, serde_json::to_vec(value)?)?;
    fs::rename(&staged, path)
}
