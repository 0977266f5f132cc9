//! exec, attach, port-forward and cp as kubectl does them, over WebSocket and over SPDY, into plain processes and into real
//! containers. The latter need root; says so where it is not.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tests::{Cluster, Output, containers_are_possible, eventually, run, run_with_input, within};

/// What kubectl speaks: its two switches for WebSocket.
const TRANSPORTS: [&str; 2] = ["true", "false"];

/// kubectl that ends in a minute, whatever happens.
fn kubectl(cluster: &Cluster, websockets: &str, args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60", "kubectl"]).args(args);
    command.env("KUBECONFIG", cluster.kubeconfig()).env("KUBECACHEDIR", cluster.directory().join("kubectl-cache"));
    command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets).env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
    command
}

/// A pod of one container. The image is busybox; on plain processes the machine's own commands are run instead.
fn pod(cluster: &Cluster, name: &str, command: &[&str], more: &str) {
    let command = serde_json::to_string(command).unwrap();
    cluster.apply(&format!(
        r#"
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: quarterdeck/storefront-api:1.0
    command: {command}
    env: [{{name: POD_IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}]
{more}"#
    ));
    cluster.kubectl(&["wait", "--for=jsonpath={.status.phase}=Running", "--timeout=60s", &format!("pod/{name}")]).ok();
}

fn everything(cluster: &Cluster, server: &[&str]) {
    cluster.wait_for_nodes();
    eventually("the default service account exists", || cluster.get(&["serviceaccount", "default"]).is_some());
    pod(cluster, "idle", &["/bin/sh", "-c", "while :; do sleep 1; done"], "");
    pod(cluster, "server", server, "");
    for websockets in TRANSPORTS {
        eprintln!("websockets={websockets}");
        a_command_reads_to_its_end_and_its_exit_code_arrives(cluster, websockets);
        tar_through_exec_ends(cluster, websockets);
        cp_copies_both_ways(cluster, websockets);
        attach_feeds_a_container_and_hears_it(cluster, websockets);
        run_waits_for_what_it_started(cluster, websockets);
        port_forward_carries_http(cluster, websockets);
        many_at_once_do_not_mix(cluster, websockets);
    }
    what_is_not_there_is_named(cluster);
}

#[test]
fn kubectl_streams_to_plain_processes() {
    let cluster = Cluster::up(&["--runtime", "process"]);
    // Every pod shares the machine's ports, but has a loopback address of its own.
    everything(&cluster, &["/bin/sh", "-c", "echo hello > index.html; exec python3 -m http.server --bind $POD_IP 18080"]);
}

#[test]
fn kubectl_streams_to_real_containers() {
    if !containers_are_possible() {
        return;
    }
    let cluster = Cluster::up(&["--runtime", "containerd"]);
    everything(&cluster, &["/bin/sh", "-c", "mkdir /tmp/w; echo hello > /tmp/w/index.html; exec httpd -f -p 18080 -h /tmp/w"]);
}

fn a_command_reads_to_its_end_and_its_exit_code_arrives(cluster: &Cluster, websockets: &str) {
    let script = "wc -c; echo oops >&2; exit 7";
    let said = run_with_input(&mut kubectl(cluster, websockets, &["exec", "-i", "idle", "--", "sh", "-c", script]), "four");
    assert_eq!((said.code, said.out.trim()), (7, "4"), "{said:?}");
    assert!(said.err.contains("oops") && said.err.contains("command terminated with exit code 7"), "{said:?}");
}

/// Files of all kinds of sizes, and their digest.
fn tree(root: &Path) -> String {
    fs::create_dir_all(root.join("deep/er")).unwrap();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(root.join("big"), &bytes).unwrap();
    fs::write(root.join("empty"), b"").unwrap();
    fs::write(root.join("deep/er/text"), "one\ntwo\n").unwrap();
    digest(root)
}

fn digest(root: &Path) -> String {
    run(Command::new("sh").current_dir(root).args(["-c", "find . -type f | sort | xargs sha256sum"])).ok()
}

fn tar_through_exec_ends(cluster: &Cluster, websockets: &str) {
    let local = tempfile::tempdir().unwrap();
    let expected = tree(local.path());
    let script = "rm -rf box; mkdir box; tar -C box -x -f - && cd box && find . -type f | sort | xargs sha256sum";
    let mut tar = Command::new("tar").args(["-c", "."]).current_dir(local.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut there = kubectl(cluster, websockets, &["exec", "-i", "idle", "--", "sh", "-c", script]);
    let there = there.stdin(tar.stdout.take().unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    assert!(tar.wait().unwrap().success());
    assert_eq!(String::from_utf8_lossy(&there.stdout), expected, "{there:?}");
}

fn cp_copies_both_ways(cluster: &Cluster, websockets: &str) {
    let local = tempfile::tempdir().unwrap();
    let expected = tree(&local.path().join("sent"));
    // On plain processes the container's directory is its own, its /tmp is not.
    let there = format!("idle:copied-{websockets}");
    let copy = |from: &str, to: &str| run(kubectl(cluster, websockets, &["cp", from, to]).current_dir(local.path())).ok();
    copy("sent", &there);
    copy(&there, "back");
    assert_eq!(digest(&local.path().join("back")), expected);
}

fn attach_feeds_a_container_and_hears_it(cluster: &Cluster, websockets: &str) {
    let script = "while read line; do echo heard $line; echo aside $line >&2; done; echo the end; exit 0";
    pod(cluster, "listener", &["/bin/sh", "-c", script], "    stdin: true\n    stdinOnce: true\n");
    let said = run_with_input(&mut kubectl(cluster, websockets, &["attach", "-i", "listener"]), "one\ntwo\n");
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("heard one\nheard two\nthe end\n"), "{said:?}");
    assert!(said.err.contains("aside one\naside two\n"), "{said:?}");
    // Its input had an end because the first client's had.
    cluster.kubectl(&["wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s", "pod/listener"]).ok();
    let log = cluster.kubectl(&["logs", "listener"]).ok();
    assert!(log.contains("heard one\n") && log.contains("aside two\n"), "{log}");
    cluster.kubectl(&["delete", "pod", "listener", "--timeout=60s"]).ok();
}

fn run_waits_for_what_it_started(cluster: &Cluster, websockets: &str) {
    let mut command = kubectl(
        cluster,
        websockets,
        &["run", "counter", "-i", "--rm", "--restart=Never", "--image=quarterdeck/storefront-api:1.0", "--command", "--", "sh", "-c"],
    );
    let said = run_with_input(command.arg("read first; wc -c; exit 5"), "the first line\n12345678");
    assert!(said.out.lines().any(|line| line.trim() == "8"), "{said:?}");
    assert_eq!(said.code, 5, "{said:?}");
}

/// A port of this machine that leads to a pod's.
struct Forwarded {
    kubectl: Child,
    port: u16,
}

impl Forwarded {
    fn to(cluster: &Cluster, websockets: &str, target: &str) -> Self {
        let mut command = kubectl(cluster, websockets, &["port-forward", "pod/server", target]);
        let mut kubectl = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(kubectl.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.strip_prefix("Forwarding from 127.0.0.1:").and_then(|rest| rest.split(' ').next()?.parse().ok());
        let port = port.unwrap_or_else(|| panic!("kubectl port-forward said {line:?}"));
        Self { kubectl, port }
    }

    fn get(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Forwarded {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.kubectl.id().cast_signed()), nix::sys::signal::Signal::SIGTERM);
        let _ = self.kubectl.wait();
    }
}

fn port_forward_carries_http(cluster: &Cluster, websockets: &str) {
    let forwarded = Forwarded::to(cluster, websockets, ":18080");
    within(Duration::from_secs(30), "the server answers", || {
        let answer = forwarded.get("/index.html").map_err(|error| error.to_string())?;
        if answer.ends_with("hello\n") { Ok(()) } else { Err(answer) }
    });
    let answers: Vec<String> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(|| forwarded.get("/index.html").unwrap())).collect();
        asked.into_iter().map(|answer| answer.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| answer.contains(" 200 ") && answer.ends_with("hello\n")), "{answers:?}");
    // A port where nobody listens ends the forwarding of the client that asked for it, and no other.
    let nobody = Forwarded::to(cluster, websockets, ":9");
    assert!(nobody.get("/").map_or(true, |answer| answer.is_empty()));
    drop(nobody);
    assert!(forwarded.get("/index.html").unwrap().ends_with("hello\n"));
}

