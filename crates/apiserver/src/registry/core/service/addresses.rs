//! Checks that a service's cluster IPs, families and policy fit together.

use apimachinery::field::{Error, ErrorList};

use crate::registry::{addresses, check::At};

/// `clusterIP`, `clusterIPs`, `ipFamilies`, `ipFamilyPolicy`.
pub(crate) fn cluster_ips(spec: &At<'_>, errs: &mut ErrorList) {
    if spec.get("type").str() == "ExternalName" {
        return;
    }
    let (one, many) = (spec.get("clusterIP"), spec.get("clusterIPs"));
    if !one.is_empty() && many.size() == 0 {
        errs.push(many.required(""));
    } else if many.size() > 0 && one.str() != many.strs().first().copied().unwrap_or_default() {
        errs.push(many.invalid("first value must match `clusterIP`"));
    }
    spec.get("ipFamilyPolicy").one_of_if_set(&["SingleStack", "PreferDualStack", "RequireDualStack"], errs);
    families(&spec.get("ipFamilies"), errs);
    if many.size() > 2 {
        errs.push(many.invalid("may only hold up to 2 values"));
    }
    for (index, ip) in many.items().iter().enumerate() {
        if ip.str() == "None" && many.size() > 1 {
            errs.push(Error::invalid(&many.path, many.value.clone(), "'None' must be the first and only value"));
        } else if ip.str() != "None" {
            ip.name(addresses::is_ip, errs);
        }
        fits_family(spec, ip, index, errs);
    }
}

fn families(list: &At<'_>, errs: &mut ErrorList) {
    for family in list.items() {
        family.one_of(&["IPv4", "IPv6"], errs);
    }
    let given = list.strs();
    if given.len() == 2 && given[0] == given[1] {
        errs.push(Error::duplicate(&list.path.index(1), given[1]));
    }
}

fn fits_family(spec: &At<'_>, ip: &At<'_>, index: usize, errs: &mut ErrorList) {
    let Ok(address) = ip.str().parse() else { return };
    if let Some(wanted) = spec.get("ipFamilies").strs().get(index)
        && *wanted != addresses::family(address)
    {
        errs.push(ip.invalid(format!("expected an {wanted} value as indicated by `ipFamilies[{index}]`")));
    }
}
