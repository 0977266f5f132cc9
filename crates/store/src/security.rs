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

#[cfg(test)]
mod handshakes;

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
        let client_urls: Vec<_> = config.client_side_urls().collect();
        let for_clients = key_pair(config, clients, &client_urls)?;
        let for_peers = key_pair(config, peers, &config.listen_peer_urls.iter().collect::<Vec<_>>())?;
        let screen = |side: &Side| Screen {
            revocation_file: side.crl_file.clone(),
            common_names: side.allowed_names.clone(),
            hosts: side.allowed_hosts.clone(),
        };
        let rules = |side: &Side| Rules { policy: policy.clone(), screen: screen(side) };
        let own = peers.client_cert_file.clone().zip(peers.client_key_file.clone());
        Ok(Self {
            clients: for_clients.map(|pair| (server(pair, clients), rules(clients))),
            peers: for_peers.clone().map(|pair| (server(pair, peers), rules(peers))),
            to_peers: ClientTls {
                identity: own.or(for_peers),
                ca_file: peers.trusted_ca_file.clone(),
                trusts_anybody: peers.makes_certificate(),
                screen: screen(peers),
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
    // As in etcd no authority: who is given the certificate believes it itself, and some refuse an authority as a server.
    params.is_ca = rcgen::IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    valid_for_years(&mut params, years);
    let key = KeyPair::generate().context("generate a key")?;
    let certificate = params.self_signed(&key).context("sign")?;
    fs::create_dir_all(directory).context("make the directory")?;
    // Only one of them is there: it must not meet the other half of this pair, should there be an end in between.
    for half in [&cert_file, &key_file] {
        remove(half).context("remove what is left of another pair")?;
    }
    place(&key_file, 0o600, &key.serialize_pem()).context("write the key")?;
    place(&cert_file, 0o644, &certificate.pem()).context("write the certificate")?;
    tracing::warn!(path = %cert_file.display(), years, "made a self-signed certificate");
    Ok((cert_file, key_file))
}

/// Writes a file that is there as a whole or not at all.
fn place(path: &Path, mode: u32, content: &str) -> std::io::Result<()> {
    let unfinished = path.with_extension("tmp");
    remove(&unfinished)?;
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&unfinished)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

fn remove(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
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
    fn who_trusts_a_certificate_of_its_own_making_believes_its_server() {
        use rustls::client::{WebPkiServerVerifier, danger::ServerCertVerifier as _};
        component::install_crypto_provider();
        let directory = tempfile::tempdir().unwrap();
        let (cert_file, _) = self_signed(directory.path(), &["localhost"].into(), 1).unwrap();
        let verifier = WebPkiServerVerifier::builder(component::tls::roots(&cert_file).unwrap().into()).build().unwrap();
        let leaf = &component::tls::certificates(&cert_file).unwrap()[0];
        let verified = verifier.verify_server_cert(leaf, &[], &"localhost".try_into().unwrap(), &[], rustls::pki_types::UnixTime::now());
        assert!(verified.is_ok(), "{verified:?}");
    }

    #[test]
    fn half_a_pair_is_made_anew_as_a_whole() {
        component::install_crypto_provider();
        let directory = tempfile::tempdir().unwrap();
        let made = || self_signed(directory.path(), &["localhost"].into(), 1).unwrap();
        for lost in ["key.pem", "cert.pem"] {
            made();
            fs::remove_file(directory.path().join(lost)).unwrap();
            fs::write(directory.path().join("key.tmp"), "left by an end in between").unwrap();
            let (cert_file, key_file) = made();
            let tls = ServerTls { cert_file, key_file, client_ca_file: None, client_auth: ClientAuth::None };
            assert!(tls.load().is_ok(), "{lost}");
        }
    }

    #[test]
    fn the_whole_life_of_a_certificate_is_in_it() {
        let mut params = CertificateParams::default();
        valid_for_years(&mut params, 3);
        assert_eq!((params.not_after - params.not_before).whole_days(), 3 * 365 + 1);
    }
}
