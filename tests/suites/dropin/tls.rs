//! TLS, as far as flags ask for it without files of an authority.

use std::path::Path;
use std::process::Command;

use tests::{Maker, Output, ports::free, run};

use crate::process::{MAKERS, Member};

fn etcdctl(member: &Member, args: &[&str]) -> Output {
    let mut command = Command::new("etcdctl");
    let endpoint = format!("--endpoints=https://127.0.0.1:{}", member.client);
    run(command.env("ETCDCTL_API", "3").args([&endpoint, "--dial-timeout=2s", "--command-timeout=10s"]).args(args))
}

fn secure(maker: Maker, flags: &[&str]) -> Member {
    Member::start(maker, |command, directory, client, peer| line(command, directory, client, peer, flags))
}

fn line(command: &mut Command, directory: &Path, client: u16, peer: u16, flags: &[&str]) {
    let (client, peer) = (format!("https://127.0.0.1:{client}"), format!("https://127.0.0.1:{peer}"));
    command.arg(format!("--data-dir={}", directory.join("data").display()));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--listen-peer-urls", &peer]);
    command.args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", &format!("default={peer}")]);
    command.args(["--auto-tls", "--peer-auto-tls"]).args(flags);
}

fn speaks(member: &Member, version: &str) -> bool {
    let mut command = Command::new("openssl");
    let address = format!("127.0.0.1:{}", member.client);
    run(command.args(["s_client", "-connect", &address, version])).out.contains("BEGIN CERTIFICATE")
}

#[test]
fn certificates_are_made_and_kept_for_the_next_start() {
    for maker in MAKERS {
        let mut member = secure(maker, &[]);
        let fixtures = member.directory.path().join("data/fixtures");
        let made = |side: &str, file: &str| fixtures.join(side).join(file);
        for side in ["client", "peer"] {
            assert!(made(side, "cert.pem").is_file() && made(side, "key.pem").is_file(), "{maker:?} {side}");
        }
        let believed = format!("--cacert={}", made("client", "cert.pem").display());
        assert_eq!(etcdctl(&member, &[&believed, "put", "a", "1"]).ok(), "OK\n");
        assert_eq!(etcdctl(&member, &[&believed, "get", "a"]).ok(), "a\n1\n");
        assert_ne!(etcdctl(&member, &["get", "a"]).code, 0, "{maker:?}: a stranger does not believe it");
        let read = || ["client", "peer"].map(|side| std::fs::read(made(side, "cert.pem")).unwrap());
        let first = read();
        member.again(|command, directory, client, peer| line(command, directory, client, peer, &[]), maker);
        assert_eq!(etcdctl(&member, &[&believed, "get", "a"]).ok(), "a\n1\n");
        assert_eq!(read(), first, "{maker:?}");
    }
}

#[test]
fn only_the_versions_asked_for_are_spoken() {
    if !tests::has("openssl") {
        eprintln!("skipped: openssl is not on this machine");
        return;
    }
    let latest = secure(Maker::Ours, &["--tls-min-version=TLS1.3"]);
    assert_eq!((speaks(&latest, "-tls1_2"), speaks(&latest, "-tls1_3")), (false, true));
    let former = secure(Maker::Ours, &["--tls-max-version=TLS1.2", "--cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]);
    assert_eq!((speaks(&former, "-tls1_2"), speaks(&former, "-tls1_3")), (true, false));
}

#[test]
fn members_with_certificates_of_their_own_making_form_a_cluster() {
    for maker in MAKERS {
        let ports = free(6);
        let listed: Vec<_> = (0..3).map(|number| format!("m{number}=https://127.0.0.1:{}", ports[number])).collect();
        let listed = listed.join(",");
        let directory = tempfile::tempdir().unwrap();
        let members: Vec<_> = (0..3).map(|number| start(maker, number, &ports, &listed, directory.path())).collect();
        tests::eventually("the cluster takes writes", || {
            let mut command = Command::new("etcdctl");
            let endpoint = format!("--endpoints=http://127.0.0.1:{}", ports[3]);
            run(command.env("ETCDCTL_API", "3").args([&endpoint, "--command-timeout=2s", "put", "a", "1"])).code == 0
        });
        drop(members);
    }
}

fn start(maker: Maker, number: usize, ports: &[u16], listed: &str, directory: &Path) -> tests::Background {
    let (client, peer) = (format!("http://127.0.0.1:{}", ports[number + 3]), format!("https://127.0.0.1:{}", ports[number]));
    let mut command = Command::new(maker.server());
    command.arg(format!("--name=m{number}")).arg(format!("--data-dir={}", directory.join(format!("m{number}")).display()));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--listen-peer-urls", &peer]);
    command.args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", listed, "--peer-auto-tls"]);
    tests::Background::run(&mut command, &directory.join(format!("m{number}.log")))
}
