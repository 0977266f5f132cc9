//! `docker-compose.yml` and the scripts of `deploy/`, each at its own door: without an image, without a cluster.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::{Output, binary, run};

const COMPOSE: &str = include_str!("../../docker-compose.yml");
const SUPERVISOR: &str = include_str!("../../deploy/images/node/supervisor");

fn services() -> BTreeMap<String, Value> {
    let file: Value = serde_yaml_ng::from_str(COMPOSE).unwrap();
    file["services"].as_object().unwrap().clone().into_iter().collect()
}

/// A mapping of the service, with what it takes over by `<<` below its own.
fn merged(service: &Value, key: &str) -> BTreeMap<String, Value> {
    let Some(own) = service.get(key).or_else(|| service["<<"].get(key)).and_then(Value::as_object) else { return BTreeMap::new() };
    let mut all: BTreeMap<String, Value> = own.get("<<").and_then(Value::as_object).cloned().unwrap_or_default().into_iter().collect();
    all.extend(own.clone().into_iter().filter(|(name, _)| name != "<<"));
    all
}

fn command(service: &Value) -> Vec<&str> {
    let words = service.get("command").or_else(|| service["<<"].get("command")).and_then(Value::as_array);
    words.into_iter().flatten().map(|word| word.as_str().unwrap()).collect()
}

/// With `--help` last, whatever stands before it is still looked at.
fn assert_known(program: &str, flags: &[&str]) {
    let output = run(Command::new(binary(program)).args(flags).arg("--help"));
    assert!(output.code == 0 && output.out.contains("--"), "{program} {flags:?}: {output:?}");
}

#[test]
fn every_flag_of_the_compose_file_is_known_to_its_program() {
    let mut programs = 0;
    for service in services().values() {
        if let [program, flags @ ..] = command(service).as_slice() {
            assert_known(program, flags);
            programs += 1;
        }
    }
    assert_eq!(programs, 7, "pki, three members, API server, controller-manager, scheduler");
}

#[test]
fn every_setting_of_a_store_member_is_known_to_the_store() {
    let help = run(Command::new(binary("store")).arg("--help")).ok();
    for (name, service) in services().iter().filter(|(name, _)| name.starts_with("store-")) {
        let settings = merged(service, "environment");
        assert_eq!(settings["ETCD_NAME"], **name);
        for setting in settings.keys() {
            let flag = setting.strip_prefix("ETCD_").unwrap().to_lowercase().replace('_', "-");
            assert!(help.contains(&format!("  --{flag} ")), "the store does not read {setting}");
        }
    }
}

/// The directories of the host that a service mounts, below the data directory, with the places where it does.
fn mounts(service: &Value) -> Vec<(&str, &str)> {
    let volumes = service.get("volumes").and_then(Value::as_array).into_iter().flatten().map(|volume| volume.as_str().unwrap());
    let below = volumes.filter_map(|volume| volume.strip_prefix("${QUARTERDECK_DATA:-./.quarterdeck}"));
    below.map(|mount| mount.trim_end_matches(":ro").split_once(':').unwrap()).collect()
}

#[test]
fn no_service_but_pki_mounts_the_data_directory_or_what_is_anothers() {
    for (name, service) in services() {
        let own = match name.as_str() {
            "pki" => String::new(),
            node if node.starts_with("node-") => format!("/nodes/{node}"),
            member if member.starts_with("store-") => "/parts/store".to_owned(),
            part => format!("/parts/{part}"),
        };
        assert_eq!(mounts(&service), [(own.as_str(), "/etc/quarterdeck")], "{name}");
        let whole = service["volumes"].to_string();
        assert!(name == "pki" || whole.contains(":/etc/quarterdeck:ro"), "{name}: {whole}");
    }
}

/// The files below /etc/quarterdeck that a service's flags and settings name.
fn named(service: &Value) -> BTreeSet<PathBuf> {
    let settings = merged(service, "environment").into_values().map(|value| value.as_str().unwrap_or_default().to_owned());
    let flags = command(service).into_iter().filter_map(|flag| flag.split_once('=')).map(|(_, value)| value.to_owned());
    settings.chain(flags).filter_map(|value| value.strip_prefix("/etc/quarterdeck/").map(PathBuf::from)).collect()
}

fn files(directory: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { [path].into() }).collect()
}

#[test]
fn a_part_of_the_control_plane_sees_the_files_it_names_and_no_others() {
    let directory = tempfile::tempdir().unwrap();
    let services = services();
    let flags = command(&services["pki"]).into_iter().skip(2).filter(|flag| !flag.starts_with("--data-dir"));
    run(Command::new(binary("quarterdeck")).arg("pki").args(flags).arg("--data-dir").arg(directory.path())).ok();
    for (name, service) in services.iter().filter(|(name, _)| *name != "pki" && !name.starts_with("node-")) {
        let mounted = directory.path().join(mounts(service)[0].0.trim_start_matches('/'));
        let there: BTreeSet<_> = files(&mounted).iter().map(|path| path.strip_prefix(&mounted).unwrap().to_owned()).collect();
        assert_eq!(there, named(service), "{name}");
    }
}

/// What stands between `exec PROGRAM` and the end of that function: its flags, without their values.
fn flags_in_supervisor(program: &str) -> Vec<&'static str> {
    let (_, after) = SUPERVISOR.split_once(&format!("exec {program} ")).unwrap();
    let (call, _) = after.split_once("\n}\n").unwrap();
    let words = call.split_whitespace().filter(|word| word.starts_with("--"));
    words.map(|word| word.split_once('=').map_or(word, |(flag, _)| flag)).collect()
}

