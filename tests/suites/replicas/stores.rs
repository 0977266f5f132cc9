//! Where a server finds its store: several addresses, stores of single resources, another prefix.

use std::time::Duration;

use tests::{Maker, Server, run, within};

use crate::several::Several;

const PATIENCE: Duration = Duration::from_secs(30);
const EVENT: &str = r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"happened","namespace":"default"},
    "involvedObject":{"kind":"Pod","namespace":"default","name":"p"},"reason":"Test","message":"m","type":"Normal"}"#;

#[test]
fn a_server_finds_its_store_by_any_of_its_addresses_and_events_in_another() {
    let mut several = Several::on(Maker::Ours);
    let events = Server::start(Maker::Ours, &[]);
    let part = &mut several.parts[1];
    part.stop();
    let dead = format!("https://127.0.0.1:{}", tests::ports::free(1)[0]);
    let servers = format!("{dead},{},{dead}", part.flag("etcd-servers"));
    part.set_flag("etcd-servers", &servers);
    part.set_flag("etcd-servers-overrides", &format!("/events#{dead};{}", events.endpoint()));
    part.set_flag("etcd-prefix", "/elsewhere");
    several.start(1);
    let apply = |text: &str| {
        let url = format!("--server={}", several.url(1));
        several.cluster.kubectl_with_input(&["create", "-f", "-", &url], text).ok();
    };
    apply(EVENT);
    apply(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default"}}"#);
    assert!(several.kubectl(1, &["get", "events,configmaps"]).ok().contains("Test"));
    let keys = ["get", "/", "--prefix", "--keys-only"];
    let (usual, apart) = (several.cluster.etcdctl(&["store-1"], &keys).ok(), events.etcdctl(&keys).ok());
    assert_eq!(apart.split_whitespace().collect::<Vec<_>>(), ["/elsewhere/events/default/happened"]);
    assert!(usual.contains("/elsewhere/configmaps/default/c\n") && !usual.contains("/elsewhere/events/"), "{usual}");
    assert_eq!(several.kubectl(0, &["get", "configmap", "c"]).code, 1, "the prefix keeps the servers apart");
    drop(events);
    within(PATIENCE, "the server misses the store of the events", || {
        let ready = several.kubectl(1, &["get", "--raw", "/readyz?verbose"]);
        if ready.err.contains("[-]etcd failed") { Ok(()) } else { Err(format!("{ready:?}")) }
    });
    several.kubectl(1, &["get", "configmap", "c"]).ok();
}

#[test]
fn what_is_wrong_about_the_stores_flags_is_named() {
    let cases: [(&[&str], &str); 5] = [
        (
            &["--etcd-servers=http://127.0.0.1:1", "--etcd-servers-overrides=/events"],
            "--etcd-servers-overrides\" flag: must be of format: ",
        ),
        (&["--etcd-servers=http://127.0.0.1:1", "--etcd-cafile=/none"], "read --etcd-cafile /none: "),
        (&["--etcd-servers=http://127.0.0.1:1", "--etcd-certfile=/none"], "--etcd-certfile needs --etcd-keyfile"),
        (&["--etcd-servers=ftp://127.0.0.1:1"], "connect to --etcd-servers: "),
        (
            &["--etcd-servers=http://127.0.0.1:1", "--endpoint-reconciler-type=master-count"],
            "\"master-count\" for \"--endpoint-reconciler-type\"",
        ),
    ];
    let several = Several::on(Maker::Ours);
    let pki = |file: &str| several.cluster.directory().join("pki").join(file).display().to_string();
    for (flags, wanted) in cases {
        let mut command = std::process::Command::new(tests::binary("apiserver"));
        let keys = [format!("--tls-cert-file={}", pki("apiserver.crt")), format!("--tls-private-key-file={}", pki("apiserver.key"))];
        let said = run(command.args(keys).args(["--bind-address=127.0.0.1", "--secure-port=0"]).args(flags));
        assert!(said.code == 1 && said.err.contains(wanted), "{flags:?}: {said:?}");
    }
}
