//! The table of admission plugins, in the order they run.

use std::sync::Arc;

use super::default_toleration_seconds::DefaultTolerationSeconds;
use super::namespace_lifecycle::NamespaceLifecycle;
use super::node_restriction::NodeRestriction;
use super::priority::Priority;
use super::service_account::ServiceAccount;
use super::taint_nodes_by_condition::TaintNodesByCondition;
use super::{Admission, Chain};
use crate::loopback::Loopback;

/// A flag names a plugin there is not.
#[derive(Debug, thiserror::Error)]
#[error("admission-control plugin {0:?} is unknown")]
pub(crate) struct Unknown(String);

/// One line of the table.
struct Plugin {
    plugin: Arc<dyn Admission>,
    /// Whether it runs unless a flag says otherwise.
    default: bool,
}

/// All plugins with what runs in their background; made once a server.
pub(crate) struct Plugins {
    table: Vec<Plugin>,
    namespaces: Arc<NamespaceLifecycle>,
    accounts: Arc<ServiceAccount>,
    priorities: Arc<Priority>,
}

impl Plugins {
    /// The plugins over the server's own API.
    pub(crate) fn new(api: &Loopback) -> Self {
        let namespaces = Arc::new(NamespaceLifecycle::new(api.clone()));
        let accounts = Arc::new(ServiceAccount::new(api.clone()));
        let priorities = Arc::new(Priority::new(api.clone()));
        let on = |plugin| Plugin { plugin, default: true };
        let off = |plugin| Plugin { plugin, default: false };
        // Later plugins see what earlier ones set.
        let table = vec![
            on(namespaces.clone() as Arc<dyn Admission>),
            on(accounts.clone()),
            off(Arc::new(NodeRestriction::new(api.clone()))),
            on(Arc::new(TaintNodesByCondition)),
            on(priorities.clone()),
            on(Arc::new(DefaultTolerationSeconds)),
        ];
        Self { table, namespaces, accounts, priorities }
    }

    /// The chain by `--enable-admission-plugins` and `--disable-admission-plugins`, with `always` behind it.
    pub(crate) fn chain(&self, enable: &[String], disable: &[String], always: Vec<Arc<dyn Admission>>) -> Result<Chain, Unknown> {
        let known = |name: &&String| self.table.iter().any(|line| line.plugin.name() == **name) || KNOWN_UPSTREAM.contains(&name.as_str());
        if let Some(unknown) = enable.iter().chain(disable).find(|name| !known(name)) {
            return Err(Unknown(unknown.clone()));
        }
        let named = |list: &[String], line: &Plugin| list.iter().any(|name| name == line.plugin.name());
        let enabled = self.table.iter().filter(|line| named(enable, line) || (line.default && !named(disable, line)));
        Ok(Chain::new(enabled.map(|line| line.plugin.clone()).chain(always).collect()))
    }

    /// Keeps the plugins' views of the cluster up to date; runs until dropped.
    pub(crate) async fn run(&self, api: &Loopback) {
        tokio::join!(self.namespaces.run(api), self.accounts.run(api), self.priorities.run(api));
    }
}

/// Plugins upstream has and this server has not yet: flags may name them, so that upstream's command lines work.
const KNOWN_UPSTREAM: &[&str] = &[
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "PodNodeSelector",
    "PodSecurity",
    "PodTolerationRestriction",
    "PodTopologyLabels",
    "ResourceQuota",
    "RuntimeClass",
    "StorageObjectInUseProtection",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn names(enable: &[&str], disable: &[&str]) -> Result<Vec<&'static str>, String> {
        let owned = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let chain = Plugins::new(&Loopback::default()).chain(&owned(enable), &owned(disable), Vec::new());
        chain.map(|chain| chain.0.iter().map(|plugin| plugin.name()).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_turn_plugins_on_and_off_and_never_change_their_order() {
        let defaults = ["NamespaceLifecycle", "ServiceAccount", "TaintNodesByCondition", "Priority", "DefaultTolerationSeconds"];
        assert_eq!(names(&[], &[]).unwrap(), defaults);
        let chain = names(&["NodeRestriction"], &["ServiceAccount"]).unwrap();
        assert_eq!(chain, ["NamespaceLifecycle", "NodeRestriction", "TaintNodesByCondition", "Priority", "DefaultTolerationSeconds"]);
        assert_eq!(names(&["Nonsense"], &[]).unwrap_err(), r#"admission-control plugin "Nonsense" is unknown"#);
    }
}
