//! Every controller, in one table.

mod clusterrole_aggregation;
mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod garbage;
mod job;
mod namespace;
mod node;
mod pod_garbage;
mod replicaset;
mod root_ca;
mod service_account;
mod statefulset;

use anyhow::bail;
use futures::future::BoxFuture;

use crate::context::Context;

/// One controller.
#[derive(Clone, Copy)]
pub(crate) struct Descriptor {
    /// Name in `--controllers` and `/healthz`.
    pub(crate) name: &'static str,
    /// Older names `--controllers` still takes.
    pub(crate) aliases: &'static [&'static str],
    /// Service account in kube-system under which it acts.
    pub(crate) account: &'static str,
    /// Source of its events.
    pub(crate) source: &'static str,
    /// Runs it until its context's shutdown.
    pub(crate) run: fn(Context) -> BoxFuture<'static, ()>,
}

const fn controller(
    name: &'static str,
    aliases: &'static [&'static str],
    account: &'static str,
    source: &'static str,
    run: fn(Context) -> BoxFuture<'static, ()>,
) -> Descriptor {
    Descriptor { name, aliases, account, source, run }
}

/// All controllers.
pub(crate) fn all() -> Vec<Descriptor> {
    vec![
        controller(
            "serviceaccount-controller",
            &["serviceaccount"],
            "service-account-controller",
            "service-account-controller",
            service_account::run,
        ),
        controller(
            "root-ca-certificate-publisher-controller",
            &["root-ca-cert-publisher"],
            "root-ca-cert-publisher",
            "root-ca-cert-publisher",
            root_ca::run,
        ),
        controller(
            "clusterrole-aggregation-controller",
            &["clusterrole-aggregation"],
            "clusterrole-aggregation-controller",
            "clusterrole-aggregation-controller",
            clusterrole_aggregation::run,
        ),
        controller("deployment-controller", &["deployment"], "deployment-controller", "deployment-controller", deployment::run),
        controller("replicaset-controller", &["replicaset"], "replicaset-controller", "replicaset-controller", replicaset::run),
        controller("statefulset-controller", &["statefulset"], "statefulset-controller", "statefulset-controller", statefulset::run),
        controller("daemonset-controller", &["daemonset"], "daemon-set-controller", "daemonset-controller", daemonset::run),
        controller("job-controller", &["job"], "job-controller", "job-controller", job::run),
        controller("cronjob-controller", &["cronjob"], "cronjob-controller", "cronjob-controller", cronjob::run),
        controller("disruption-controller", &["disruption"], "disruption-controller", "controllermanager", disruption::run),
        controller(
            "ttl-after-finished-controller",
            &["ttl-after-finished"],
            "ttl-after-finished-controller",
            "ttl-after-finished-controller",
            job::run_ttl,
        ),
        controller(
            "endpointslice-controller",
            &["endpointslice"],
            "endpointslice-controller",
            "endpoint-slice-controller",
            endpoints::run_slices,
        ),
        controller("endpoints-controller", &["endpoint"], "endpoint-controller", "endpoint-controller", endpoints::run_endpoints),
        controller("namespace-controller", &["namespace"], "namespace-controller", "namespace-controller", namespace::run),
        controller(
            "garbage-collector-controller",
            &["garbagecollector"],
            "generic-garbage-collector",
            "garbage-collector-controller",
            garbage::run,
        ),
        controller("pod-garbage-collector-controller", &["podgc"], "pod-garbage-collector", "pod-garbage-collector", pod_garbage::run),
        controller("node-ipam-controller", &["nodeipam"], "node-controller", "cidrAllocator", node::run_ipam),
        controller("node-lifecycle-controller", &["nodelifecycle"], "node-controller", "node-controller", node::run_lifecycle),
        controller("taint-eviction-controller", &[], "node-controller", "taint-eviction-controller", node::run_eviction),
    ]
}

/// The controllers that `--controllers` switches on: what is named counts, then `*`; a leading minus switches off.
pub(crate) fn enabled(flags: &[String]) -> Vec<Descriptor> {
    let by_default = flags.iter().any(|flag| flag == "*");
    let chosen = |descriptor: &Descriptor| {
        let named = |flag: &str| flag == descriptor.name || descriptor.aliases.contains(&flag);
        let explicit = flags.iter().find(|flag| named(flag.strip_prefix('-').unwrap_or(flag)));
        explicit.map_or(by_default, |flag| !flag.starts_with('-'))
    };
    all().into_iter().filter(chosen).collect()
}

/// Fails on a name that no controller has.
pub(crate) fn check_names(flags: &[String]) -> anyhow::Result<()> {
    let all = all();
    for flag in flags {
        let name = flag.strip_prefix('-').unwrap_or(flag);
        let known = all.iter().any(|descriptor| descriptor.name == name || descriptor.aliases.contains(&name));
        if name != "*" && !known {
            bail!("{name:?} is not in the list of known controllers");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{all, enabled};

    fn names(flags: &[&str]) -> Vec<&'static str> {
        let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
        enabled(&flags).iter().map(|descriptor| descriptor.name).collect()
    }

    #[test]
    fn a_star_enables_all_but_those_with_a_minus() {
        let chosen = names(&["*", "-garbagecollector"]);
        assert_eq!(chosen.len(), all().len() - 1);
        assert!(!chosen.contains(&"garbage-collector-controller"));
    }

    #[test]
    fn without_a_star_only_the_named_run() {
        assert_eq!(names(&["deployment", "replicaset-controller"]), ["deployment-controller", "replicaset-controller"]);
    }
}
