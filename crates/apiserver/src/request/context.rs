//! What travels with one request from the handler down to storage.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{RequestInfo, UserInfo};

/// How unknown and duplicate fields in a body are answered (`?fieldValidation=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Dropped silently.
    Ignore,
    /// Dropped, with a `Warning` header each.
    #[default]
    Warn,
    /// A 400 naming them all.
    Strict,
}

/// Warnings collected while a request is served; sent as `Warning: 299 - "…"` headers, each text once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Adds one warning unless its text is there already.
    pub(crate) fn add(&self, text: impl Into<String>) {
        let text = text.into();
        let mut list = self.0.lock();
        if !text.is_empty() && !list.contains(&text) {
            list.push(text);
        }
    }

    /// The warnings so far, in order of appearance.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// One request as handlers, strategies and admission plugins see it.
#[derive(Clone, Debug)]
pub(crate) struct RequestContext {
    /// The caller, after impersonation.
    pub(crate) user: UserInfo,
    /// Path, verb, resource, namespace and name.
    pub(crate) info: RequestInfo,
    /// `dryRun=All`: run everything, store nothing.
    pub(crate) dry_run: bool,
    /// The name changes are attributed to in `managedFields`; from `?fieldManager=` or the user agent.
    pub(crate) field_manager: String,
    /// `?fieldValidation=`.
    pub(crate) field_validation: FieldValidation,
    /// When the request arrived; the only clock strategies may use.
    pub(crate) now: jiff::Timestamp,
    /// Where warnings go.
    pub(crate) warnings: Warnings,
}

impl RequestContext {
    /// The namespace in the path, empty for cluster-scoped requests.
    pub(crate) fn namespace(&self) -> &str {
        &self.info.namespace
    }

    /// The verb as RBAC names it.
    pub(crate) fn verb(&self) -> &str {
        self.info.verb
    }

    /// Adds a warning to the answer.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.warnings.add(text);
    }
}

#[cfg(test)]
impl RequestContext {
    /// The request of an administrator at a fixed time.
    pub(crate) fn for_tests() -> Self {
        Self {
            user: UserInfo::new("admin", &[super::user::PRIVILEGED_GROUP]),
            info: RequestInfo::default(),
            dry_run: false,
            field_manager: "tests".into(),
            field_validation: FieldValidation::default(),
            now: jiff::Timestamp::UNIX_EPOCH,
            warnings: Warnings::default(),
        }
    }
}
