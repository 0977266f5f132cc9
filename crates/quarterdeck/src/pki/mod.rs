//! The cluster's keys and certificates, in files named as kubeadm names them.
//!
//! Three authorities: the cluster's own, the front proxy's, and the store's, which signs for the API server and the
//! operator only, so that nobody else reaches the store.

pub(crate) mod command;
pub(crate) mod files;
mod fresh;
pub(crate) mod kubeconfig;
mod parts;
pub(crate) mod roster;

use std::net::IpAddr;

use anyhow::{Context, bail};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};

use self::files::{read, write, write_private};
use crate::layout::Layout;

/// A certificate and its key, PEM.
pub(crate) struct Pair {
    pub(crate) cert: String,
    pub(crate) key: String,
}

/// Who a certificate speaks for.
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a str,
    pub(crate) groups: &'a [&'a str],
    /// Host names it serves as; none for a pure client.
    pub(crate) dns: &'a [&'a str],
    pub(crate) ips: &'a [IpAddr],
}

impl<'a> Subject<'a> {
    pub(crate) fn client(name: &'a str, groups: &'a [&'a str]) -> Self {
        Self { name, groups, dns: &[], ips: &[] }
    }
}

/// A certificate authority.
pub(crate) struct Authority {
    pub(crate) cert: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// The authority in `<name>.crt` and `<name>.key` below `pki/`, made when it is not there yet. The key comes first: one that is
    /// alone, after a run that was killed in between, gets its certificate now.
    pub(crate) fn open(layout: &Layout, name: &str, common_name: &str) -> anyhow::Result<Self> {
        let (cert_file, key_file) = (layout.pki(&format!("{name}.crt")), layout.pki(&format!("{name}.key")));
        if !key_file.exists() {
            if cert_file.exists() {
                // A new key would make strangers of all that the old one signed.
                let (there, missing) = (cert_file.display(), key_file.display());
                bail!("{missing} is missing while {there} is there: put it back, or remove {there} for a new authority");
            }
            write_private(&key_file, &KeyPair::generate().context("generate key")?.serialize_pem())?;
        }
        let key = KeyPair::from_pem(&read(&key_file)?).with_context(|| format!("parse {}", key_file.display()))?;
        if !cert_file.exists() {
            // Of the same name and key: whatever was signed stays good.
            let cert = authority_params(common_name).self_signed(&key).context("sign certificate")?;
            write(&cert_file, &cert.pem())?;
        }
        let cert = read(&cert_file)?;
        let issuer = Issuer::from_ca_cert_pem(&cert, key).with_context(|| format!("parse {}", cert_file.display()))?;
        Ok(Self { cert, issuer })
    }

    /// A fresh certificate for `subject`, valid for a year.
    pub(crate) fn issue(&self, subject: &Subject<'_>) -> anyhow::Result<Pair> {
        let key = KeyPair::generate().context("generate key")?;
        let cert = leaf_params(subject)?.signed_by(&key, &self.issuer).context("sign certificate")?;
        Ok(Pair { cert: cert.pem(), key: key.serialize_pem() })
    }

