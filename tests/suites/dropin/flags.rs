//! Command lines, variables and configuration files.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::{Maker, within};

use crate::process::{MAKERS, Member, to_its_end};
use crate::web;

/// Words and variables with which a member does not start, the exit code, and what both programs say.
type Refused = (&'static [&'static str], &'static [(&'static str, &'static str)], i32, &'static str);

const REFUSED: &[Refused] = &[
    (&["--nope"], &[], 2, "flag provided but not defined: -nope"),
    (&["-nope=x"], &[], 2, "flag provided but not defined: -nope"),
    (&["--name"], &[], 2, "flag needs an argument: -name"),
    (&["---name"], &[], 2, "bad flag syntax: ---name"),
    (&["--heartbeat-interval", "x"], &[], 2, r#"invalid value "x" for flag -heartbeat-interval: parse error"#),
    (&["--max-txn-ops", "1.5"], &[], 2, r#"invalid value "1.5" for flag -max-txn-ops: parse error"#),
    (&["--snapshot-count=-1"], &[], 2, r#"invalid value "-1" for flag -snapshot-count: "#),
    (&["--grpc-keepalive-interval", "5"], &[], 2, r#"invalid value "5" for flag -grpc-keepalive-interval: parse error"#),
    (&["--pre-vote=maybe"], &[], 2, r#"invalid boolean value "maybe" for -pre-vote: parse error"#),
    (&["--initial-cluster-state", "old"], &[], 2, r#"invalid value "old" for flag -initial-cluster-state: "#),
    (&["--listen-client-urls", "foo:1"], &[], 2, r#"invalid value "foo:1" for flag -listen-client-urls: URL scheme must be http"#),
    (&["--listen-peer-urls", "http://x"], &[], 2, r#"URL address does not have the form "host:port": http://x"#),
    (&["--log-level", "loud"], &[], 2, ""),
    (&["word"], &[], 1, "is not a valid flag"),
    (&["--heartbeat-interval", "0"], &[], 1, "--heartbeat-interval must be >0 (set to 0ms)"),
    (&["--election-timeout", "0"], &[], 1, "--election-timeout must be >0 (set to 0ms)"),
    (&["--election-timeout", "300"], &[], 1, "--election-timeout[300ms] should be at least as 5 times as --heartbeat-interval[100ms]"),
    (&["--election-timeout", "60000"], &[], 1, "--election-timeout[60000ms] is too long, and should be set less than 50000ms"),
    (&["--auto-compaction-mode", "x"], &[], 1, "unknown auto-compaction-mode"),
    (&["--logger", "x"], &[], 1, "logger"),
    (&["--config-file", "nowhere.yaml"], &[], 1, "nowhere.yaml"),
    (&[], &[("ETCD_CONFIG_FILE", "nowhere.yaml")], 1, "nowhere.yaml"),
    (&[], &[("ETCD_HEARTBEAT_INTERVAL", "0")], 1, "--heartbeat-interval must be >0 (set to 0ms)"),
    (&[], &[("ETCD_HEARTBEAT_INTERVAL", "x")], 1, "for ETCD_HEARTBEAT_INTERVAL: parse error"),
    (&["--name", "a"], &[("ETCD_NAME", "b")], 1, "ETCD_NAME"),
];

#[test]
fn what_etcd_refuses_is_refused_with_its_words_and_exit_code() {
    for maker in MAKERS {
        for (words, variables, code, said) in REFUSED {
            let output = to_its_end(maker, words, variables);
            let told = format!("{}{}", output.out, output.err).replace(r#"\""#, r#"""#);
            assert_eq!(output.code, *code, "{maker:?} {words:?} {variables:?}: {told}");
            assert!(told.contains(said), "{maker:?} {words:?} {variables:?}: {told}");
        }
    }
}

#[test]
fn the_version_and_the_flags_are_printed() {
    for maker in MAKERS {
        let version = to_its_end(maker, &["--version"], &[]).ok();
        let wanted = if maker == Maker::Ours { "etcd Version: 3.6." } else { "etcd Version: 3." };
        assert!(version.starts_with(wanted), "{version}");
        for word in ["-h", "--help"] {
            let help = to_its_end(maker, &[word], &[]).ok();
            assert!(help.contains("--initial-advertise-peer-urls '"), "{help}");
        }
    }
}

/// Flags that scripts pass and that only change how the program works inside, and one that sets a limit.
const SCRIPTED: &[&str] = &[
    "-max-txn-ops=2",
    "--snapshot-count=100",
    "--pre-vote=true",
    "--strict-reconfig-check=false",
    "--max-wals=3",
    "--max-snapshots=3",
    "--backend-batch-interval=10ms",
    "--backend-batch-limit=10",
    "--backend-bbolt-freelist-type=map",
    "--logger=zap",
    "--log-outputs=stderr",
    "--log-level=info",
    "--socket-reuse-port",
    "--socket-reuse-address",
    "--grpc-keepalive-min-time=1s",
    "--grpc-keepalive-interval=1m",
    "--grpc-keepalive-timeout=5s",
    "--initial-election-tick-advance=false",
    "--enable-pprof",
    "--metrics=extensive",
    "--unsafe-no-fsync",
    "--experimental-initial-corrupt-check=true",
    "--experimental-corrupt-check-time=1h",
    "--experimental-enable-lease-checkpoint",
    "--experimental-compaction-batch-limit=100",
    "--experimental-warning-apply-duration=1s",
    "--experimental-txn-mode-write-with-shared-buffer=true",
    "--experimental-bootstrap-defrag-threshold-megabytes=1",
    "--experimental-peer-skip-client-san-verification=true",
    "--auto-compaction-retention=1h",
    "--quota-backend-bytes=100000000",
    "--cors=*",
    "--host-whitelist=*",
];

fn works(member: &Member, name: &str) {
    assert_eq!(member.etcdctl(&["put", "a", "1"]).ok(), "OK\n");
    let status = member.etcdctl(&["get", "a", "-w", "fields"]).ok();
    assert!(status.contains("\"Revision\" : 2\n"), "the first write has revision 2: {status}");
    let members = member.etcdctl(&["member", "list"]).ok();
    let row = format!(", started, {name}, http://127.0.0.1:{}, http://127.0.0.1:{}, false\n", member.peer, member.client);
    assert!(members.ends_with(&row), "{members}");
}

#[test]
fn flags_that_scripts_pass_are_known_and_a_limit_holds() {
    for maker in MAKERS {
        let member = Member::plain(maker, SCRIPTED);
        works(&member, "default");
        let read = r#"{"request_range":{"key":"YQ=="}}"#;
        let refused = web::post(member.client, "/v3/kv/txn", &format!(r#"{{"success":[{read},{read},{read}]}}"#));
        assert!(refused.code == 400 && refused.body.contains("too many operations"), "{maker:?} {refused:?}");
    }
}

/// Flags of 3.6 alone, which the etcd at hand does not know.
const SINCE_3_6: &[&str] = &[
    "--feature-gates=LeaseCheckpoint=true,StopGRPCServiceOnDefrag=true,AllBeta=true",
    "--snapshot-catchup-entries=100",
    "--experimental-snapshot-catchup-entries=100",
    "--memory-mlock",
    "--downgrade-check-time=1s",
    "--distributed-tracing-sampling-rate=1",
    "--discovery-fallback=exit",
    "--max-concurrent-streams=100",
    "--raft-read-timeout=1s",
    "--v2-deprecation=gone",
];

#[test]
fn flags_of_3_6_are_known_and_those_without_effect_are_told_of() {
    let error = to_its_end(Maker::Ours, SINCE_3_6, &[]);
    assert_eq!(error.code, 1);
    assert!(error.err.contains("cannot set --experimental-snapshot-catchup-entries and --snapshot-catchup-entries"), "{}", error.err);
    let flags: Vec<_> = SINCE_3_6.iter().copied().filter(|flag| !flag.starts_with("--snapshot-catchup")).collect();
    let member = Member::plain(Maker::Ours, &flags);
    works(&member, "default");
    let log = member.log();
    for flag in ["--snapshot-catchup-entries", "--memory-mlock", "--v2-deprecation", "--feature-gates=StopGRPCServiceOnDefrag"] {
        let told = log.lines().any(|line| line.contains("without effect") && line.contains(flag));
        assert!(told, "{flag}: {log}");
    }
    assert!(log.lines().any(|line| line.contains("deprecated flag") && line.contains("--experimental-snapshot-catchup-entries")), "{log}");
}

#[test]
fn a_line_of_the_log_is_an_object_unless_asked_otherwise() {
    let ready = |maker, flags: &[&str]| {
        let log = Member::plain(maker, flags).log();
        log.lines().find(|line| line.contains("ready to serve client requests")).unwrap().to_owned()
    };
    for maker in MAKERS {
        let line: serde_json::Value = serde_json::from_str(&ready(maker, &[])).unwrap();
        assert_eq!((&line["level"], &line["msg"]), (&"info".into(), &"ready to serve client requests".into()), "{maker:?}");
        assert!(line["ts"].is_string() && line["caller"].is_string(), "{maker:?}: {line}");
    }
    let text = ready(Maker::Ours, &["--log-format=console"]);
    assert!(!text.starts_with('{'), "{text}");
}

#[test]
fn variables_stand_for_flags_and_unknown_ones_are_told_of() {
    for maker in MAKERS {
        let member = Member::start(maker, |command, _, client, peer| {
            let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
            command.envs([("ETCD_NAME", "by-variable"), ("ETCD_NAMES", "unknown"), ("ETCD_PRE_VOTE", "true"), ("ETCD_DATA_DIR", "")]);
            command.envs([("ETCD_LISTEN_CLIENT_URLS", &client), ("ETCD_ADVERTISE_CLIENT_URLS", &client)]);
            command.envs([("ETCD_LISTEN_PEER_URLS", &peer), ("ETCD_INITIAL_ADVERTISE_PEER_URLS", &peer)]);
            command.env("ETCD_INITIAL_CLUSTER", format!("by-variable={peer}"));
        });
        member.wait();
        works(&member, "by-variable");
        assert!(member.directory.path().join("by-variable.etcd/member").is_dir(), "the default data directory");
        let log = member.log();
        assert!(log.lines().any(|line| line.contains("unrecognized environment variable") && line.contains("ETCD_NAMES")), "{log}");
        let used = log.lines().any(|line| line.contains("recognized and used environment variable") && line.contains("by-variable"));
        assert!(used, "{log}");
    }
}

#[test]
fn a_configuration_file_counts_alone() {
    for maker in MAKERS {
        let member = Member::start(maker, |command, directory, client, peer| {
            let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
            let text = format!(
                "name: by-file\ndata-dir: {}\nlisten-client-urls: {client}\nadvertise-client-urls: {client}\nlisten-peer-urls: {peer}\n\
                 initial-advertise-peer-urls: {peer}\ninitial-cluster: by-file={peer}\ninitial-cluster-state: new\nunknown-key: 1\n\
                 snapshot-count: 100\nmax-txn-ops: 7\npre-vote: true\nlog-outputs: [stderr]\nauto-compaction-mode: revision\n\
                 auto-compaction-retention: \"1000\"\nquota-backend-bytes: 0\ngrpc-keepalive-interval: 60000000000\n\
                 client-transport-security:\n  client-cert-auth: false\npeer-transport-security:\n  auto-tls: false\n",
                directory.join("file-data").display(),
            );
            std::fs::write(directory.join("etcd.yaml"), text).unwrap();
            command.args(["--config-file", "etcd.yaml", "--name", "by-flag"]).env("ETCD_NAME", "by-variable");
        });
        member.wait();
        works(&member, "by-file");
        assert!(member.directory.path().join("file-data/member").is_dir());
    }
}

#[test]
fn a_file_with_a_value_of_another_type_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("etcd.yaml");
    // A number is no text either, though YAML asks for quotes then.
    for (key, value) in [("snapshot-count", "many"), ("auto-compaction-retention", "8"), ("name", "1"), ("name", "true")] {
        std::fs::write(&file, format!("{key}: {value}\n")).unwrap();
        for maker in MAKERS {
            let output = to_its_end(maker, &["--config-file", file.to_str().unwrap()], &[]);
            assert_eq!(output.code, 1, "{maker:?} {key} {output:?}");
            assert!(output.err.contains(key), "{maker:?} {key} {output:?}");
        }
    }
}

#[test]
fn the_log_can_lie_in_a_directory_of_its_own() {
    for maker in MAKERS {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("deep/wal");
        let flag = format!("--wal-dir={}", log.display());
        let member = Member::plain(maker, &[&flag]);
        works(&member, "default");
        assert!(std::fs::read_dir(&log).unwrap().count() > 0);
    }
}

#[test]
fn a_termination_signal_ends_the_program_cleanly() {
    for maker in MAKERS {
        let mut member = Member::plain(maker, &[]);
        works(&member, "default");
        kill(Pid::from_raw(member.pid()), Signal::SIGTERM).unwrap();
        let ended = within(Duration::from_secs(20), "the program ends", || member.ended().ok_or_else(|| member.log()));
        // etcd ends by sending the signal to itself again; a supervisor takes both for an end that was asked for.
        match maker {
            Maker::Ours => assert_eq!(ended.code(), Some(0), "{}", member.log()),
            Maker::Etcd => assert!(ended.success() || ended.signal() == Some(Signal::SIGTERM as i32), "{ended:?}"),
        }
    }
}