fn many_at_once_do_not_mix(cluster: &Cluster, websockets: &str) {
    std::thread::scope(|scope| {
        for number in 0..6 {
            scope.spawn(move || {
                let text = format!("{number} says something of some length\n").repeat(20_000);
                let said = run_with_echo(kubectl(cluster, websockets, &["exec", "-i", "idle", "--", "cat"]), &text);
                assert_eq!((said.code, said.out == text), (0, true), "{number}: {} of {} bytes, {}", said.out.len(), text.len(), said.err);
            });
        }
    });
}

/// Runs a command that answers while it is being told.
fn run_with_echo(mut command: Command, input: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output().unwrap()
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Output { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
}

fn what_is_not_there_is_named(cluster: &Cluster) {
    let said = |args: &[&str]| {
        let said = run(&mut kubectl(cluster, "true", args));
        assert_ne!(said.code, 0, "{said:?}");
        said.err
    };
    let missing = said(&["exec", "idle", "--", "no-such-program"]);
    assert!(missing.contains("executable file not found in $PATH"), "{missing}");
    cluster.kubectl(&["delete", "pod", "server", "--timeout=60s"]).ok();
    pod(cluster, "server", &["/bin/sh", "-c", "while [ ! -e stop ]; do sleep 0.1; done"], "");
    run(&mut kubectl(cluster, "true", &["exec", "server", "--", "touch", "stop"])).ok();
    eventually("the pod has ended", || cluster.get(&["pod", "server"]).unwrap()["status"]["phase"] == "Succeeded");
    let ended = said(&["exec", "server", "--", "true"]);
    assert!(ended.contains("cannot exec into a container in a completed pod"), "{ended}");
}
