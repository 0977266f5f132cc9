//! Which resources the API server serves, each in its preferred version.

use kube::{
    Client,
    api::ApiResource,
    client::{APIGroupDiscovery, APIResourceDiscovery},
};

/// One resource that can be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// How to address it.
    pub(crate) resource: ApiResource,
    /// Whether its objects live in namespaces.
    pub(crate) namespaced: bool,
    /// Whether it has a scale.
    pub(crate) scales: bool,
    verbs: Vec<String>,
    /// Every `group/version` that serves it.
    versions: Vec<String>,
}

impl Served {
    /// Whether it takes all of `verbs`.
    pub(crate) fn takes(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.iter().any(|taken| taken == verb))
    }

    /// `plural.group`, or the plural alone in the core group.
    pub(crate) fn name(&self) -> String {
        match self.resource.group.as_str() {
            "" => self.resource.plural.clone(),
            group => format!("{}.{group}", self.resource.plural),
        }
    }

    /// Whether its objects are of that kind in that version.
    pub(crate) fn is(&self, api_version: &str, kind: &str) -> bool {
        self.resource.kind == kind && self.versions.iter().any(|version| version == api_version)
    }
}

/// What the server serves, and the groups it could not tell about just now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Discovered {
    pub(crate) resources: Vec<Served>,
    pub(crate) failed: Vec<String>,
}

/// Asks the server for everything it serves.
///
/// # Errors
/// The server does not answer, or does not know aggregated discovery.
pub(crate) async fn discover(client: &Client) -> anyhow::Result<Discovered> {
    let core = client.list_core_api_versions_aggregated().await?;
    let groups = client.list_api_groups_aggregated().await?;
    anyhow::ensure!(!core.items.is_empty(), "the API server did not answer with aggregated discovery");
    let mut discovered = Discovered::default();
    for group in core.items.into_iter().chain(groups.items) {
        add(&mut discovered, group);
    }
    Ok(discovered)
}

/// Adds each resource of a group in the first version that has it: versions come in order of preference.
fn add(discovered: &mut Discovered, group: APIGroupDiscovery) {
    let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
    let first = discovered.resources.len();
    for version in group.versions {
        let number = version.version.unwrap_or_default();
        if version.freshness.as_deref() == Some("Stale") {
            discovered.failed.push(if name.is_empty() { number } else { format!("{name}/{number}") });
            continue;
        }
        for resource in version.resources {
            let Some(mut served) = served(&name, &number, resource) else { continue };
            let preferred = discovered.resources[first..].iter_mut().find(|known| known.resource.plural == served.resource.plural);
            match preferred {
                Some(preferred) => preferred.versions.append(&mut served.versions),
                None => discovered.resources.push(served),
            }
        }
    }
}

fn served(group: &str, version: &str, resource: APIResourceDiscovery) -> Option<Served> {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(Served {
        versions: vec![api_version.clone()],
        scales: resource.subresources.iter().any(|subresource| subresource.subresource.as_deref() == Some("scale")),
        resource: ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version,
            kind: resource.response_kind?.kind?,
            plural: resource.resource?,
        },
        namespaced: resource.scope.as_deref() == Some("Namespaced"),
        verbs: resource.verbs,
    })
}

#[cfg(test)]
mod tests {
    use super::{Discovered, add};

    #[test]
    fn takes_each_resource_in_the_preferred_version() {
        let resource = |name: &str, kind: &str| serde_json::json!({"resource": name, "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": ["list"]});
        let group = serde_json::json!({
            "metadata": {"name": "batch"},
            "versions": [
                {"version": "v1", "resources": [resource("jobs", "Job")]},
                {"version": "v1beta1", "resources": [resource("jobs", "Job"), resource("cronjobs", "CronJob")]},
                {"version": "v0", "freshness": "Stale"},
            ],
        });
        let mut discovered = Discovered::default();
        add(&mut discovered, serde_json::from_value(group).unwrap());
        let found: Vec<_> =
            discovered.resources.iter().map(|served| format!("{}.{}", served.resource.plural, served.resource.version)).collect();
        assert_eq!(found, ["jobs.v1", "cronjobs.v1beta1"]);
        assert_eq!(discovered.failed, ["batch/v0"]);
        let jobs = &discovered.resources[0];
        assert!(jobs.is("batch/v1", "Job") && jobs.is("batch/v1beta1", "Job") && !jobs.is("batch/v0", "Job"));
        assert!(discovered.resources[0].takes(&["list"]) && !discovered.resources[0].takes(&["list", "delete"]));
    }
}