#[test]
fn every_flag_of_the_supervisor_is_known_to_its_program() {
    for program in ["kubelet", "node-routes"] {
        let help = run(Command::new(binary(program)).arg("--help")).ok();
        let flags = flags_in_supervisor(program);
        assert!(flags.contains(&"--kubeconfig"), "{flags:?}");
        for flag in flags {
            assert!(help.contains(&format!("{flag} ")), "{program} does not know {flag}");
        }
    }
}

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy").join(file)
}

#[test]
fn a_template_is_filled_as_a_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let template = directory.path().join("template.in");
    std::fs::write(&template, "root = \"@ROOT@\"\n@ROOT@ @CIDR@\n").unwrap();
    let fill = |values: &[&str]| run(Command::new(deploy("containerd/fill")).arg(&template).args(values));
    assert_eq!(fill(&["ROOT=/a b", "CIDR={{.PodCIDR}}"]).ok(), "root = \"/a b\"\n/a b {{.PodCIDR}}\n");
    let output = fill(&["ROOT=/a"]);
    assert!(output.code == 1 && output.out.is_empty() && output.err.contains("@CIDR@"), "{output:?}");
}

#[test]
fn both_kinds_of_node_give_their_templates_every_value() {
    // `start` and `prepare` are only run where there is a containerd: what they lack would show first on a user's machine.
    for (script, template) in [
        ("containerd/start", "containerd/config.toml.in"),
        ("containerd/start", "containerd/10-quarterdeck.conflist.in"),
        ("images/node/prepare", "containerd/config.toml.in"),
        ("images/node/prepare", "containerd/10-quarterdeck.conflist.in"),
    ] {
        let script_text = std::fs::read_to_string(deploy(script)).unwrap().replace("\\\n", " ");
        let name = Path::new(template).file_name().unwrap().to_str().unwrap();
        let call = script_text.lines().find(|line| line.contains("/fill") && line.contains(name)).unwrap();
        let text = std::fs::read_to_string(deploy(template)).unwrap();
        let keys = text.split('@').skip(1).step_by(2);
        let missing: Vec<_> = keys.filter(|key| !call.contains(&format!(" {key}="))).collect();
        assert!(missing.is_empty(), "{script} gives {template} no {missing:?}");
    }
}

/// `deploy/cluster` with stand-ins for programs and all data below `home`; what `quarterdeck` is asked is in `home/asked`.
fn cluster(home: &Path, stand_ins: &[(&str, &str)], args: &[&str]) -> Output {
    let bin = home.join("bin");
    std::fs::create_dir(&bin).unwrap();
    for (name, script) in stand_ins.iter().chain(&[("quarterdeck", "echo \"$@\" >>\"$XDG_DATA_HOME/asked\"")]) {
        let path = bin.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let environment = [("PATH", Path::new(&path)), ("XDG_DATA_HOME", home), ("TMPDIR", home), ("QUARTERDECK_DATA", &home.join("data"))];
    run(Command::new(deploy("cluster")).args(args).envs(environment))
}

#[test]
fn cleaning_up_takes_what_pki_wrote_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let endpoint = "--control-plane-endpoint=https://apiserver:6443";
    let pki = || {
        run(Command::new(binary("quarterdeck")).args(["pki", endpoint, "--store-names=s", "--node-names=n", "--data-dir"]).arg(&data)).ok()
    };
    pki();
    std::fs::write(data.join("pki/mine.txt"), "").unwrap();
    std::fs::write(data.join("letter.conf"), "").unwrap();
    cluster(home.path(), &[("docker", "exit 1")], &["clean"]).ok();
    let left =
        |directory: &Path| -> BTreeSet<_> { std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect() };
    assert_eq!(left(&data), ["letter.conf".into(), "pki".into()].into());
    assert_eq!(left(&data.join("pki")), ["mine.txt".into()].into());

    std::fs::remove_dir_all(&data).unwrap();
    std::fs::remove_dir_all(home.path().join("bin")).unwrap();
    pki();
    cluster(home.path(), &[("docker", "exit 1")], &["clean"]).ok();
    assert!(!data.exists(), "{:?}", left(&data));
}

#[test]
fn who_can_neither_pull_nor_make_the_base_image_gets_a_cluster_of_processes() {
    let home = tempfile::tempdir().unwrap();
    let docker = "case $* in info | 'compose version') ;; *) exit 1 ;; esac";
    let output = cluster(home.path(), &[("docker", docker), ("id", "echo 1000")], &["up"]).ok();
    assert!(output.contains("debootstrap needs root: the cluster runs as processes"), "{output}");
    assert_eq!(std::fs::read_to_string(home.path().join("asked")).unwrap(), "up --detach\nstatus --wait 180\n");
}

/// make has an `AS` of its own, the assembler: a variable of that name once asked for a cluster of the form "as".
#[test]
fn make_up_asks_for_a_form_only_when_told_to() {
    let recipe = |further: &[&str]| {
        let root = deploy("..");
        let said =
            run(Command::new("make").args(["--dry-run", "--no-print-directory", "--directory"]).arg(root).arg("up").args(further)).ok();
        said.lines().find(|line| line.starts_with("deploy/cluster")).unwrap().trim_end().to_owned()
    };
    assert_eq!(recipe(&[]), "deploy/cluster up");
    assert_eq!(recipe(&["FORM=processes"]), "deploy/cluster up processes");
}
