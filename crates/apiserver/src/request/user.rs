//! The authenticated caller.

use std::collections::BTreeMap;

/// Who sends a request, as an authenticator found it (upstream's `user.Info`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UserInfo {
    /// The user name, e.g. `system:node:a`.
    pub(crate) name: String,
    /// A stable identifier where the authenticator has one (a service account's uid).
    pub(crate) uid: String,
    /// Groups, with `system:authenticated` or `system:unauthenticated` added.
    pub(crate) groups: Vec<String>,
    /// Further facts by key, e.g. `authentication.kubernetes.io/pod-name`.
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// Group of everybody who authenticated.
pub(crate) const ALL_AUTHENTICATED: &str = "system:authenticated";
/// Group of requests without credentials.
pub(crate) const ALL_UNAUTHENTICATED: &str = "system:unauthenticated";
/// The all-powerful group.
pub(crate) const PRIVILEGED_GROUP: &str = "system:masters";

impl UserInfo {
    /// A user with a name and groups only.
    pub(crate) fn new(name: impl Into<String>, groups: &[&str]) -> Self {
        Self { name: name.into(), groups: groups.iter().map(|g| (*g).to_owned()).collect(), ..Self::default() }
    }

    /// The API server itself, for its own loops.
    pub(crate) fn apiserver() -> Self {
        Self::new("system:apiserver", &[PRIVILEGED_GROUP, ALL_AUTHENTICATED])
    }

    /// A request without credentials.
    pub(crate) fn anonymous() -> Self {
        Self::new("system:anonymous", &[ALL_UNAUTHENTICATED])
    }

    /// Whether the user is in `group`.
    pub(crate) fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}
