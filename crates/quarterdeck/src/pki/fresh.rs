//! Whether a certificate that is already there still serves.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rcgen::{KeyPair, PublicKeyData};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::X509Certificate;
use x509_parser::time::ASN1Time;

use super::{Pair, Subject};

/// One that has less than this left is replaced, as kubeadm's users are told to.
const MARGIN_SECONDS: i64 = 30 * 24 * 3600;

/// Whether `pair` is signed by the authority `ca`, names just what `subject` does, and will for a while.
pub(super) fn serves(pair: &Pair, ca: &str, subject: &Subject<'_>) -> bool {
    check(pair, ca, subject, jiff::Timestamp::now()).unwrap_or(false)
}

/// `None` for what cannot be read.
fn check(pair: &Pair, ca: &str, subject: &Subject<'_>, now: jiff::Timestamp) -> Option<bool> {
    let (_, cert) = parse_x509_pem(pair.cert.as_bytes()).ok()?;
    let (_, ca) = parse_x509_pem(ca.as_bytes()).ok()?;
    let (cert, ca) = (cert.parse_x509().ok()?, ca.parse_x509().ok()?);
    let key = KeyPair::from_pem(&pair.key).ok()?;
    let then = ASN1Time::from_timestamp(now.as_second() + MARGIN_SECONDS).ok()?;
    let signed = cert.verify_signature(Some(ca.public_key())).is_ok();
    let matches = cert.public_key().raw == key.subject_public_key_info();
    Some(signed && matches && cert.validity().is_valid_at(then) && names(&cert)? == wanted(subject))
}

/// Common name, groups, and names to serve as.
type Names = (Option<String>, BTreeSet<String>, BTreeSet<String>);

fn wanted(subject: &Subject<'_>) -> Names {
    let groups = subject.groups.iter().map(|group| (*group).to_owned()).collect();
    let hosts = subject.dns.iter().map(|name| (*name).to_owned()).chain(subject.ips.iter().map(IpAddr::to_string));
    (Some(subject.name.to_owned()), groups, hosts.collect())
}

fn names(cert: &X509Certificate<'_>) -> Option<Names> {
    let name = cert.subject().iter_common_name().next().and_then(|name| name.as_str().ok()).map(str::to_owned);
    let groups = cert.subject().iter_organization().filter_map(|group| group.as_str().ok()).map(str::to_owned).collect();
    let alternatives = cert.subject_alternative_name().ok()?.map(|extension| &extension.value.general_names);
    let hosts = alternatives.into_iter().flatten().filter_map(host).collect();
    Some((name, groups, hosts))
}

fn host(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|bytes| IpAddr::from(bytes).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| IpAddr::from(bytes).to_string()),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::pki::Authority;

    const HOSTS: [&str; 2] = ["localhost", "apiserver"];
    const LOOPBACK: [IpAddr; 1] = [IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)];
    const SERVER: Subject<'_> = Subject { name: "kube-apiserver", groups: &["masters"], dns: &HOSTS, ips: &LOOPBACK };

    fn authority() -> Authority {
        let directory = tempfile::tempdir().unwrap();
        Authority::open(&Layout::new(directory.path()).unwrap(), "ca", "kubernetes").unwrap()
    }

    #[test]
    fn a_certificate_serves_until_a_month_before_its_end() {
        let ca = authority();
        let pair = ca.issue(&SERVER).unwrap();
        let days = |days: i64| jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24 * days);
        assert_eq!(check(&pair, &ca.cert, &SERVER, days(0)), Some(true));
        assert_eq!(check(&pair, &ca.cert, &SERVER, days(330)), Some(true));
        assert_eq!(check(&pair, &ca.cert, &SERVER, days(340)), Some(false));
    }

    #[test]
    fn another_name_authority_or_key_needs_another_certificate() {
        let ca = authority();
        let pair = ca.issue(&SERVER).unwrap();
        assert!(serves(&pair, &ca.cert, &SERVER));
        assert!(!serves(&pair, &ca.cert, &Subject { dns: &["localhost"], ..SERVER }));
        assert!(!serves(&pair, &ca.cert, &Subject { ips: &[], ..SERVER }));
        assert!(!serves(&pair, &ca.cert, &Subject { groups: &[], ..SERVER }));
        assert!(!serves(&pair, &ca.cert, &Subject { name: "kubelet", ..SERVER }));
        assert!(!serves(&pair, &authority().cert, &SERVER));
        let other = ca.issue(&SERVER).unwrap();
        assert!(!serves(&Pair { cert: pair.cert, key: other.key }, &ca.cert, &SERVER));
    }

    #[test]
    fn rubbish_does_not_serve() {
        let ca = authority();
        let rubbish = || "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
        assert!(!serves(&Pair { cert: rubbish(), key: rubbish() }, &ca.cert, &SERVER));
        assert!(!serves(&Pair { cert: String::new(), key: String::new() }, &ca.cert, &SERVER));
    }
}
