//! What probes and dashboards ask.

use serde_json::Value;
use tests::{Maker, Server};

use crate::process::{MAKERS, Member};
use crate::web::{self, get};

#[test]
fn health_is_told_in_etcds_form() {
    for maker in MAKERS {
        let member = Member::plain(maker, &[]);
        for path in ["/health", "/health?serializable=true", "/health?exclude=NOSPACE"] {
            let answer = get(member.client, path).unwrap();
            assert_eq!((answer.code, answer.body.trim()), (200, r#"{"health":"true","reason":""}"#), "{maker:?} {path}");
        }
        assert_eq!(web::post(member.client, "/health", "").code, 405, "{maker:?}");
        member.etcdctl(&["put", "a", "1"]).ok();
        let raised = r#"{"action":"ACTIVATE","alarm":"NOSPACE"}"#;
        assert_eq!(web::post(member.client, "/v3/maintenance/alarm", raised).code, 200, "{maker:?}");
        let answer = get(member.client, "/health").unwrap();
        assert_eq!((answer.code, answer.body.trim()), (503, r#"{"health":"false","reason":"ALARM NOSPACE"}"#), "{maker:?}");
        assert_eq!(get(member.client, "/health?exclude=NOSPACE").unwrap().code, 200, "{maker:?}");
    }
}

#[test]
fn probes_of_3_6_are_answered() {
    let member = Member::plain(Maker::Ours, &[]);
    let body = |path: &str| get(member.client, path).map(|answer| (answer.code, answer.body)).unwrap();
    assert_eq!(body("/livez"), (200, "ok\n".into()));
    assert_eq!(body("/livez?verbose"), (200, "[+]serializable_read ok\nok\n".into()));
    let all = "[+]data_corruption ok\n[+]serializable_read ok\n[+]linearizable_read ok\n[+]non_learner ok\nok\n";
    assert_eq!(body("/readyz?verbose"), (200, all.into()));
    assert_eq!(body("/readyz?verbose&exclude=linearizable_read&exclude=nonsense"), (200, all.replace("[+]linearizable_read ok\n", "")));
    assert_eq!(body("/readyz/non_learner?verbose&exclude=non_learner"), (200, "[+]non_learner ok\nok\n".into()));
    assert_eq!(body("/readyz/nonsense").0, 404);
    web::post(member.client, "/v3/maintenance/alarm", r#"{"action":"ACTIVATE","alarm":"CORRUPT"}"#);
    let failed = body("/readyz");
    assert!(failed.0 == 503 && failed.1.contains("[-]data_corruption failed: alarm activated: CORRUPT\n"), "{failed:?}");
    assert_eq!(body("/readyz?exclude=data_corruption").0, 200);
}

#[test]
fn a_member_without_a_quorum_lives_and_is_not_ready() {
    let mut members = Server::cluster(Maker::Ours, 3);
    members.truncate(1);
    let port = members[0].endpoint().rsplit_once(':').unwrap().1.parse().unwrap();
    tests::eventually("the member is not ready", || get(port, "/readyz").is_ok_and(|answer| answer.code == 503));
    assert_eq!(get(port, "/livez").unwrap().code, 200);
    assert_eq!(get(port, "/health?serializable=true").unwrap().code, 200);
    assert_eq!(get(port, "/health").unwrap().code, 503);
}

#[test]
fn the_version_is_told_and_metrics_are_served() {
    for maker in MAKERS {
        let member = Member::plain(maker, &[]);
        let version: Value = serde_json::from_str(&get(member.client, "/version").unwrap().body).unwrap();
        let wanted = if maker == Maker::Ours { "3.6." } else { "3.5." };
        assert!(version["etcdserver"].as_str().unwrap().starts_with(wanted), "{version}");
        assert!(version["etcdcluster"].as_str().unwrap().starts_with(wanted), "{version}");
        let metrics = get(member.client, "/metrics").unwrap();
        let leads = |line: &str| line.strip_prefix("etcd_server_has_leader ").is_some_and(|value| value.parse() == Ok(1.0));
        assert!(metrics.body.lines().any(leads), "{maker:?}");
        assert_eq!(get(member.client, "/nonsense").unwrap().code, 404, "{maker:?}");
    }
}

#[test]
fn http_may_have_a_port_of_its_own() {
    let port = tests::ports::free(1)[0];
    let member = Member::start(Maker::Ours, |command, _, client, peer| {
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        command.args(["--listen-client-urls", &client, "--listen-peer-urls", &peer]);
        command.arg(format!("--listen-client-http-urls=http://127.0.0.1:{port}"));
    });
    tests::eventually("HTTP is served there", || get(port, "/health").is_ok_and(|answer| answer.code == 200));
    assert_eq!(web::post(port, "/v3/kv/put", r#"{"key":"YQ==","value":"MQ=="}"#).code, 200);
    assert_eq!(member.etcdctl(&["get", "a"]).ok(), "a\n1\n");
    assert_eq!(get(member.client, "/health").unwrap().code, 404, "the other port is for gRPC alone");
}

#[test]
fn hosts_and_origins_are_let_in_as_flags_say() {
    for maker in MAKERS {
        let member = Member::start(maker, |command, _, client, peer| {
            let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--listen-peer-urls", &peer]);
            command.args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", &format!("default={peer}")]);
            command.args(["--host-whitelist=known.example", "--cors=http://page.example:80"]);
        });
        let ask = |headers: &str| web::ask(member.client, "GET", "/version", headers, "").unwrap();
        assert_eq!(ask("").code, 421, "{maker:?}: localhost is not on the list");
        let call = web::ask(member.client, "POST", "/etcdserverpb.KV/Range", "Content-Type: application/grpc\r\n", "\0\0\0\0\0").unwrap();
        assert_eq!(call.code, if maker == Maker::Ours { 404 } else { 421 }, "{maker:?}: nor is it for gRPC below HTTP/2: {call:?}");
        let listed = Member::plain(maker, &["--host-whitelist=localhost", "--cors=http://page.example:80"]);
        let ask = |headers: &str| web::ask(listed.client, "OPTIONS", "/version", headers, "").unwrap();
        let allowed = ask("Origin: http://page.example:80\r\n");
        assert_eq!(allowed.code, 200, "{maker:?}");
        assert!(allowed.head.contains("access-control-allow-origin: http://page.example:80"), "{maker:?} {}", allowed.head);
        assert!(!ask("Origin: http://other.example\r\n").head.contains("access-control-allow-origin"), "{maker:?}");
    }
}
