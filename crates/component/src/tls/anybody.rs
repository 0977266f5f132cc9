//! Whose certificate may be anybody's.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};

/// Checks only that the other end has the key of the certificate it shows: a server as Go's `InsecureSkipVerify` does, a client as
/// its `RequestClientCert`.
#[derive(Debug)]
pub struct Anybody(pub Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Anybody {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ServerCertVerifier::verify_tls12_signature(self, message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ServerCertVerifier::verify_tls13_signature(self, message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ServerCertVerifier::supported_verify_schemes(self)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::super::client::{ClientTls, connect};
    use super::super::{ClientAuth, ServerTls};

    #[tokio::test]
    async fn who_has_the_key_of_a_certificate_is_let_in_with_it() {
        crate::install_crypto_provider();
        let directory = tempfile::tempdir().unwrap();
        let (cert_file, key_file) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&cert_file, pair.cert.pem()).unwrap();
        std::fs::write(&key_file, pair.signing_key.serialize_pem()).unwrap();
        for (identity, shown) in [(None, 0), (Some((cert_file.clone(), key_file.clone())), 1)] {
            let (cert_file, key_file) = (cert_file.clone(), key_file.clone());
            let tls = ServerTls { cert_file, key_file, client_ca_file: None, client_auth: ClientAuth::Anybody };
            let acceptor = TlsAcceptor::from(tls.load().unwrap().config());
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let accepted = tokio::spawn(async move {
                let stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
                stream.get_ref().1.peer_certificates().map_or(0, <[_]>::len)
            });
            let client = ClientTls { identity, trusts_anybody: true, ..ClientTls::default() }.config().unwrap();
            let connection = connect("localhost", port, client, Duration::from_secs(10)).await.unwrap();
            assert_eq!(accepted.await.unwrap(), shown);
            drop(connection);
        }
    }
}
