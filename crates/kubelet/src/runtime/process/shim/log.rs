//! The container's log file, reopened when it was moved away.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::logs::format;

/// The log file.
pub(super) struct Log {
    path: PathBuf,
    file: Mutex<File>,
}

impl Log {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let file = open(path).map_err(|e| format!("open log {path:?}: {e}"))?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    pub(super) fn reopen(&self) {
        if let Ok(file) = open(&self.path) {
            *self.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
        }
    }

    /// Writes the lines of a chunk of output; what comes after the last newline is marked as going on.
    pub(super) fn write(&self, stream: &str, chunk: &[u8]) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        for line in chunk.split_inclusive(|byte| *byte == b'\n') {
            let (text, partial) = match line.strip_suffix(b"\n") {
                Some(text) => (text, false),
                None => (line, true),
            };
            let _ = file.write_all(&format::line(jiff::Timestamp::now(), stream, text, partial));
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}
