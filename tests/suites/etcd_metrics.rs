//! What a scrape of the store finds, beside a scrape of a real etcd after the same work: dashboards and alerts go by
//! names, types and labels.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use tests::{Maker, Server};

/// Metrics of etcd that the store has not, by how their names begin, each with the reason.
const ABSENT: [(&str, &str); 8] = [
    ("etcd_debugging_disk_backend_commit_", "steps of a commit of bbolt"),
    ("etcd_debugging_mvcc_index_compaction_", "pauses for an index in memory, which the store has not"),
    ("etcd_debugging_mvcc_range_total", "etcd 3.6 has it no more"),
    ("etcd_debugging_snap_save_", "snapshots of the second API's state"),
    ("etcd_debugging_store_", "the second API's state"),
    ("etcd_grpc_proxy_", "another program"),
    ("etcd_server_go_version", "a version of Go"),
    ("etcd_snap_db_fsync_duration_seconds", "part of what etcd_snap_db_save_total_duration_seconds measures"),
];

/// A family of metrics.
#[derive(Debug, PartialEq, Eq)]
struct Family {
    kind: String,
    /// The names of the labels that its values have; none where there is no value yet.
    labels: BTreeSet<Vec<String>>,
}

/// The families of a scrape, of those that are etcd's own.
fn families(scrape: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::new();
    for line in scrape.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
            && ["etcd_", "grpc_", "os_", "process_"].iter().any(|own| name.starts_with(own))
        {
            families.insert(name.to_owned(), Family { kind: kind.to_owned(), labels: BTreeSet::new() });
        }
    }
    for line in scrape.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let of =
            ["", "_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part).filter(|name| families.contains_key(*name)));
        if let Some(family) = of.and_then(|name| families.get_mut(name)) {
            family.labels.insert(labels(line));
        }
    }
    families
}

/// The names of the labels in a line, but for that of a bucket.
fn labels(line: &str) -> Vec<String> {
    let Some((_, labelled)) = line.split_once('{') else { return Vec::new() };
    let (pairs, _) = labelled.rsplit_once('}').unwrap();
    let names = pairs.split("\",").filter_map(|pair| pair.split_once('=')).map(|(name, _)| name.to_owned());
    let mut names: Vec<_> = names.filter(|name| name != "le").collect();
    names.sort();
    names
}

/// What is different from etcd's, each in a sentence.
fn differences(ours: &BTreeMap<String, Family>, etcds: &BTreeMap<String, Family>) -> Vec<String> {
    let known = |name: &str| ABSENT.iter().any(|(begin, _)| name.starts_with(begin));
    let mut differences = Vec::new();
    for (name, wanted) in etcds.iter().filter(|(name, _)| !known(name)) {
        match ours.get(name) {
            None => differences.push(format!("{name} is missing, a {}", wanted.kind)),
            Some(found) if found.kind != wanted.kind => differences.push(format!("{name} is a {}, not a {}", found.kind, wanted.kind)),
            // Whether a peer was ever out of reach depends on who started first.
            Some(found) if found.labels.is_empty() && (name.contains("failures") || name.contains("disconnected")) => {}
            Some(found) if found.labels != wanted.labels => {
                differences.push(format!("{name} has the labels {:?}, not {:?}", found.labels, wanted.labels));
            }
            Some(_) => {}
        }
    }
    differences
}

/// A little of everything that is measured.
fn work(server: &Server) {
    let ctl = |args: &[&str]| server.etcdctl(args).ok();
    ctl(&["put", "a", "1"]);
    ctl(&["put", "a", "2"]);
    ctl(&["get", "a"]);
    ctl(&["del", "a"]);
    server.etcdctl_with_input(&["txn"], "\nput b 1\nget b\n\n\n").ok();
    ctl(&["lease", "grant", "60"]);
    ctl(&["compaction", "3"]);
    ctl(&["endpoint", "hashkv"]);
    ctl(&["defrag"]);
    server.snapshot();
    ctl(&["member", "list"]);
}

fn scrape(server: &Server) -> BTreeMap<String, Family> {
    let answer = server.http_get("/metrics").unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.to_lowercase().contains("content-type: text/plain"), "{head}");
    families(body)
}

#[test]
fn a_server_alone_is_measured_as_etcd_is() {
    let [ours, etcds] = [Maker::Ours, Maker::Etcd].map(|maker| {
        let server = Server::start(maker, &["--metrics", "extensive"]);
        work(&server);
        scrape(&server)
    });
    let differences = differences(&ours, &etcds);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let unneeded: Vec<_> = ABSENT.iter().filter(|(begin, _)| ours.keys().any(|name| name.starts_with(begin))).collect();
    assert!(unneeded.is_empty(), "these are not absent: {unneeded:?}");
}

#[test]
fn each_member_of_a_cluster_is_measured_as_etcds_are() {
    let [ours, etcds] = [Maker::Ours, Maker::Etcd].map(|maker| {
        let servers = Server::cluster(maker, 3);
        work(&servers[0]);
        servers.iter().map(scrape).collect::<Vec<_>>()
    });
    // What only a leader measures is measured by one of them, whichever it is.
    let all = |scrapes: Vec<BTreeMap<String, Family>>| {
        let mut all = BTreeMap::<String, Family>::new();
        for (name, family) in scrapes.into_iter().flatten() {
            all.entry(name).and_modify(|known| known.labels.extend(family.labels.iter().cloned())).or_insert(family);
        }
        all
    };
    let differences = differences(&all(ours), &all(etcds));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
