//! Address families: what a service asks for, completed by what the cluster has.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
};
use ipnet::IpNet;

use super::{is_headless, needs_cluster_ip};
use crate::registry::{
    addresses::family,
    check::At,
    edit::{default_zero, ensure_object, strings, text},
};

const SINGLE: &str = "SingleStack";
const REQUIRE_DUAL: &str = "RequireDualStack";

/// Fills `ipFamilies` and `ipFamilyPolicy`, from cluster IPs and the cluster's ranges.
pub(crate) fn fill(obj: &mut Object, ranges: &[IpNet]) -> Result<(), ErrorList> {
    if !needs_cluster_ip(obj) {
        return Ok(());
    }
    let cluster: Vec<&str> = ranges.iter().map(|range| family(range.addr())).collect();
    let any_family = is_headless(obj) && At::field(obj, "spec").get("selector").size() == 0;
    let spec = ensure_object(&mut obj.0, "spec");
    let ips = strings(spec, "clusterIPs");
    let mut families = strings(spec, "ipFamilies");
    for ip in ips.iter().skip(families.len()) {
        families.extend(ip.parse().ok().map(|ip| family(ip).to_owned()));
    }
    let dual = any_family || families.len() == 2 || ips.len() == 2;
    default_zero(spec, "ipFamilyPolicy", if dual { REQUIRE_DUAL } else { SINGLE });
    if families.is_empty() {
        families.push(cluster.first().copied().unwrap_or("IPv4").to_owned());
    }
    if families.len() == 1 && text(spec, "ipFamilyPolicy") != SINGLE && (any_family || cluster.len() == 2) {
        families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }.to_owned());
    }
    spec.insert("ipFamilies".into(), families.into());
    if any_family { Ok(()) } else { configured(&At::field(obj, "spec"), &cluster) }
}

/// Refuses families the cluster does not have.
fn configured(spec: &At<'_>, cluster: &[&str]) -> Result<(), ErrorList> {
    let policy = spec.get("ipFamilyPolicy");
    if policy.str() == REQUIRE_DUAL && cluster.len() == 1 {
        return Err(vec![policy.invalid("this cluster is not configured for dual-stack services")]);
    }
    let unknown = |wanted: &At<'_>| ["IPv4", "IPv6"].contains(&wanted.str()) && !cluster.contains(&wanted.str());
    let families = spec.get("ipFamilies").items();
    let refuse = |at: &At<'_>| Error::invalid(&at.path, at.str(), "not configured on this cluster");
    let errs: ErrorList = families.iter().filter(|at| !cluster.is_empty() && unknown(at)).map(refuse).collect();
    if errs.is_empty() { Ok(()) } else { Err(errs) }
}
