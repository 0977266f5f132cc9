//! Where a probe goes: host, port (by number or name), path and headers.

use k8s_openapi::{
    api::core::v1::{Container, HTTPGetAction, TCPSocketAction},
    apimachinery::pkg::util::intstr::IntOrString,
};

/// An HTTP request of a probe or hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Http {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Http {
    /// The URL as it appears in messages.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority(), self.path)
    }

    /// `host:port`.
    pub(crate) fn authority(&self) -> String {
        authority(&self.host, self.port)
    }
}

fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn port(container: &Container, port: &IntOrString) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|p| p.name.as_ref() == Some(name)).map(|p| p.container_port);
            let number = named.or_else(|| name.parse().ok());
            number.ok_or_else(|| format!("couldn't find port: {name:?} in container {:?}", container.name))?
        }
    };
    u16::try_from(number).ok().filter(|n| *n > 0).ok_or_else(|| format!("invalid port number: {number}"))
}

/// The request of an `httpGet` action.
pub(crate) fn http(container: &Container, get: &HTTPGetAction, ip: Option<&str>) -> Result<Http, String> {
    let host = get.host.as_deref().filter(|h| !h.is_empty()).or(ip).ok_or("the pod has no address yet")?;
    let path = get.path.as_deref().unwrap_or("/");
    Ok(Http {
        tls: get.scheme.as_deref() == Some("HTTPS"),
        host: host.to_owned(),
        port: port(container, &get.port)?,
        path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
        headers: get.http_headers.iter().flatten().map(|h| (h.name.clone(), h.value.clone())).collect(),
    })
}

/// The address of a `tcpSocket` action.
pub(crate) fn tcp(container: &Container, socket: &TCPSocketAction, ip: Option<&str>) -> Result<String, String> {
    let host = socket.host.as_deref().filter(|h| !h.is_empty()).or(ip).ok_or("the pod has no address yet")?;
    Ok(authority(host, port(container, &socket.port)?))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ContainerPort;

    use super::*;

    #[test]
    fn finds_ports_by_name() {
        let http_port = ContainerPort { name: Some("http".into()), container_port: 8080, ..Default::default() };
        let container = Container { name: "web".into(), ports: Some(vec![http_port]), ..Default::default() };
        let get = |port: &str| HTTPGetAction { port: IntOrString::String(port.into()), path: Some("healthz".into()), ..Default::default() };
        assert_eq!(http(&container, &get("http"), Some("10.0.0.1")).unwrap().url(), "http://10.0.0.1:8080/healthz");
        assert!(http(&container, &get("nope"), Some("10.0.0.1")).is_err());
        assert!(http(&container, &get("http"), None).is_err());
    }
}
