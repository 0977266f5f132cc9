//! Client certificates on both sides.

use std::{fs, path::Path};

use etcd::etcdserverpb::{PutRequest, kv_client::KvClient};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

use crate::support::eventually;

/// Writes an authority and, signed by it, one certificate for servers, peers and clients, and one of a user `alice`.
pub fn write_pki(directory: &Path) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    fs::write(directory.join("ca.crt"), authority.pem()).unwrap();
    let issuer = Issuer::new(params, key);
    for (file, common_name) in [("tls", "member"), ("alice", "alice")] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        fs::write(directory.join(format!("{file}.crt")), params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
        fs::write(directory.join(format!("{file}.key")), key.serialize_pem()).unwrap();
    }
}

/// What a client trusts and proves itself with.
pub fn client(directory: &Path) -> etcd::client::Tls {
    let read = |name: &str| fs::read(directory.join(name)).unwrap();
    etcd::client::Tls { ca: read("ca.crt"), identity: Some((read("tls.crt"), read("tls.key"))) }
}

/// A connection to the member at this port.
pub fn channel(directory: &Path, port: u16, with_certificate: bool) -> Channel {
    channel_as(directory, port, with_certificate.then_some("tls"))
}

/// The same with the certificate of this name.
pub fn channel_as(directory: &Path, port: u16, certificate: Option<&str>) -> Channel {
    let read = |name: &str| fs::read(directory.join(name)).unwrap();
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read("ca.crt")));
    if let Some(name) = certificate {
        tls = tls.identity(Identity::from_pem(read(&format!("{name}.crt")), read(&format!("{name}.key"))));
    }
    let endpoint = Channel::from_shared(format!("https://127.0.0.1:{port}")).unwrap();
    endpoint.tls_config(tls).unwrap().connect_lazy()
}

#[tokio::test(flavor = "multi_thread")]
async fn members_and_clients_prove_themselves_by_certificates() {
    let pki = tempfile::tempdir().unwrap();
    write_pki(pki.path());
    let cluster = crate::support::Cluster::start_tls(3, pki.path()).await;
    let port = cluster.members[0].client_port;
    let put = |with_certificate| {
        let mut kv = KvClient::new(channel(pki.path(), port, with_certificate));
        async move { kv.put(PutRequest { key: "a".into(), ..Default::default() }).await }
    };
    eventually("a write is acknowledged", async || put(true).await.ok()).await;
    assert!(put(false).await.is_err());
}
