//! From flags to who is let in, with real handshakes.

use std::{fs, path::Path, time::Duration};

use axum::Router;
use component::{
    Shutdown, serve,
    tls::{ClientTls, client::connect},
};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::Security;
use crate::{config::Config, listening::Listening};

const PATIENCE: Duration = Duration::from_secs(10);
/// What HTTP/2 begins with, and settings without content.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Writes an authority, certificates of `member` for localhost and of `other` for other.example, and a list that revokes the
/// latter.
fn write_pki(directory: &Path) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(directory.join("ca"), authority.pem()).unwrap();
    for (name, host, serial) in [("member", "localhost", 6_u64), ("other", "other.example", 7)] {
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from(serial));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        fs::write(directory.join(name), params.signed_by(&key, &authority).unwrap().pem()).unwrap();
        fs::write(directory.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(2020, 2, 1),
        crl_number: SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: SerialNumber::from(7_u64),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    fs::write(directory.join("crl"), list.signed_by(&authority).unwrap().pem().unwrap()).unwrap();
}

/// A configuration with the certificate of `member` on both sides; `DIR` is the directory.
fn config(directory: &Path, flags: &[&str]) -> Config {
    let place = directory.display().to_string();
    let sides = ["", "peer-"].into_iter().flat_map(|side| {
        [("cert-file", "member"), ("key-file", "member.key"), ("trusted-ca-file", "ca")]
            .map(|(flag, file)| format!("--{side}{flag}=DIR/{file}"))
    });
    let flags = sides.chain(flags.iter().map(|flag| (*flag).to_owned())).map(|flag| flag.replace("DIR", &place));
    let flags: Vec<_> = flags.collect();
    Config::from_flags(&flags.iter().map(String::as_str).collect::<Vec<_>>()).unwrap()
}

/// Whether a server of that side speaks with `client`.
async fn lets_in(config: &Config, side: &str, client: &ClientTls) -> bool {
    let security = Security::new(config).unwrap();
    let tls = if side == "client" { security.clients } else { security.peers };
    let listening = Listening::open(&["https://127.0.0.1:0".parse().unwrap()], tls, false).await.unwrap();
    let (port, stop) = (listening.urls()[0].port, Shutdown::new());
    listening.serve(Router::new(), &stop, Duration::ZERO, serve::Connections::default());
    let spoken = async {
        let mut stream = connect("localhost", port, client.config().unwrap(), PATIENCE).await?.into_inner();
        stream.write_all(HELLO).await?;
        // In TLS 1.3 a client learns only now that it was refused.
        stream.read_exact(&mut [0; 9]).await
    };
    let spoken = tokio::time::timeout(PATIENCE, spoken).await.expect("an answer or a refusal in time");
    stop.cancel();
    spoken.is_ok()
}

fn who(directory: &Path, name: &str) -> ClientTls {
    let identity = Some((directory.join(name), directory.join(format!("{name}.key"))));
    ClientTls { identity, ca_file: Some(directory.join("ca")), ..ClientTls::default() }
}

#[tokio::test]
async fn each_flag_turns_away_whom_it_does_not_allow() {
    component::install_crypto_provider();
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write_pki(directory);
    for (side, flag) in [
        ("client", "--client-cert-allowed-hostname=localhost"),
        ("client", "--client-crl-file=DIR/crl"),
        ("peer", "--peer-cert-allowed-cn=member"),
        ("peer", "--peer-cert-allowed-hostname=localhost"),
        ("peer", "--peer-crl-file=DIR/crl"),
    ] {
        let (open, restricted) = (config(directory, &[]), config(directory, &[flag]));
        let (member, other) = (who(directory, "member"), who(directory, "other"));
        assert!(lets_in(&open, side, &other).await, "{flag}: without it anybody of the authority is let in");
        assert!(lets_in(&restricted, side, &member).await, "{flag}");
        assert!(!lets_in(&restricted, side, &other).await, "{flag}");
        assert!(!lets_in(&restricted, side, &ClientTls { identity: None, ..member }).await, "{flag}: nobody comes without a certificate");
    }
}

#[tokio::test]
async fn a_name_in_the_configuration_file_turns_away_other_clients() {
    component::install_crypto_provider();
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write_pki(directory);
    let text =
        "client-transport-security: {cert-file: DIR/member, key-file: DIR/member.key, trusted-ca-file: DIR/ca, allowed-cn: [member]}";
    let file = directory.join("etcd.yaml");
    fs::write(&file, text.replace("DIR", &directory.display().to_string())).unwrap();
    let config = Config::from_flags(&["--config-file", file.to_str().unwrap()]).unwrap();
    assert!(lets_in(&config, "client", &who(directory, "member")).await);
    assert!(!lets_in(&config, "client", &who(directory, "other")).await);
}

#[tokio::test]
async fn a_member_dials_only_whom_it_would_let_in() {
    component::install_crypto_provider();
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write_pki(directory);
    let server = config(directory, &[]);
    for (flag, reached) in [
        ("--peer-cert-allowed-cn=member", true),
        ("--peer-cert-allowed-cn=other", false),
        ("--peer-cert-allowed-hostname=localhost", true),
        ("--peer-cert-allowed-hostname=other.example", false),
    ] {
        let dialing = Security::new(&config(directory, &[flag])).unwrap().to_peers;
        assert_eq!(lets_in(&server, "peer", &dialing).await, reached, "{flag}");
    }
}
