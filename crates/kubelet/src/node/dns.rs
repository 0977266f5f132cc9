//! Name resolution of pods.

use k8s_openapi::api::core::v1::Pod;

use crate::{cri::v1, pod::facts};

/// DNS settings of the node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dns {
    /// Addresses of the cluster's DNS servers; empty when there are none.
    pub(crate) servers: Vec<String>,
    /// `cluster.local`.
    pub(crate) domain: String,
    /// The node's own resolver configuration.
    pub(crate) host: Resolver,
}

/// A `resolv.conf`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Resolver {
    pub(crate) servers: Vec<String>,
    pub(crate) searches: Vec<String>,
    pub(crate) options: Vec<String>,
}

impl Resolver {
    /// Parses a `resolv.conf`.
    pub(crate) fn parse(text: &str) -> Self {
        let mut resolver = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let key = words.next();
            let values = words.map(str::to_owned);
            match key {
                Some("nameserver") => resolver.servers.extend(values.take(1)),
                Some("search") => resolver.searches = values.collect(),
                Some("options") => resolver.options.extend(values),
                _ => {}
            }
        }
        resolver
    }
}

impl Dns {
    /// The resolver configuration of a pod, by its DNS policy. Without cluster DNS, `ClusterFirst` falls back to the node's.
    pub(crate) fn config(&self, pod: &Pod) -> v1::DnsConfig {
        let spec = pod.spec.as_ref();
        let policy = spec.and_then(|s| s.dns_policy.as_deref()).unwrap_or("ClusterFirst");
        let cluster = match policy {
            "ClusterFirstWithHostNet" => true,
            "ClusterFirst" => !facts::host_network(pod),
            _ => false,
        };
        let mut config = if policy == "None" {
            v1::DnsConfig::default()
        } else if cluster && !self.servers.is_empty() {
            self.cluster(facts::namespace(pod))
        } else {
            let host = self.host.clone();
            v1::DnsConfig { servers: host.servers, searches: host.searches, options: host.options }
        };
        if let Some(own) = spec.and_then(|s| s.dns_config.as_ref()) {
            config.servers.extend(own.nameservers.clone().unwrap_or_default());
            config.searches.extend(own.searches.clone().unwrap_or_default());
            let option = |o: &k8s_openapi::api::core::v1::PodDNSConfigOption| {
                let name = o.name.clone().unwrap_or_default();
                o.value.as_ref().map_or(name.clone(), |value| format!("{name}:{value}"))
            };
            config.options.extend(own.options.iter().flatten().map(option));
        }
        config
    }

    fn cluster(&self, namespace: &str) -> v1::DnsConfig {
        let domain = &self.domain;
        let mut searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
        searches.extend(self.host.searches.clone());
        v1::DnsConfig { servers: self.servers.clone(), searches, options: vec!["ndots:5".into()] }
    }

    /// `subdomain.namespace.svc.domain` for a pod that has a subdomain.
    pub(crate) fn pod_domain(&self, pod: &Pod) -> Option<String> {
        let subdomain = pod.spec.as_ref()?.subdomain.as_deref().filter(|s| !s.is_empty())?;
        Some(format!("{subdomain}.{}.svc.{}", facts::namespace(pod), self.domain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_first_needs_cluster_dns() {
        let host = Resolver::parse("# x\nnameserver 192.0.2.1\nsearch example.com\noptions ndots:2\n");
        let mut dns = Dns { servers: vec![], domain: "cluster.local".into(), host };
        let mut pod = Pod::default();
        pod.metadata.namespace = Some("shop".into());
        assert_eq!(dns.config(&pod).servers, ["192.0.2.1"]);
        dns.servers = vec!["10.96.0.10".into()];
        let config = dns.config(&pod);
        assert_eq!(config.servers, ["10.96.0.10"]);
        assert_eq!(config.searches[0], "shop.svc.cluster.local");
        assert_eq!(config.searches[3], "example.com");
    }
}
