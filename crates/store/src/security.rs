//! Certificates a member listens and dials with: those it was given, or some of its own making.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    net::IpAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use component::tls::{ClientAuth, ClientTls, Rules, Screen, ServerTls};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};

use crate::{
    config::{Config, tls::Side},
    url::Url,
};

/// TLS towards clients and peers.
pub(crate) struct Security {
    pub(crate) clients: Option<(ServerTls, Rules)>,
    pub(crate) peers: Option<(ServerTls, Rules)>,
    pub(crate) to_peers: ClientTls,
}

impl Security {
    /// As the flags say; makes certificates where they say so.
    pub(crate) fn new(config: &Config) -> anyhow::Result<Self> {
        let policy = config.tls.policy()?;
        let (clients, peers) = (&config.tls.clients, &config.tls.peers);
        let client_urls: Vec<_> = config.listen_client_urls.iter().chain(&config.listen_client_http_urls).collect();
        let for_clients = key_pair(config, clients, &client_urls)?;
        let for_peers = key_pair(config, peers, &config.listen_peer_urls.iter().collect::<Vec<_>>())?;
        let rules = |side: &Side| Rules {
            policy: policy.clone(),
            screen: Screen {
                revocation_file: side.crl_file.clone(),
                common_names: side.allowed_names.clone(),
                hosts: side.allowed_hosts.clone(),
            },
        };
        let own = peers.client_cert_file.clone().zip(peers.client_key_file.clone());
        Ok(Self {
            clients: for_clients.map(|pair| (server(pair, clients), rules(clients))),
            peers: for_peers.clone().map(|pair| (server(pair, peers), rules(peers))),
            to_peers: ClientTls {
                identity: own.or(for_peers),
                ca_file: peers.trusted_ca_file.clone(),
                trusts_anybody: peers.makes_certificate(),
                policy,
            },
        })
    }
}

/// As in etcd, a trusted CA alone asks for client certificates.
fn server((cert_file, key_file): (PathBuf, PathBuf), side: &Side) -> ServerTls {
    let client_auth = if side.trusted_ca_file.is_some() { ClientAuth::Required } else { ClientAuth::None };
    ServerTls { cert_file, key_file, client_ca_file: side.trusted_ca_file.clone(), client_auth }
}

fn key_pair(config: &Config, side: &Side, urls: &[&Url]) -> anyhow::Result<Option<(PathBuf, PathBuf)>> {
    if !side.makes_certificate() {
        if side.auto {
            tracing::warn!(side = side.name, "no certificate is made, since one is given");
        }
        return Ok(side.cert_file.clone().zip(side.key_file.clone()));
    }
    let directory = config.data_dir().join("fixtures").join(side.name);
    let hosts = urls.iter().map(|url| url.host.as_str()).collect();
    let made = self_signed(&directory, &hosts, config.tls.validity);
    made.map(Some).with_context(|| format!("make a certificate in {}", directory.display()))
}

/// A self-signed certificate for hosts and its key, kept for the next start.
fn self_signed(directory: &Path, hosts: &BTreeSet<&str>, years: u64) -> anyhow::Result<(PathBuf, PathBuf)> {
    let (cert_file, key_file) = (directory.join("cert.pem"), directory.join("key.pem"));
    if cert_file.exists() && key_file.exists() {
        return Ok((cert_file, key_file));
    }
    let mut params = CertificateParams::default();
    for host in hosts {
        let name = host.parse::<IpAddr>().map(SanType::IpAddress);
        params.subject_alt_names.push(name.or_else(|_| (*host).try_into().map(SanType::DnsName)).context("name of a host")?);
    }
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "etcd");
    // An authority of its own, so that clients that are given the certificate can believe it.
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::KeyCertSign];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    valid_for_years(&mut params, years);
    let key = KeyPair::generate().context("generate a key")?;
    let certificate = params.self_signed(&key).context("sign")?;
    fs::create_dir_all(directory).context("make the directory")?;
    let mut private =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&key_file).context("make the key file")?;
    private.write_all(key.serialize_pem().as_bytes()).context("write the key")?;
    fs::write(&cert_file, certificate.pem()).context("write the certificate")?;
    tracing::warn!(path = %cert_file.display(), years, "made a self-signed certificate");
    Ok((cert_file, key_file))
}

/// From yesterday, since clocks differ.
fn valid_for_years(params: &mut CertificateParams, years: u64) {
    const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);
    let now = std::time::SystemTime::now();
    let days = u32::try_from(years.saturating_mul(365)).unwrap_or(u32::MAX).min(365 * 1000);
    params.not_before = (now - DAY).into();
    params.not_after = (now + DAY * days).into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_made_once_and_its_key_is_for_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        component::install_crypto_provider();
        let directory = tempfile::tempdir().unwrap();
        let made = || self_signed(directory.path(), &["localhost", "127.0.0.1"].into(), 1).unwrap();
        let (cert_file, key_file) = made();
        let first = fs::read(&cert_file).unwrap();
        made();
        assert_eq!(fs::read(&cert_file).unwrap(), first);
        assert_eq!(fs::metadata(&key_file).unwrap().permissions().mode() & 0o777, 0o600);
        let tls = ServerTls { cert_file, key_file, client_ca_file: None, client_auth: ClientAuth::None };
        assert!(tls.load().is_ok());
    }

    #[test]
    fn the_whole_life_of_a_certificate_is_in_it() {
        let mut params = CertificateParams::default();
        valid_for_years(&mut params, 3);
        assert_eq!((params.not_after - params.not_before).whole_days(), 3 * 365 + 1);
    }
}
