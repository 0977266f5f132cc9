//! Checks of IP addresses, ranges and host names, with upstream's messages.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::request::{RequestContext, UserInfo};

/// An IP address of either family. Leading zeros are refused, as Go's parser refuses them.
pub(crate) fn is_ip(text: &str) -> Vec<String> {
    match text.parse::<IpAddr>() {
        Ok(_) => Vec::new(),
        Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".into()],
    }
}

/// An address range in CIDR form.
pub(crate) fn is_cidr(text: &str) -> Vec<String> {
    match text.parse::<IpNet>() {
        Ok(_) => Vec::new(),
        Err(_) => vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".into()],
    }
}

/// What the address of an endpoint has to be. The server may lead to itself, wherever it listens: as a rule it is reached from
/// other machines, but a cluster on one machine has servers on loopback.
pub(crate) fn endpoint_ip(ctx: &RequestContext) -> fn(&str) -> Vec<String> {
    if ctx.user == UserInfo::apiserver() { is_ip } else { is_endpoint_ip }
}

/// An address that endpoints may have: neither unspecified, loopback, link-local nor multicast.
pub(crate) fn is_endpoint_ip(text: &str) -> Vec<String> {
    let Ok(ip) = text.parse::<IpAddr>() else { return is_ip(text) };
    let mut problems = Vec::new();
    if ip.is_unspecified() {
        problems.push(format!("may not be unspecified ({})", if ip.is_ipv4() { "0.0.0.0" } else { "::" }));
    }
    if ip.is_loopback() {
        problems.push(format!("may not be in the loopback range ({})", if ip.is_ipv4() { "127.0.0.0/8" } else { "::1/128" }));
    }
    let (local, range) = match ip {
        IpAddr::V4(v4) => (v4.is_link_local(), "169.254.0.0/16"),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), "fe80::/10"),
    };
    if local {
        problems.push(format!("may not be in the link-local range ({range})"));
    }
    let group = match ip {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    };
    if group {
        let range = if ip.is_ipv4() { "224.0.0.0/24" } else { "ff02::/10" };
        problems.push(format!("may not be in the link-local multicast range ({range})"));
    }
    problems
}

/// The family of an address or range, `IPv4` or `IPv6`.
pub(crate) fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_addresses_are_ordinary_ones() {
        for (text, problem) in [
            ("10.0.0.1", None),
            ("2001:db8::1", None),
            ("0.0.0.0", Some("may not be unspecified (0.0.0.0)")),
            ("127.0.0.1", Some("may not be in the loopback range (127.0.0.0/8)")),
            ("169.254.1.1", Some("may not be in the link-local range (169.254.0.0/16)")),
            ("224.0.0.1", Some("may not be in the link-local multicast range (224.0.0.0/24)")),
            ("x", Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")),
        ] {
            assert_eq!(is_endpoint_ip(text).first().map(String::as_str), problem, "{text}");
        }
    }

    #[test]
    fn leading_zeros_are_no_address() {
        assert!(!is_ip("010.0.0.1").is_empty());
    }
}
