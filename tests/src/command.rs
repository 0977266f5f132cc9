//! Running programs as a user would.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a program said.
#[derive(Debug)]
pub struct Output {
    /// Exit code; -1 when a signal ended it.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Output {
    /// Standard output of a program that succeeded.
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.out, self.err);
        self.out
    }
}

/// A binary of this workspace, beside the running test.
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join(name);
    assert!(path.is_file(), "{} is missing: run `make build` first", path.display());
    path
}

/// Whether a program can be found.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Whether a process runs: one that has ended and waits for its parent to notice does not.
pub fn alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Whether `quarterdeck up` would choose containerd here; says why not.
pub fn containers_are_possible() -> bool {
    let namespaces = || Command::new("unshare").args(["--mount", "--net", "true"]).status().is_ok_and(|status| status.success());
    let possible = nix::unistd::geteuid().is_root() && has("containerd") && has("runc") && namespaces();
    if !possible {
        eprintln!("skipped: real containers need root that may make namespaces, containerd and runc");
    }
    possible
}

/// Takes away what a store would inherit as flags from whoever runs the tests; what the command sets itself stays.
pub fn on_its_own(command: &mut Command) -> &mut Command {
    let set: Vec<_> = command.get_envs().map(|(name, _)| name.to_owned()).collect();
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"ETCD_") && !set.contains(name)) {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Output {
    run_with_input(command, "")
}

/// Runs a command to its end with text as its standard input.
pub fn run_with_input(command: &mut Command, input: &str) -> Output {
    let spawned = on_its_own(command).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.unwrap_or_else(|error| panic!("start {command:?}: {error}"));
    // A program that does not read its input may have closed it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Output { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
}
