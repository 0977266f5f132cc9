//! What can go wrong in storage, and the one place that turns it into a `Status`.

use apimachinery::gvk::GroupResource;
use apimachinery::status::Status;

use super::Revision;

/// A storage operation that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// There is no such object.
    #[error("key not found: {key}")]
    NotFound {
        /// Full key.
        key: String,
    },
    /// There is one already.
    #[error("key exists: {key}")]
    Exists {
        /// Full key.
        key: String,
    },
    /// A precondition does not hold. The text is the one upstream's clients know.
    #[error("StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {reason}")]
    Precondition {
        /// Full key.
        key: String,
        /// Which, and both values.
        reason: String,
    },
    /// The revision's history is gone.
    #[error("required revision {requested} has been compacted")]
    Compacted {
        /// What was asked for.
        requested: Revision,
        /// The oldest revision still readable, where known.
        oldest: Option<Revision>,
        /// A token to go on with the list inconsistently; empty if there is none.
        continue_token: String,
    },
    /// The revision is not reached yet.
    #[error("Too large resource version: {requested}, current: {current}")]
    FutureRevision {
        /// What was asked for.
        requested: Revision,
        /// Where the store is.
        current: Revision,
    },
    /// A continue token nobody issued.
    #[error("continue key is not valid: {0}")]
    BadContinue(String),
    /// The store did not answer in time, says that it could not do so, or went away; a write may or may not have happened.
    #[error("{0}")]
    Timeout(String),
    /// The store answered with something unexpected.
    #[error("{0}")]
    Store(String),
    /// A stored value cannot be read.
    #[error("unable to decode the object stored at {key}")]
    Decode {
        /// Full key.
        key: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Too many writers at once: the update lost every one of its attempts.
    #[error("the object at {key} changed during every attempt to update it")]
    Contended {
        /// Full key.
        key: String,
    },
    /// The caller's updater or validator said no.
    #[error("{0}")]
    Rejected(Box<Status>),
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Rejected(Box::new(status))
    }
}

/// What the caller was doing: upstream words the same failure differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Reading one object.
    Get,
    /// Reading many.
    List,
    /// Following.
    Watch,
    /// Creating.
    Create,
    /// Updating or patching.
    Update,
    /// Deleting one or many.
    Delete,
}

const LIST_EXPIRED: &str = "The resourceVersion for the provided list is too old.";
const WATCH_EXPIRED: &str = "The resourceVersion for the provided watch is too old.";
const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list \
     without the continue parameter.";
const CONTINUE_EXPIRED_GO_ON: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new \
     list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing \
     with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first \
     chunk was returned and now may show up in the list.";

impl Error {
    /// The answer a client gets; `name` is the object's, where there is one. Upstream: `storeerr.Interpret*Error`.
    pub(crate) fn into_status(self, verb: Verb, resource: &GroupResource, name: &str) -> Status {
        let message = self.to_string();
        match self {
            Self::Rejected(status) => *status,
            Self::NotFound { .. } => Status::not_found(resource, name),
            Self::Exists { .. } => Status::already_exists(resource, name),
            Self::Precondition { .. } | Self::Contended { .. } => Status::conflict(resource, name, message),
            Self::Compacted { requested, oldest, continue_token } => expired(verb, requested, oldest, continue_token),
            Self::FutureRevision { requested, current } => Status::resource_version_too_large(requested, current, 1),
            Self::BadContinue(_) => Status::bad_request(format!("invalid continue token: {message}")),
            Self::Timeout(_) => Status::timeout(format!("request did not complete within requested timeout - {message}"), 0),
            // Upstream hands on the store's own text, without a reason.
            Self::Store(_) => Status::failure(500, "", message),
            Self::Decode { .. } => Status::internal(message),
        }
    }
}

fn expired(verb: Verb, requested: Revision, oldest: Option<Revision>, continue_token: String) -> Status {
    match (verb, oldest) {
        (Verb::Watch, Some(oldest)) => Status::expired(format!("too old resource version: {requested} ({oldest})")),
        (Verb::Watch, None) => Status::expired(WATCH_EXPIRED),
        _ if requested == 0 && continue_token.is_empty() => Status::expired(CONTINUE_EXPIRED),
        _ if !continue_token.is_empty() => {
            let mut status = Status::expired(CONTINUE_EXPIRED_GO_ON);
            status.metadata.insert("continue".into(), continue_token.into());
            status
        }
        _ => Status::expired(LIST_EXPIRED),
    }
}
