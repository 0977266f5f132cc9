//! What etcd's flags say of TLS.

use std::path::PathBuf;

use component::tls::policy::{self, Policy};

use super::settings::Settings;
use crate::url::Url;

/// TLS on one side: towards clients, or towards peers.
#[derive(Clone, Debug)]
pub struct Side {
    /// `client` or `peer`.
    pub name: &'static str,
    /// Server certificate; towards peers also the client's
    pub cert_file: Option<PathBuf>,
    /// Its key
    pub key_file: Option<PathBuf>,
    /// Another certificate as a client
    pub client_cert_file: Option<PathBuf>,
    /// Its key
    pub client_key_file: Option<PathBuf>,
    /// Require a client certificate
    pub cert_auth: bool,
    /// Authorities client certificates are checked against; giving them requires a certificate
    pub trusted_ca_file: Option<PathBuf>,
    /// Certificates that are not good any more
    pub crl_file: Option<PathBuf>,
    /// Common names that are let in
    pub allowed_names: Vec<String>,
    /// Hosts whose certificates are let in
    pub allowed_hosts: Vec<String>,
    /// Make a certificate when none is given
    pub auto: bool,
}

/// TLS of a member.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Towards clients.
    pub clients: Side,
    /// Towards peers.
    pub peers: Side,
    /// Years for which a certificate of its own making is good
    pub validity: u64,
    min_version: String,
    max_version: String,
    cipher_suites: Vec<String>,
}

/// What one side's rules about certificates are called.
struct Names {
    authority: &'static str,
    cert_auth: &'static str,
    revoked: &'static str,
    names: &'static str,
    hosts: &'static str,
}

const OF_CLIENTS: Names = Names {
    authority: "--trusted-ca-file",
    cert_auth: "--client-cert-auth",
    revoked: "--client-crl-file",
    names: "client-transport-security.allowed-cn",
    hosts: "--client-cert-allowed-hostname",
};

const OF_PEERS: Names = Names {
    authority: "--peer-trusted-ca-file",
    cert_auth: "--peer-client-cert-auth",
    revoked: "--peer-crl-file",
    names: "--peer-cert-allowed-cn",
    hosts: "--peer-cert-allowed-hostname",
};

