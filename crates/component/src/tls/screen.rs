//! What is asked of a client's certificate besides that an authority signed it: that it is not revoked, and whose it is.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Error;

/// What is asked; nothing by default.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// Revoked certificates, as PEM or DER.
    pub revocation_file: Option<PathBuf>,
    /// The subject's common name is one of these, if there are any.
    pub common_names: Vec<String>,
    /// One of these hosts, if there are any, is among those the certificate is for.
    pub hosts: Vec<String>,
}

impl Screen {
    pub(super) fn asks_nothing(&self) -> bool {
        self.revocation_file.is_none() && self.common_names.is_empty() && self.hosts.is_empty()
    }

    /// Puts the screen behind another verifier.
    pub(super) fn behind(&self, inner: Arc<dyn ClientCertVerifier>) -> Result<Arc<dyn ClientCertVerifier>, Error> {
        if self.asks_nothing() {
            return Ok(inner);
        }
        let revoked = self.revocation_file.as_deref().map(revoked).transpose()?.unwrap_or_default();
        Ok(Arc::new(Screened { inner, revoked, screen: self.clone() }))
    }

    /// Whether who shows this certificate is one of those asked for.
    pub(super) fn admits(&self, leaf: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let allowed = match () {
            () if !self.common_names.is_empty() => common_name(leaf).is_some_and(|name| self.common_names.contains(&name)),
            () if !self.hosts.is_empty() => {
                let certificate = ParsedCertificate::try_from(leaf)?;
                let hosts = self.hosts.iter().filter_map(|host| ServerName::try_from(host.as_str()).ok());
                hosts.into_iter().any(|host| verify_server_name(&certificate, &host).is_ok())
            }
            () => true,
        };
        if allowed { Ok(()) } else { Err(CertificateError::ApplicationVerificationFailure.into()) }
    }
}

/// The common name of a certificate's subject: the last, where there are several, as in Go.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let name = certificate.subject().iter_common_name().last()?.as_str().ok()?;
    Some(name.to_owned())
}

/// A serial number without the zeros before it.
fn serial(raw: &[u8]) -> Vec<u8> {
    raw.iter().copied().skip_while(|byte| *byte == 0).collect()
}

/// The serial numbers in lists of revoked certificates: one as DER, or any number as PEM. As in etcd, who signed the list and when does not matter.
fn revoked(path: &Path) -> Result<HashSet<Vec<u8>>, Error> {
    let bad = |message: String| Error::Revocations { path: path.to_owned(), message };
    let bytes = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
    let lists = CertificateRevocationListDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let mut lists = lists.map_err(|error| bad(error.to_string()))?;
    if lists.is_empty() {
        lists.push(bytes.into());
    }
    let mut serials = HashSet::new();
    for list in &lists {
        let (rest, list) = x509_parser::parse_x509_crl(list).map_err(|error| bad(error.to_string()))?;
        // What is not read might revoke more.
        if !rest.is_empty() {
            return Err(bad(format!("{} bytes follow the list", rest.len())));
        }
        serials.extend(list.iter_revoked_certificates().map(|revoked| serial(revoked.raw_serial())));
    }
    Ok(serials)
}

#[derive(Debug)]
struct Screened {
    inner: Arc<dyn ClientCertVerifier>,
    revoked: HashSet<Vec<u8>>,
    screen: Screen,
}

impl Screened {
    /// One that cannot be read counts as revoked.
    fn is_revoked(&self, certificate: &CertificateDer<'_>) -> bool {
        X509Certificate::from_der(certificate).map_or(true, |(_, certificate)| self.revoked.contains(&serial(certificate.raw_serial())))
    }
}

