//! Why a plugin said no.

/// Whether removing other pods from the node could change the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolvable {
    /// Upstream's `Unschedulable`.
    Yes,
    /// Upstream's `UnschedulableAndUnresolvable`.
    No,
}

/// A refusal with upstream's reason texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) plugin: &'static str,
    pub(crate) reasons: Vec<String>,
    pub(crate) resolvable: Resolvable,
}

impl Refusal {
    pub(crate) fn new(plugin: &'static str, reason: impl Into<String>) -> Self {
        Self { plugin, reasons: vec![reason.into()], resolvable: Resolvable::Yes }
    }

    pub(crate) fn unresolvable(plugin: &'static str, reason: impl Into<String>) -> Self {
        Self { plugin, reasons: vec![reason.into()], resolvable: Resolvable::No }
    }
}