/// Flags of TLS that cannot be served together.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("the {0} certificate and its key must be given together")]
    HalfKeyPair(&'static str),
    #[error("{1} asks for TLS, but no {0} certificate is given")]
    NoCertificate(&'static str, Url),
    #[error("{0} needs {1}")]
    NoAuthority(&'static str, &'static str),
    #[error("{0} and {1} exclude each other")]
    NamesAndHosts(&'static str, &'static str),
    #[error("--self-signed-cert-validity must be >0")]
    NoValidity,
    #[error(transparent)]
    Policy(#[from] policy::Error),
}

impl Tls {
    pub(super) fn new(settings: &Settings) -> Self {
        Tls {
            clients: Side {
                name: "client",
                cert_file: settings.path("cert-file"),
                key_file: settings.path("key-file"),
                client_cert_file: None,
                client_key_file: None,
                cert_auth: settings.on("client-cert-auth"),
                trusted_ca_file: settings.path("trusted-ca-file"),
                crl_file: settings.path("client-crl-file"),
                allowed_names: settings.words("client-transport-security.allowed-cn"),
                allowed_hosts: settings.words("client-cert-allowed-hostname"),
                auto: settings.on("auto-tls"),
            },
            peers: Side {
                name: "peer",
                cert_file: settings.path("peer-cert-file"),
                key_file: settings.path("peer-key-file"),
                client_cert_file: settings.path("peer-client-cert-file"),
                client_key_file: settings.path("peer-client-key-file"),
                cert_auth: settings.on("peer-client-cert-auth"),
                trusted_ca_file: settings.path("peer-trusted-ca-file"),
                crl_file: settings.path("peer-crl-file"),
                allowed_names: settings.words("peer-cert-allowed-cn"),
                allowed_hosts: settings.words("peer-cert-allowed-hostname"),
                auto: settings.on("peer-auto-tls"),
            },
            validity: settings.number("self-signed-cert-validity"),
            min_version: settings.text("tls-min-version"),
            max_version: settings.text("tls-max-version"),
            cipher_suites: settings.words("cipher-suites"),
        }
    }

    /// Versions and cipher suites.
    ///
    /// # Errors
    /// Names what does not go together.
    pub fn policy(&self) -> Result<Policy, Error> {
        Ok(Policy::parse(&self.min_version, &self.max_version, &self.cipher_suites)?)
    }

    pub(super) fn check(&self, clients: &[Url], peers: &[Url]) -> Result<(), Error> {
        self.policy()?;
        self.clients.check(clients)?;
        self.peers.check(peers)?;
        self.clients.check_rules(&OF_CLIENTS)?;
        self.peers.check_rules(&OF_PEERS)?;
        if self.validity == 0 && (self.clients.makes_certificate() || self.peers.makes_certificate()) {
            return Err(Error::NoValidity);
        }
        Ok(())
    }
}

impl Side {
    /// It makes a certificate of its own; one that is given comes first.
    pub fn makes_certificate(&self) -> bool {
        self.auto && self.cert_file.is_none() && self.key_file.is_none()
    }

    /// Without an authority nobody is asked for a certificate, and no rule about it would hold; etcd lets that pass.
    fn check_rules(&self, called: &Names) -> Result<(), Error> {
        if !self.allowed_names.is_empty() && !self.allowed_hosts.is_empty() {
            return Err(Error::NamesAndHosts(called.names, called.hosts));
        }
        let rules = [
            (self.cert_auth, called.cert_auth),
            (self.crl_file.is_some(), called.revoked),
            (!self.allowed_names.is_empty(), called.names),
            (!self.allowed_hosts.is_empty(), called.hosts),
        ];
        match rules.iter().find(|(given, _)| *given) {
            Some((_, rule)) if self.trusted_ca_file.is_none() => Err(Error::NoAuthority(rule, called.authority)),
            _ => Ok(()),
        }
    }

    fn check(&self, urls: &[Url]) -> Result<(), Error> {
        let half = |cert: &Option<PathBuf>, key: &Option<PathBuf>| cert.is_some() != key.is_some();
        if half(&self.cert_file, &self.key_file) || half(&self.client_cert_file, &self.client_key_file) {
            return Err(Error::HalfKeyPair(self.name));
        }
        match urls.iter().find(|url| url.tls && self.cert_file.is_none() && !self.auto) {
            Some(url) => Err(Error::NoCertificate(self.name, url.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn contradicting_flags_are_named() {
        let error = |args: &[&str]| Config::from_flags(args).unwrap_err().to_string();
        assert!(error(&["--cert-file", "a"]).contains("together"));
        assert!(error(&["--peer-client-key-file", "a"]).contains("the peer certificate and its key must be given together"));
        assert!(error(&["--listen-peer-urls", "https://127.0.0.1:0"]).contains("no peer certificate"));
        assert!(error(&["--client-cert-auth"]).contains("--trusted-ca-file"));
        assert!(error(&["--peer-cert-allowed-cn=a", "--peer-cert-allowed-hostname=b"]).contains("exclude each other"));
        assert!(error(&["--tls-min-version=TLS1.0"]).starts_with("unexpected TLS version \"TLS1.0\""));
        assert!(error(&["--auto-tls", "--self-signed-cert-validity=0"]).contains("must be >0"));
    }

    #[test]
    fn rules_about_certificates_need_an_authority() {
        let told = |args: &[&str]| Config::from_flags(args).map(drop).map_err(|error| error.to_string());
        for (rule, authority) in [
            ("--client-cert-allowed-hostname", "--trusted-ca-file"),
            ("--client-crl-file", "--trusted-ca-file"),
            ("--peer-cert-allowed-cn", "--peer-trusted-ca-file"),
            ("--peer-cert-allowed-hostname", "--peer-trusted-ca-file"),
            ("--peer-crl-file", "--peer-trusted-ca-file"),
        ] {
            let refused = Err(format!("{rule} needs {authority}"));
            assert_eq!(told(&[rule, "x"]), refused);
            assert_eq!(told(&[rule, "x", "--auto-tls", "--peer-auto-tls"]), refused, "one of its own making is no authority");
            assert_eq!(told(&[rule, "x", authority, "ca"]), Ok(()));
        }
    }

    #[test]
    fn a_configuration_file_restricts_clients_by_name_or_host() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("etcd.yaml");
        let told = |rules: &str| {
            std::fs::write(&file, format!("client-transport-security:\n  allowed-cn: [admin]\n{rules}")).unwrap();
            Config::from_flags(&["--config-file", file.to_str().unwrap()]).map_err(|error| error.to_string())
        };
        assert_eq!(told("  trusted-ca-file: ca\n").unwrap().tls.clients.allowed_names, ["admin"]);
        assert_eq!(told("").unwrap_err(), "client-transport-security.allowed-cn needs --trusted-ca-file");
        let both = told("  trusted-ca-file: ca\n  allowed-hostname: [a]\n").unwrap_err();
        assert_eq!(both, "client-transport-security.allowed-cn and --client-cert-allowed-hostname exclude each other");
    }

    #[test]
    fn metrics_over_tls_need_a_certificate() {
        let error = Config::from_flags(&["--listen-metrics-urls", "https://127.0.0.1:0"]).unwrap_err().to_string();
        assert_eq!(error, "https://127.0.0.1:0 asks for TLS, but no client certificate is given");
        assert!(Config::from_flags(&["--listen-metrics-urls", "https://127.0.0.1:0", "--auto-tls"]).is_ok());
    }

    #[test]
    fn a_certificate_of_its_own_will_do() {
        let config = Config::from_flags(&["--auto-tls", "--listen-client-urls", "https://127.0.0.1:0"]).unwrap();
        assert!(config.tls.clients.makes_certificate() && !config.tls.peers.makes_certificate());
    }
}