impl ClientCertVerifier for Screened {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.inner.verify_client_cert(leaf, intermediates, now)?;
        if std::iter::once(leaf).chain(intermediates).any(|certificate| self.is_revoked(certificate)) {
            return Err(CertificateError::Revoked.into());
        }
        self.screen.admits(leaf)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        CertificateParams, CertificateRevocationList, CertificateRevocationListParams, CertifiedIssuer, DnType, KeyIdMethod, KeyPair,
        KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
    };
    use rustls::RootCertStore;
    use rustls::server::WebPkiClientVerifier;

    fn authority() -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    fn leaf(authority: &CertifiedIssuer<'static, KeyPair>, name: &str, host: &str, serial: u64) -> CertificateDer<'static> {
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from(serial));
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        params.signed_by(&KeyPair::generate().unwrap(), authority).unwrap().der().clone()
    }

    fn told(screen: &Screen, authority: &CertifiedIssuer<'static, KeyPair>, leaf: &CertificateDer<'static>) -> Result<(), String> {
        crate::install_crypto_provider();
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let verifier = screen.behind(WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap()).unwrap();
        verifier.verify_client_cert(leaf, &[], UnixTime::now()).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn only_the_names_asked_for_are_let_in() {
        let authority = authority();
        let leaf = leaf(&authority, "alice", "client.example", 7);
        let names = |names: &[&str]| Screen { common_names: names.iter().map(|name| (*name).to_owned()).collect(), ..Screen::default() };
        let hosts = |hosts: &[&str]| Screen { hosts: hosts.iter().map(|host| (*host).to_owned()).collect(), ..Screen::default() };
        assert_eq!(told(&Screen::default(), &authority, &leaf), Ok(()));
        assert_eq!(told(&names(&["bob", "alice"]), &authority, &leaf), Ok(()));
        assert!(told(&names(&["bob"]), &authority, &leaf).is_err());
        assert_eq!(told(&hosts(&["other.example", "client.example"]), &authority, &leaf), Ok(()));
        assert!(told(&hosts(&["other.example", "10.0.0.1"]), &authority, &leaf).is_err());
    }

    fn list(authority: &CertifiedIssuer<'static, KeyPair>, serial: u64) -> CertificateRevocationList {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2020, 2, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(authority).unwrap()
    }

    #[test]
    fn a_revoked_certificate_is_turned_away() {
        let (authority, directory) = (authority(), tempfile::tempdir().unwrap());
        let list = list(&authority, 7);
        for (name, content) in [("pem", list.pem().unwrap().into_bytes()), ("der", list.der().to_vec())] {
            let file = directory.path().join(name);
            std::fs::write(&file, content).unwrap();
            let screen = Screen { revocation_file: Some(file), ..Screen::default() };
            assert!(told(&screen, &authority, &leaf(&authority, "a", "a", 7)).unwrap_err().contains("Revoked"), "{name}");
            assert_eq!(told(&screen, &authority, &leaf(&authority, "a", "a", 8)), Ok(()), "{name}");
        }
    }

    #[test]
    fn all_lists_of_a_file_count_and_a_file_that_is_not_read_to_its_end_is_refused() {
        let (authority, directory) = (authority(), tempfile::tempdir().unwrap());
        let file = directory.path().join("crl");
        let screen = Screen { revocation_file: Some(file.clone()), ..Screen::default() };
        let pem = |serial| list(&authority, serial).pem().unwrap();
        std::fs::write(&file, format!("{}{}", pem(7), pem(8))).unwrap();
        for (serial, revoked) in [(7, true), (8, true), (9, false)] {
            assert_eq!(told(&screen, &authority, &leaf(&authority, "a", "a", serial)).is_err(), revoked, "{serial}");
        }
        let der = list(&authority, 7).der().to_vec();
        let half = pem(7)[..100].to_owned();
        let broken = [der.iter().chain(b"more").copied().collect(), authority.pem().into_bytes(), Vec::new(), half.into_bytes()];
        for content in broken {
            std::fs::write(&file, content).unwrap();
            assert!(matches!(revoked(&file), Err(Error::Revocations { .. })));
        }
    }

    #[test]
    fn a_certificate_that_cannot_be_read_counts_as_revoked() {
        let roots = Arc::new(RootCertStore { roots: vec![webpki_anchor(&authority())] });
        crate::install_crypto_provider();
        let inner = WebPkiClientVerifier::builder(roots).build().unwrap();
        let screened = Screened { inner, revoked: HashSet::new(), screen: Screen::default() };
        assert!(screened.is_revoked(&CertificateDer::from(vec![0x30, 0x03, 1])));
        assert!(!screened.is_revoked(&leaf(&authority(), "a", "a", 1)));
    }

    fn webpki_anchor(authority: &CertifiedIssuer<'static, KeyPair>) -> rustls::pki_types::TrustAnchor<'static> {
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        roots.roots.remove(0)
    }
}
