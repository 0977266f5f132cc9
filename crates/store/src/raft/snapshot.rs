//! Snapshots: checkpoints of `kv/` that are sent to followers too far behind for the log.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt, stream};
use tonic::{Status, Streaming};

use super::{
    types::{SnapshotMeta, Vote},
    wire::{
        self,
        pb::{self, snapshot_message::Part},
    },
};
use crate::disk::Offload;

/// Bytes of a file in one message.
const CHUNK: usize = 256 << 10;

/// The files of one snapshot. They are deleted with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct Files(Arc<Directory>);

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    offload: Offload,
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Gone already when the snapshot was installed; anything else left behind is removed at the next start.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Files {
    /// Where they lie.
    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Names and sizes, in the order in which they are sent.
    pub(crate) fn list(&self) -> io::Result<Vec<pb::SnapshotFile>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.path())? {
            let entry = entry?;
            let name = entry.file_name().into_string().map_err(|name| io::Error::other(format!("file name {name:?}")))?;
            files.push(pb::SnapshotFile { name, size: entry.metadata()?.len() });
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    /// The messages that carry them: `header`, then the files it lists. A file that cannot be read cuts the stream
    /// short, which the receiver notices.
    pub(crate) fn messages(self, header: pb::SnapshotHeader) -> impl Stream<Item = pb::SnapshotMessage> + Send + 'static {
        let files = header.files.clone();
        let first = pb::SnapshotMessage { part: Some(Part::Header(header)) };
        let chunks = stream::iter(files).then(move |file| chunks(self.clone(), file));
        let chunks = chunks.flatten().take_while(|chunk| std::future::ready(chunk.is_some())).filter_map(std::future::ready);
        stream::once(std::future::ready(first)).chain(chunks)
    }
}

/// The chunks of one file, ended by `None` when it cannot be read.
async fn chunks(files: Files, file: pb::SnapshotFile) -> impl Stream<Item = Option<pb::SnapshotMessage>> + Send {
    let path = files.path().join(&file.name);
    let opened = files.0.offload.run(move || File::open(path)).await.flatten();
    stream::unfold((Some(opened), file.size, files), |(opened, left, files)| async move {
        let opened = match opened? {
            Ok(opened) if left > 0 => opened,
            Ok(_) => return None,
            Err(error) => return Some((lost(&error), (None, 0, files))),
        };
        let size = left.min(CHUNK as u64);
        match files.0.offload.run(move || read(opened, size as usize)).await.flatten() {
            Ok((opened, data)) => {
                let message = pb::SnapshotMessage { part: Some(Part::Chunk(pb::SnapshotChunk { data })) };
                Some((Some(message), (Some(Ok(opened)), left - size, files)))
            }
            Err(error) => Some((lost(&error), (None, 0, files))),
        }
    })
}

/// The next bytes of a file.
fn read(mut file: File, size: usize) -> io::Result<(File, Bytes)> {
    let mut data = BytesMut::zeroed(size);
    file.read_exact(&mut data)?;
    Ok((file, data.freeze()))
}

fn lost(error: &io::Error) -> Option<pb::SnapshotMessage> {
    tracing::warn!(%error, "a snapshot file cannot be read");
    None
}

/// A snapshot received whole.
pub(crate) struct Incoming {
    pub(crate) vote: Vote,
    pub(crate) meta: SnapshotMeta,
    pub(crate) files: Files,
}

/// The directory in which snapshots are made and received.
#[derive(Clone)]
pub(crate) struct Snapshots {
    directory: PathBuf,
    number: Arc<AtomicU64>,
    offload: Offload,
}

impl Snapshots {
    /// Starts empty: what an earlier run left is removed.
    pub(crate) fn open(directory: PathBuf, offload: Offload) -> io::Result<Self> {
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir_all(&directory)?,
        }
        Ok(Self { directory, number: Arc::default(), offload })
    }

    /// Where they lie.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A place for a new snapshot; the directory does not exist yet.
    pub(crate) fn place(&self) -> Files {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        Files(Arc::new(Directory { path: self.directory.join(number.to_string()), offload: self.offload.clone() }))
    }

    /// Receives a snapshot into files that are durable on return.
    pub(crate) async fn receive(&self, mut messages: Streaming<pb::SnapshotMessage>) -> Result<Incoming, Status> {
        let Some(pb::SnapshotMessage { part: Some(Part::Header(header)) }) = messages.message().await? else {
            return Err(Status::invalid_argument("a snapshot starts with its header"));
        };
        let garbled = |error: wire::Error| Status::invalid_argument(error.to_string());
        let vote = wire::vote(header.vote).map_err(garbled)?;
        let meta = header.meta.ok_or(wire::Error::Missing("the snapshot's position")).map_err(garbled)?;
        let files = self.place();
        let failed = |error: io::Error| Status::internal(format!("write snapshot: {error}"));
        let path = files.path().to_owned();
        self.offload.run(move || fs::create_dir(path)).await.flatten().map_err(failed)?;
        for file in header.files {
            self.write(files.path(), &file, &mut messages).await?;
        }
        let path = files.path().to_owned();
        self.offload.run(move || sync_directory(&path)).await.flatten().map_err(failed)?;
        Ok(Incoming { vote, meta: meta.try_into().map_err(garbled)?, files })
    }
    /// Writes one file from the next chunks.
    async fn write(&self, directory: &Path, file: &pb::SnapshotFile, messages: &mut Streaming<pb::SnapshotMessage>) -> Result<(), Status> {
        if file.name.contains(['/', '\0']) || file.name.starts_with('.') {
            return Err(Status::invalid_argument(format!("snapshot file name {:?}", file.name)));
        }
        let failed = |error: io::Error| Status::internal(format!("write snapshot file {}: {error}", file.name));
        let path = directory.join(&file.name);
        let mut out = self.offload.run(move || File::create_new(path)).await.flatten().map_err(failed)?;
        let mut left = file.size;
        while left > 0 {
            let Some(pb::SnapshotMessage { part: Some(Part::Chunk(chunk)) }) = messages.message().await? else {
                return Err(Status::data_loss(format!("snapshot file {} is cut short", file.name)));
            };
            let size = chunk.data.len() as u64;
            left = left.checked_sub(size).ok_or_else(|| Status::data_loss(format!("snapshot file {} is too long", file.name)))?;
            let written = self.offload.run(move || out.write_all(&chunk.data).map(|()| out));
            out = written.await.flatten().map_err(failed)?;
        }
        self.offload.run(move || out.sync_all()).await.flatten().map_err(failed)
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
