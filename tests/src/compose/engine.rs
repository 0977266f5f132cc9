//! The Docker engine, asked by its command line, and the host's side of its containers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use super::PREFIX;
use crate::command::{binary, has, run};

/// Label by which compose knows its own.
const LABEL: &str = "com.docker.compose.project";

/// The directory of `docker-compose.yml`.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// What is missing for clusters of containers, if anything.
pub(super) fn obstacle() -> Option<&'static str> {
    let succeeds = |command: &mut Command| run(command).code == 0;
    if !nix::unistd::geteuid().is_root() {
        Some("root, which signals their processes and cuts their network")
    } else if !has("docker") || !succeeds(Command::new("docker").arg("info")) {
        Some("a Docker engine")
    } else if !succeeds(compose().arg("version")) {
        Some("docker-compose")
    } else if !has("nsenter") || !has("iptables") {
        Some("nsenter and iptables")
    } else {
        None
    }
}

/// `docker-compose`, which is compose 1 on Debian, else compose 2 as Docker's plugin.
pub(super) fn compose() -> Command {
    if has("docker-compose") {
        return Command::new("docker-compose");
    }
    let mut command = Command::new("docker");
    command.arg("compose");
    command
}

/// Makes the images from the binaries beside this test, and removes what killed test runs left; once.
pub(super) fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        leftovers().iter().for_each(|project| remove(project));
        let target = binary("store").ancestors().nth(2).unwrap().to_owned();
        run(Command::new(root().join("deploy/images/build")).env("CARGO_TARGET_DIR", target)).ok();
    });
}

/// Projects of test processes that run no more.
fn leftovers() -> Vec<String> {
    let format = format!("{{{{.Label \"{LABEL}\"}}}}");
    let listed = run(Command::new("docker").args(["ps", "-a", "--filter", &format!("label={LABEL}"), "--format", &format])).ok();
    let mut projects: Vec<_> = listed.lines().filter(|project| is_orphan(project)).map(str::to_owned).collect();
    projects.sort();
    projects.dedup();
    projects
}

fn is_orphan(project: &str) -> bool {
    let pid = project.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
    pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
}

/// Removes a project's containers, volumes and networks.
pub(super) fn remove(project: &str) {
    let filter = format!("label={LABEL}={project}");
    // Containers first: the others are in use as long as they are there.
    for (list, remove) in [
        (&["ps", "-aq"][..], &["rm", "-f", "-v"][..]),
        (&["volume", "ls", "-q"], &["volume", "rm", "-f"]),
        (&["network", "ls", "-q"], &["network", "rm"]),
    ] {
        let found = run(Command::new("docker").args(list).args(["--filter", &filter])).out;
        let found: Vec<_> = found.lines().collect();
        if !found.is_empty() {
            let removed = run(Command::new("docker").args(remove).args(&found));
            if removed.code != 0 {
                eprintln!("{project} is not removed completely: {}", removed.err);
            }
        }
    }
}

/// What `docker inspect` says of a container, if it is there.
pub(super) fn inspect(container: &str, template: &str) -> Option<String> {
    let output = run(Command::new("docker").args(["inspect", "--type=container", "--format", template, container]));
    (output.code == 0).then(|| output.out.trim().to_owned())
}

/// The process of that name in the PID namespace of another.
pub(super) fn named(first: i32, program: &str) -> Option<i32> {
    let namespace = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let wanted = namespace(first)?;
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let named = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_end() == program);
    let mut found = pids.filter(|pid| named(pid) && namespace(*pid).as_ref() == Some(&wanted));
    found.next()
}
