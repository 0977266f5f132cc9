//! The never-arrows of crates/README.md, read from `cargo metadata` and the sources.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const BINARIES: [&str; 7] = ["store", "apiserver", "controller-manager", "scheduler", "kubelet", "node-routes", "quarterdeck"];
/// Those that talk to nothing but the API server, and what only they use.
const SPOKES: [&str; 6] = ["client", "controller-manager", "scheduler", "kubelet", "node-routes", "quarterdeck"];

/// A crate may not depend on these.
const NEVER: &[(&str, &[&str])] = &[
    ("store", &["apimachinery", "client"]),
    ("apimachinery", &["tokio", "tokio-util", "hyper", "tonic", "rand"]),
    ("apiserver", &["client"]),
    ("client", &["apiserver"]),
    ("component", &["apimachinery"]),
    ("streaming", &["apimachinery", "client", "component", "kube", "k8s-openapi"]),
];

/// Known to these only.
const ONLY: &[(&str, &[&str])] = &[("streaming", &["apiserver", "kubelet"])];

/// A word may stand below `within` only where `except` begins the path.
struct Word {
    rule: &'static str,
    word: &'static str,
    within: &'static [&'static str],
    except: &'static [&'static str],
}

const CRATES: &[&str] = &["crates/"];
const PURE: &[&str] = &[
    "crates/apimachinery/src/",
    "crates/store/src/apply/",
    "crates/store/src/mvcc/",
    "crates/scheduler/src/plugins/",
    "crates/scheduler/src/schedule.rs",
];

const WORDS: &[Word] = &[
    Word {
        rule: "only the store's services and the API server's etcd storage speak etcd",
        word: "etcd::",
        within: CRATES,
        except: &[
            "crates/etcd/",
            "crates/store/src/rpc/",
            "crates/store/tests/",
            "crates/apiserver/src/storage/etcd/",
            "crates/apiserver/tests/",
        ],
    },
    Word { rule: "only disk/ names rocksdb", word: "rocksdb::", within: CRATES, except: &["crates/store/src/disk/"] },
    Word { rule: "only raft/ names openraft", word: "openraft::", within: CRATES, except: &["crates/store/src/raft/"] },
    Word { rule: "pure code has no clock", word: "::now()", within: PURE, except: &[] },
    Word { rule: "pure code has no randomness", word: "rand::", within: PURE, except: &[] },
    Word { rule: "apimachinery has no files", word: "std::fs", within: &["crates/apimachinery/src/"], except: &[] },
    Word { rule: "apimachinery has no sockets", word: "std::net::Tcp", within: &["crates/apimachinery/src/"], except: &[] },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Direct dependencies of each member, those for tests and build scripts aside.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = Command::new(env!("CARGO")).args(["metadata", "--format-version=1", "--no-deps"]).current_dir(root()).output().unwrap();
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let normal = |dependency: &&Value| dependency["kind"].is_null();
    let names = |package: &Value| {
        let list = package["dependencies"].as_array().unwrap();
        list.iter().filter(normal).map(|dependency| dependency["name"].as_str().unwrap().to_owned()).collect()
    };
    let packages = metadata["packages"].as_array().unwrap();
    packages.iter().map(|package| (package["name"].as_str().unwrap().to_owned(), names(package))).collect()
}

#[test]
fn no_crate_depends_on_what_it_must_not_know() {
    let dependencies = dependencies();
    let mut broken = Vec::new();
    for (package, known) in &dependencies {
        if package == "tests" {
            continue;
        }
        let mut never: Vec<&str> = BINARIES.to_vec();
        if SPOKES.contains(&package.as_str()) {
            never.push("etcd");
        }
        never.extend(NEVER.iter().filter(|(name, _)| name == package).flat_map(|(_, words)| words.iter()));
        never.extend(ONLY.iter().filter(|(_, users)| !users.contains(&package.as_str())).map(|(name, _)| *name));
        broken.extend(
            never.into_iter().filter(|name| known.contains(*name)).map(|name| format!("crates/{package}/Cargo.toml: {package} -> {name}")),
        );
    }
    assert!(broken.is_empty(), "arrows that must not be:\n{}", broken.join("\n"));
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file: without its tests and comments. Tests within the file are its end; those in files of their own are a line.
fn code(path: &Path) -> Vec<(usize, String)> {
    let text = std::fs::read_to_string(path).unwrap();
    let all: Vec<_> = text.lines().collect();
    let ends = |at: usize| all[at] == "#[cfg(test)]" && !all.get(at + 1).is_some_and(|item| item.ends_with(';'));
    let end = (0..all.len()).find(|at| ends(*at)).unwrap_or(all.len());
    let lines = all[..end].iter().copied().enumerate().filter(|(at, _)| *at == 0 || all[at - 1] != "#[cfg(test)]");
    lines.filter(|(_, line)| !line.trim_start().starts_with("//")).map(|(number, line)| (number + 1, line.to_owned())).collect()
}

/// Whether `word` stands in the line on its own: `client::etcd::` and `crate::etcd::` name other things.
fn stands(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        word.starts_with("::") || before.is_none_or(|before| !(before.is_alphanumeric() || before == '_' || before == ':'))
    })
}

#[test]
fn words_stand_only_where_they_may() {
    let root = root();
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files);
    let mut broken = Vec::new();
    for file in &files {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap();
        let is_test = name.ends_with("tests.rs") || name.contains("/tests/") || name.ends_with("testing.rs");
        for rule in WORDS {
            let plan = name.ends_with("/plan.rs") || name.contains("/plan/");
            let within = rule.within.iter().any(|place| name.starts_with(place)) || (std::ptr::eq(rule.within, PURE) && plan);
            let concerns = within && !rule.except.iter().any(|place| name.starts_with(place));
            if concerns && !is_test {
                let lines = code(file).into_iter().filter(|(_, line)| stands(line, rule.word));
                broken.extend(lines.map(|(number, line)| format!("{name}:{number}: {}: {}", rule.rule, line.trim())));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_dependency_has_its_line_of_reason() {
    let readme = std::fs::read_to_string(root().join("crates/README.md")).unwrap();
    let own: BTreeSet<_> = dependencies().into_keys().collect();
    let used: BTreeSet<_> = dependencies().into_values().flatten().filter(|name| !own.contains(name)).collect();
    let missing: Vec<_> = used.iter().filter(|name| !readme.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "crates/README.md gives no reason for {missing:?}");
}
