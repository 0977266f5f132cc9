//! Work that waits for a disk, done where it keeps nobody else waiting.

use std::{fmt, io, sync::Arc};

use futures::future::BoxFuture;

/// Simulated time that passes before a piece of work is done.
pub type Pause = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// Where the work of a database is done.
#[derive(Clone, Default)]
pub enum Offload {
    /// On threads for blocking work.
    #[default]
    Threads,
    /// In place, after a pause: a simulated disk blocks nobody, and threads would come to their end in any order.
    InPlace(Pause),
}

impl Offload {
    /// Does a piece of work.
    ///
    /// # Errors
    /// The process ends before it is done.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        match self {
            Offload::Threads => tokio::task::spawn_blocking(work).await.map_err(io::Error::other),
            Offload::InPlace(pause) => {
                pause().await;
                Ok(work())
            }
        }
    }
}

impl fmt::Debug for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Offload::Threads => "Threads",
            Offload::InPlace(_) => "InPlace",
        })
    }
}
