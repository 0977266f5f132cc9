//! Flags that matter where several servers share the work, or several stores the objects.

use std::time::Duration;

use apimachinery::gvk::GroupResource;
use clap::Args;

/// Flags of a server that is one of several.
#[derive(Clone, Debug, Default, Args)]
pub struct Replicas {
    /// Stores of single resources, comma separated, each as group/resource#servers, where servers are URLs, semicolon separated.
    #[arg(long, value_delimiter = ',', value_parser = override_of)]
    pub etcd_servers_overrides: Vec<EtcdOverride>,
    /// Number of servers in the cluster. Nothing depends on it: live ones are counted by their leases.
    #[arg(long, default_value_t = 1, value_parser = count)]
    pub apiserver_count: u32,
    /// Who keeps the endpoints of the service `kubernetes`: every server that renews its lease (lease), or nobody (none).
    #[arg(long, default_value = "lease", value_parser = reconciler)]
    pub endpoint_reconciler_type: EndpointReconciler,
    /// Whether the server, when it stops, goes on listening until all is answered that it let in, and sends others away with 429.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    pub shutdown_send_retry_after: bool,
    /// How long the server, when it stops, waits for watches to end, which they do one by one.
    #[arg(long, default_value = "0s", value_parser = super::duration)]
    pub shutdown_watch_termination_grace_period: Duration,
}

/// `--endpoint-reconciler-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointReconciler {
    /// Servers that renew their lease in the store are led to.
    #[default]
    Lease,
    /// The endpoints are left alone.
    None,
}

/// One of `--etcd-servers-overrides`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdOverride {
    /// Whose objects lie there.
    pub resource: GroupResource,
    /// The store's servers.
    pub servers: Vec<String>,
}

fn override_of(text: &str) -> Result<EtcdOverride, String> {
    let parsed = || {
        let (resource, servers) = text.split_once('#')?;
        let (group, resource) = resource.split_once('/')?;
        let servers: Vec<String> = servers.split(';').map(str::to_owned).collect();
        let whole = !resource.is_empty() && !resource.contains('/') && servers.iter().all(|url| !url.is_empty() && !url.contains('#'));
        whole.then(|| EtcdOverride { resource: GroupResource::new(group, resource), servers })
    };
    parsed().ok_or_else(|| "must be of format: group/resource#servers, where servers are URLs, semicolon separated".to_owned())
}

fn reconciler(text: &str) -> Result<EndpointReconciler, String> {
    match text {
        "lease" => Ok(EndpointReconciler::Lease),
        "none" => Ok(EndpointReconciler::None),
        _ => Err("must be lease or none".to_owned()),
    }
}

fn count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        Err(error) if text.parse::<i64>().is_err() => Err(error.to_string()),
        _ => Err(format!("--apiserver-count should be a positive number, but value '{text}' provided")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_names_a_resource_and_its_servers() {
        let two = override_of("/events#https://a:2379;https://b:2379").unwrap();
        assert_eq!(two.resource, GroupResource::new("", "events"));
        assert_eq!(two.servers, ["https://a:2379", "https://b:2379"]);
        assert_eq!(override_of("coordination.k8s.io/leases#http://a:1").unwrap().resource.to_string(), "leases.coordination.k8s.io");
    }

    #[test]
    fn an_override_of_another_form_is_refused_with_the_right_one() {
        for text in [
            "/events/http://127.0.0.1:4002",
            "events#http://a:1",
            "/events#",
            "a/b/c#http://a:1",
            "/events#http://a:1#http://b:1",
            "/#http://a:1",
        ] {
            assert!(override_of(text).unwrap_err().starts_with("must be of format: group/resource#servers"), "{text}");
        }
    }

    #[test]
    fn there_is_at_least_one_server() {
        assert_eq!(count("3"), Ok(3));
        assert_eq!(count("0").unwrap_err(), "--apiserver-count should be a positive number, but value '0' provided");
        assert_eq!(count("-1").unwrap_err(), "--apiserver-count should be a positive number, but value '-1' provided");
        assert!(count("many").unwrap_err().contains("invalid digit"));
    }
}
