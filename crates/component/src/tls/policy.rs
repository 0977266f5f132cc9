//! Which versions and cipher suites of TLS are spoken, by the names Go has for them.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::{CipherSuite, ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion};

/// Go's names of what rustls speaks up to TLS 1.2. Those of TLS 1.3 cannot be chosen, in Go either.
const SUITES: [(&str, CipherSuite); 8] = [
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// What Go knows besides: suites of TLS 1.3, which are always on, and old ones, which are left out as if the client had not
/// offered them.
const WITHOUT_CHOICE: [&str; 16] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
];

const LATEST: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];
const FORMER: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];

/// What is wrong with a choice. Texts are etcd's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such version.
    #[error("unexpected TLS version {0:?} (must be one of: TLS1.2, TLS1.3)")]
    Version(String),
    /// There is no version in between.
    #[error("min version ({0}) is greater than max version ({1})")]
    Order(String, String),
    /// There is no such suite.
    #[error("unexpected TLS cipher suite {0:?}")]
    Suite(String),
    /// Suites were chosen, and only a version is spoken that has its own.
    #[error("cipher suites cannot be configured when only TLS1.3 is enabled")]
    OnlyLatest,
    /// None of the chosen suites is spoken here.
    #[error("none of the cipher suites {0} is supported")]
    NoSuite(String),
}

/// Versions and cipher suites that are spoken.
#[derive(Clone, Debug)]
pub struct Policy {
    versions: &'static [&'static SupportedProtocolVersion],
    /// Up to TLS 1.2; all when none.
    suites: Option<Vec<CipherSuite>>,
}

impl Default for Policy {
    fn default() -> Self {
        Self { versions: rustls::ALL_VERSIONS, suites: None }
    }
}

impl Policy {
    /// Reads Go's names; empty ones leave the choice to the library.
    ///
    /// # Errors
    /// A name is not known, or nothing would be spoken.
    pub fn parse(least: &str, most: &str, suites: &[String]) -> Result<Self, Error> {
        let only_latest = version(least)? == Some(ProtocolVersion::TLSv1_3);
        let only_former = version(most)? == Some(ProtocolVersion::TLSv1_2);
        let versions = match (only_latest, only_former) {
            (true, true) => return Err(Error::Order(least.to_owned(), most.to_owned())),
            (true, false) if !suites.is_empty() => return Err(Error::OnlyLatest),
            (true, false) => LATEST,
            (false, true) => FORMER,
            (false, false) => rustls::ALL_VERSIONS,
        };
        let mut chosen = Vec::new();
        for name in suites {
            match SUITES.iter().find(|(known, _)| known == name) {
                Some((_, suite)) => chosen.push(*suite),
                None if WITHOUT_CHOICE.contains(&name.as_str()) => {}
                None => return Err(Error::Suite(name.clone())),
            }
        }
        if !suites.is_empty() && chosen.is_empty() && only_former {
            return Err(Error::NoSuite(suites.join(",")));
        }
        Ok(Self { versions, suites: (!suites.is_empty()).then_some(chosen) })
    }

    /// What is spoken with.
    pub fn provider(&self) -> Arc<CryptoProvider> {
        let mut provider = ring::default_provider();
        if let Some(chosen) = &self.suites {
            let latest = |suite: &SupportedCipherSuite| suite.version().version == ProtocolVersion::TLSv1_3;
            provider.cipher_suites.retain(|suite| latest(suite) || chosen.contains(&suite.suite()));
        }
        Arc::new(provider)
    }

    /// The versions spoken, of those for which there are suites.
    pub fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        let no_former = self.suites.as_ref().is_some_and(Vec::is_empty);
        self.versions.iter().copied().filter(|version| !no_former || version.version == ProtocolVersion::TLSv1_3).collect()
    }
}

fn version(name: &str) -> Result<Option<ProtocolVersion>, Error> {
    match name {
        "" => Ok(None),
        "TLS1.2" => Ok(Some(ProtocolVersion::TLSv1_2)),
        "TLS1.3" => Ok(Some(ProtocolVersion::TLSv1_3)),
        _ => Err(Error::Version(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(least: &str, most: &str, suites: &[&str]) -> Result<Policy, Error> {
        let suites: Vec<_> = suites.iter().map(|name| (*name).to_owned()).collect();
        Policy::parse(least, most, &suites)
    }

    #[test]
    fn versions_lie_between_the_least_and_the_most() {
        let versions =
            |least, most| -> Vec<_> { parse(least, most, &[]).unwrap().versions().iter().map(|version| version.version).collect() };
        assert_eq!(versions("TLS1.2", "").len(), 2);
        assert_eq!(versions("TLS1.3", ""), [ProtocolVersion::TLSv1_3]);
        assert_eq!(versions("TLS1.2", "TLS1.2"), [ProtocolVersion::TLSv1_2]);
    }

    #[test]
    fn only_chosen_suites_are_spoken_besides_those_of_the_latest_version() {
        let policy = parse("TLS1.2", "", &["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA"]).unwrap();
        let spoken: Vec<_> = policy.provider().cipher_suites.iter().map(SupportedCipherSuite::suite).collect();
        assert!(spoken.contains(&CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256));
        assert!(spoken.contains(&CipherSuite::TLS13_AES_128_GCM_SHA256));
        assert!(!spoken.contains(&CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256));
    }

    #[test]
    fn impossible_choices_are_named() {
        let error = |least, most, suites: &[&str]| parse(least, most, suites).unwrap_err().to_string();
        assert_eq!(error("TLS1.1", "", &[]), r#"unexpected TLS version "TLS1.1" (must be one of: TLS1.2, TLS1.3)"#);
        assert_eq!(error("TLS1.3", "TLS1.2", &[]), "min version (TLS1.3) is greater than max version (TLS1.2)");
        assert_eq!(error("TLS1.2", "", &["X"]), r#"unexpected TLS cipher suite "X""#);
        assert_eq!(parse("TLS1.3", "", &["TLS_AES_128_GCM_SHA256"]).unwrap_err(), Error::OnlyLatest);
        assert!(matches!(parse("", "TLS1.2", &["TLS_RSA_WITH_AES_128_CBC_SHA"]).unwrap_err(), Error::NoSuite(_)));
    }
}
