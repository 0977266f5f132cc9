//! Configuration files of upstream's kinds (KubeletConfiguration, KubeSchedulerConfiguration, …).

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// Why a configuration file was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("read config file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The content is not what the kind asks for.
    #[error("parse config file {path}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: serde_yaml_ng::Error,
    },
}

/// Reads a YAML or JSON file as `T`.
///
/// # Errors
/// Names the file and the first thing in it that does not fit.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    serde_yaml_ng::from_str(&text).map_err(|source| Error::Parse { path: path.to_owned(), source })
}
