//! What can go wrong with a request.

use tonic::{Code, Status};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is no good.
    #[error("invalid endpoint or TLS configuration: {0}")]
    Config(String),
    /// The server's answer, or that there was none; the code and text are etcd's.
    #[error("{}", .0.message())]
    Status(#[source] Box<Status>),
    /// The revision asked for is compacted; watching can begin at the one given, or later.
    #[error("etcdserver: mvcc: required revision has been compacted")]
    Compacted {
        /// Oldest revision still there; 0 when not told.
        compact_revision: i64,
    },
    /// The server ended a watch for another reason.
    #[error("watch canceled: {0}")]
    WatchCanceled(String),
}

/// etcd's text for a compacted revision, whoever says it.
const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";

impl Error {
    /// The gRPC code, as etcd would give it.
    pub fn code(&self) -> Code {
        match self {
            Error::Config(_) => Code::InvalidArgument,
            Error::Status(status) => status.code(),
            Error::Compacted { .. } => Code::OutOfRange,
            Error::WatchCanceled(_) => Code::Cancelled,
        }
    }

    /// It was a compacted revision.
    pub fn is_compacted(&self) -> bool {
        matches!(self, Error::Compacted { .. })
    }

    pub(super) fn config(error: impl std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        Error::Config(text)
    }

    pub(super) fn deadline() -> Self {
        Status::deadline_exceeded("context deadline exceeded").into()
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        if status.code() == Code::OutOfRange && status.message() == COMPACTED {
            return Error::Compacted { compact_revision: 0 };
        }
        Error::Status(Box::new(status))
    }
}