    /// Sees to it that `<name>.crt` and `<name>.key` below `pki/` speak for `subject`; what still serves is kept.
    pub(crate) fn keep_files(&self, layout: &Layout, name: &str, subject: &Subject<'_>) -> anyhow::Result<()> {
        let (cert_file, key_file) = (layout.pki(&format!("{name}.crt")), layout.pki(&format!("{name}.key")));
        if let (Ok(cert), Ok(key)) = (read(&cert_file), read(&key_file))
            && fresh::serves(&Pair { cert, key }, &self.cert, subject)
        {
            return Ok(());
        }
        let pair = self.issue(subject)?;
        write_private(&key_file, &pair.key)?;
        write(&cert_file, &pair.cert)
    }
}

fn authority_params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name(common_name, &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid_for_days(&mut params, 3650);
    params
}

fn leaf_params(subject: &Subject<'_>) -> anyhow::Result<CertificateParams> {
    let names = subject.dns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut params = CertificateParams::new(names).context("host names of certificate")?;
    params.subject_alt_names.extend(subject.ips.iter().copied().map(SanType::IpAddress));
    params.distinguished_name = distinguished_name(subject.name, subject.groups);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if !params.subject_alt_names.is_empty() {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    params.use_authority_key_identifier_extension = true;
    valid_for_days(&mut params, 365);
    Ok(params)
}

/// From an hour ago, since clocks differ.
fn valid_for_days(params: &mut CertificateParams, days: i64) {
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    let date = |at: &jiff::Zoned| rcgen::date_time_ymd(i32::from(at.year()), at.month() as u8, at.day() as u8);
    params.not_before = date(&now.saturating_sub(jiff::Span::new().hours(25)));
    params.not_after = date(&now.saturating_add(jiff::Span::new().days(days)));
}

fn distinguished_name(common_name: &str, groups: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for group in groups {
        name.push(DnType::OrganizationName, *group);
    }
    name.push(DnType::CommonName, common_name);
    name
}

/// The key that signs service-account tokens, as `sa.key` and `sa.pub`.
pub(crate) fn service_account_key(layout: &Layout) -> anyhow::Result<()> {
    let (key_file, public_file) = (layout.pki("sa.key"), layout.pki("sa.pub"));
    if !key_file.exists() {
        let key = KeyPair::generate().context("generate key")?;
        write(&public_file, &key.public_key_pem())?;
        write_private(&key_file, &key.serialize_pem())?;
    }
    if !public_file.exists() {
        let key = KeyPair::from_pem(&read(&key_file)?).with_context(|| format!("parse {}", key_file.display()))?;
        write(&public_file, &key.public_key_pem())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_authority_is_made_once_and_its_private_key_is_for_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path()).unwrap();
        let first = Authority::open(&layout, "ca", "kubernetes").unwrap().cert;
        assert_eq!(Authority::open(&layout, "ca", "kubernetes").unwrap().cert, first);
        let mode = std::fs::metadata(layout.pki("ca.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_certificate_without_its_key_is_named_and_never_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path()).unwrap();
        let cert = Authority::open(&layout, "ca", "kubernetes").unwrap().cert;
        let key_file = layout.pki("ca.key");
        std::fs::remove_file(&key_file).unwrap();
        let Err(error) = Authority::open(&layout, "ca", "kubernetes") else { panic!("opened without its key") };
        assert!(error.to_string().starts_with(&format!("{} is missing", key_file.display())), "{error}");
        assert_eq!(read(&layout.pki("ca.crt")).unwrap(), cert);
        assert!(!key_file.exists());
    }

    #[test]
    fn a_key_without_its_certificate_gets_one_and_what_it_signed_stays_good() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path()).unwrap();
        let subject = Subject::client("admin", &["system:masters"]);
        let first = Authority::open(&layout, "ca", "kubernetes").unwrap();
        let (pair, key) = (first.issue(&subject).unwrap(), read(&layout.pki("ca.key")).unwrap());
        std::fs::remove_file(layout.pki("ca.crt")).unwrap();
        let second = Authority::open(&layout, "ca", "kubernetes").unwrap();
        assert_ne!(second.cert, first.cert);
        assert!(fresh::serves(&pair, &second.cert, &subject));
        assert!(fresh::serves(&second.issue(&subject).unwrap(), &first.cert, &subject), "for those who know the old one only");
        assert_eq!(read(&layout.pki("ca.key")).unwrap(), key);
    }

    #[test]
    fn a_lost_public_key_comes_back_and_the_private_one_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path()).unwrap();
        let pair = || {
            service_account_key(&layout).unwrap();
            ["sa.key", "sa.pub"].map(|name| read(&layout.pki(name)).unwrap())
        };
        let before = pair();
        std::fs::remove_file(layout.pki("sa.pub")).unwrap();
        assert_eq!(pair(), before);
    }

    #[test]
    fn a_client_certificate_names_user_and_groups() {
        let name = distinguished_name("admin", &["system:masters"]);
        assert!(name.iter().any(|(kind, _)| *kind == DnType::OrganizationName));
        assert!(leaf_params(&Subject::client("admin", &["system:masters"])).unwrap().subject_alt_names.is_empty());
    }
}
