//! Keys, leases, watches and transactions by the command line.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::{Background, Maker, Server, within};

use crate::{Group, MAKERS};

const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until a file holds a text.
pub(crate) fn reads(file: &Path, wanted: impl Fn(&str) -> bool) -> String {
    within(PATIENCE, "the output", || {
        let text = std::fs::read_to_string(file).unwrap();
        if wanted(&text) { Ok(text) } else { Err(text) }
    })
}

#[test]
fn leases_live_by_their_commands() {
    for maker in MAKERS {
        let group = Group::start(maker);
        let granted = group.ctl(&["lease", "grant", "600"]);
        let id = granted.split(' ').nth(1).unwrap().to_owned();
        assert_eq!(granted, format!("lease {id} granted with TTL(600s)\n"));
        assert_eq!(group.ctl(&["lease", "list"]), format!("found 1 leases\n{id}\n"));
        group.ctl(&["put", "a", "1", &format!("--lease={id}")]);
        assert_eq!(group.ctl(&["lease", "keep-alive", "--once", &id]), format!("lease {id} keepalived with TTL(600)\n"));
        let left = group.ctl(&["lease", "timetolive", &id, "--keys"]);
        let (left, fixed) = (left.as_str(), format!("lease {id} granted with TTL(600s), remaining("));
        assert!(left.starts_with(&fixed) && left.ends_with(", attached keys([a])\n"), "{left}");
        assert_eq!(group.ctl(&["lease", "revoke", &id]), format!("lease {id} revoked\n"));
        assert_eq!(group.ctl(&["get", "a"]), "");
        assert_eq!(group.ctl(&["lease", "timetolive", &id]), format!("lease {id} already expired\n"));
        let again = group.try_ctl(&["lease", "revoke", &id]);
        assert!(again.code != 0 && again.err.contains("etcdserver: requested lease not found"), "{again:?}");
        let gone = group.try_ctl(&["lease", "keep-alive", "--once", &id]);
        assert!(gone.out.contains("expired or revoked") || gone.err.contains("requested lease not found"), "{gone:?}");
    }
}

#[test]
fn watches_take_their_options() {
    for maker in MAKERS {
        let group = Group::start(maker);
        for (key, value) in [("k/a", "1"), ("k/b", "1"), ("other", "1")] {
            group.ctl(&["put", key, value]);
        }
        let place = group.members[0].directory();
        let cases: [(&[&str], &str); 4] = [
            (&["watch", "k/", "--prefix", "--rev=2"], "PUT\nk/a\n1\nPUT\nk/b\n1\nPUT\nk/a\n2\nDELETE\nk/b\n\n"),
            (&["watch", "k/a", "--rev=5"], "PUT\nk/a\n2\n"),
            (&["watch", "k/a", "k/c", "--prev-kv", "--rev=5"], "PUT\nk/a\n1\nk/a\n2\nDELETE\nk/b\n1\nk/b\n\n"),
            (&["watch", "", "--prefix", "--rev=6"], "DELETE\nk/b\n\nPUT\nother\n2\n"),
        ];
        let watches: Vec<_> = cases
            .iter()
            .enumerate()
            .map(|(number, (args, _))| {
                let out = place.join(format!("watch-{number}"));
                (Background::run(&mut group.command(args), &out), out)
            })
            .collect();
        group.ctl(&["put", "k/a", "2"]);
        group.ctl(&["del", "k/b"]);
        group.ctl(&["put", "other", "2"]);
        for ((_, out), (args, expected)) in watches.iter().zip(cases) {
            let text = reads(out, |text| text.len() >= expected.len());
            assert_eq!(text, expected, "{args:?}");
        }
    }
}

#[test]
fn transactions_are_asked_for_interactively() {
    for maker in MAKERS {
        let group = Group::start(maker);
        group.ctl(&["put", "a", "1"]);
        let question = "value(\"a\") = \"1\"\nmod(\"a\") > \"0\"\n\nput b \"two words\"\nget a\n\nput b lost\n\n";
        let said = group.ctl_with_input(&["txn", "-i"], question).ok();
        assert_eq!(said, "compares:\nsuccess requests (get, put, del):\nfailure requests (get, put, del):\nSUCCESS\n\nOK\n\na\n1\n");
        assert_eq!(group.ctl(&["get", "b", "--print-value-only"]), "two words\n");
        let said = group.ctl_with_input(&["txn"], "ver(\"a\") = \"9\"\n\nput b lost\n\ndel b\n\n").ok();
        assert!(said.starts_with("FAILURE\n") && said.ends_with("\n1\n"), "{said}");
    }
}

#[test]
fn keys_are_listed_by_every_option() {
    for maker in MAKERS {
        let group = Group::start(maker);
        for (key, value) in [("b", "1"), ("a", "2"), ("c", "0"), ("b", "3")] {
            group.ctl(&["put", key, value]);
        }
        for (args, expected) in [
            (&["get", "a", "c"][..], "a\n2\nb\n3\n"),
            (&["get", "b", "--from-key", "--keys-only"], "b\n\nc\n\n"),
            (&["get", "", "--prefix", "--order=DESCEND", "--sort-by=VALUE", "--keys-only"], "b\n\na\n\nc\n\n"),
            (&["get", "", "--prefix", "--sort-by=CREATE", "--order=ASCEND", "--limit=1"], "b\n3\n"),
            (&["get", "", "--prefix", "--rev=3"], "a\n2\nb\n1\n"),
            (&["get", "", "--prefix", "--count-only", "-w", "fields"], "\"Count\" : 3"),
            (&["get", "a", "--consistency=s"], "a\n2\n"),
            (&["del", "a", "c", "--prev-kv"], "2\na\n2\nb\n3\n"),
            (&["del", "", "--prefix"], "1\n"),
        ] {
            let said = group.ctl(args);
            assert!(said == expected || (expected.contains("Count") && said.contains(expected)), "{args:?}: {said}");
        }
    }
}

#[test]
fn a_mirror_follows_to_the_other_maker() {
    for (from, to) in [(Maker::Ours, Maker::Etcd), (Maker::Etcd, Maker::Ours)] {
        let (origin, mirror) = (Server::start(from, &[]), Server::start(to, &[]));
        origin.etcdctl(&["put", "k/before", "1"]).ok();
        let mut command = Command::new("etcdctl");
        let destination = mirror.endpoint().trim_start_matches("http://");
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", origin.endpoint()));
        command.args(["make-mirror", "--dest-insecure-transport=true", destination]);
        let log = origin.directory().join("mirror.log");
        let _mirroring = Background::run(&mut command, &log);
        let shows = |wanted: &str| {
            within(PATIENCE, "the mirror shows it", || {
                let got = mirror.etcdctl(&["get", "k/", "--prefix"]).ok();
                if got == wanted { Ok(()) } else { Err(format!("{got}\n{}", std::fs::read_to_string(&log).unwrap())) }
            });
        };
        shows("k/before\n1\n");
        origin.etcdctl(&["put", "k/after", "2"]).ok();
        shows("k/after\n2\nk/before\n1\n");
        origin.etcdctl(&["del", "k/before"]).ok();
        shows("k/after\n2\n");
    }
}
