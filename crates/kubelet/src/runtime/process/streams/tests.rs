//! Whole streams: from a client's connection to a process and back.

use std::{path::Path, sync::Arc, time::Duration};

use http::Method;
use hyper_util::rt::TokioIo;
use streaming::{
    remote_command::{Outcome, Remote, Streams, connect, request_headers},
    spdy::{Connection, Headers, Options, Role},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use super::super::{
    Process, pid,
    tests::{EXITED, RUNNING, create_with, open, open_with, sandbox, start, status},
};
use crate::cri::{Cri, v1};

const ALL: Streams = Streams { stdin: true, stdout: true, stderr: true, tty: false };
const TERMINAL: Streams = Streams { stdin: true, stdout: true, stderr: false, tty: true };

/// A runtime with one sandbox and one running container in it.
struct Fixture {
    root: TempDir,
    runtime: Arc<Process>,
    sandbox: String,
    container: String,
}

impl Fixture {
    async fn new(script: &str, config: v1::ContainerConfig) -> Self {
        let root = tempfile::tempdir().unwrap();
        let runtime = open(root.path());
        let sandbox = sandbox(&runtime, root.path()).await;
        let container = create_with(&runtime, &sandbox, script, config).await;
        start(&runtime, &container).await;
        Self { root, runtime, sandbox, container }
    }

    async fn idle() -> Self {
        Self::new("while :; do sleep 0.05; done", v1::ContainerConfig::default()).await
    }

    async fn exec(&self, script: &str, streams: Streams) -> Remote {
        let request = v1::ExecRequest {
            container_id: self.container.clone(),
            cmd: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            tty: streams.tty,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr,
        };
        let url = self.runtime.exec(request).await.unwrap().url;
        connect(upgraded(&url, request_headers()).await, streams).await.unwrap()
    }

    async fn attach(&self, streams: Streams) -> Remote {
        let request = v1::AttachRequest {
            container_id: self.container.clone(),
            tty: streams.tty,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr,
        };
        let url = self.runtime.attach(request).await.unwrap().url;
        connect(upgraded(&url, request_headers()).await, streams).await.unwrap()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Ok(container) = self.runtime.container(&self.container) {
            container.process.into_iter().for_each(|process| process.signal_group(nix::sys::signal::Signal::SIGKILL));
        }
    }
}

async fn ask(url: &str, headers: http::HeaderMap) -> http::Response<hyper::body::Incoming> {
    let url: http::Uri = url.parse().unwrap();
    let stream = TcpStream::connect(url.authority().unwrap().as_str()).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let mut request = http::Request::new(axum::body::Body::empty());
    (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (Method::POST, url.path().parse().unwrap(), headers);
    sender.send_request(request).await.unwrap()
}

async fn upgraded(url: &str, headers: http::HeaderMap) -> TokioIo<hyper::upgrade::Upgraded> {
    let mut answer = ask(url, headers).await;
    assert_eq!(answer.status(), http::StatusCode::SWITCHING_PROTOCOLS);
    TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap())
}

async fn all(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut text = String::new();
    in_time(stream.read_to_string(&mut text)).await.unwrap();
    text
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it took more than 30 s")
}

fn exited(code: u8) -> Outcome {
    Outcome::exited(code, format!("command terminated with exit code {code}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_reads_its_input_to_the_end_and_tells_its_code() {
    let fixture = Fixture::idle().await;
    let mut remote = fixture.exec("cat; echo $GREETING >&2; exit 7", ALL).await;
    let (mut stdin, mut stdout, mut stderr) = (remote.stdin.take().unwrap(), remote.stdout.take().unwrap(), remote.stderr.take().unwrap());
    let text = "some line\n".repeat(100_000);
    let feed = async {
        stdin.write_all(text.as_bytes()).await.unwrap();
        stdin.shutdown().await.unwrap();
    };
    let (_, out, err) = tokio::join!(feed, all(&mut stdout), all(&mut stderr));
    assert!(out == text, "{} of {} bytes", out.len(), text.len());
    assert_eq!(err, "hello\n");
    assert_eq!(in_time(remote.end.outcome()).await, exited(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_does_not_read_its_input_is_heard() {
    let fixture = Fixture::idle().await;
    for script in ["exec 0<&-; sleep 0.2; echo deaf", "sleep 0.2; echo deaf"] {
        let mut remote = fixture.exec(script, ALL).await;
        let mut stdin = remote.stdin.take().unwrap();
        let feed = tokio::spawn(async move { stdin.write_all(&vec![b'x'; 3_000_000]).await });
        assert_eq!(all(remote.stdout.as_mut().unwrap()).await, "deaf\n");
        assert_eq!(in_time(remote.end.outcome()).await, Outcome::Success);
        // All was taken, or the connection's end was met; it does not wait for ever.
        let _ = in_time(feed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_leaves_behind_does_not_hold_its_client() {
    let fixture = Fixture::idle().await;
    let mut remote = fixture.exec("sleep 600 & echo $!", ALL).await;
    let left = all(remote.stdout.as_mut().unwrap()).await;
    assert_eq!(in_time(remote.end.outcome()).await, Outcome::Success);
    let left = pid::Process::of(left.trim().parse().unwrap()).unwrap();
    left.signal(nix::sys::signal::Signal::SIGKILL);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_has_the_clients_size() {
    let fixture = Fixture::idle().await;
    let script = "until [ \"$(stty size)\" = '33 111' ]; do sleep 0.02; done; read word; echo \"$word on $(tty)\"; exit 3";
    let mut remote = fixture.exec(script, TERMINAL).await;
    remote.resize.as_mut().unwrap().write_all(b"{\"Width\":80,\"Height\":24}{\"Width\":111,\"Height\":33}").await.unwrap();
    remote.stdin.as_mut().unwrap().write_all(b"typed\r").await.unwrap();
    let out = all(remote.stdout.as_mut().unwrap()).await;
    assert!(out.contains("typed on /dev/pts/"), "{out:?}");
    assert_eq!(in_time(remote.end.outcome()).await, exited(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_without_a_client_is_killed() {
    let fixture = Fixture::idle().await;
    for streams in [ALL, TERMINAL] {
        let mut remote = fixture.exec("trap '' HUP TERM; echo $$; while :; do sleep 0.05; done", streams).await;
        let mut line = String::new();
        in_time(BufReader::new(remote.stdout.as_mut().unwrap()).read_line(&mut line)).await.unwrap();
        let process = pid::Process::of(line.trim().parse().unwrap()).unwrap();
        assert!(process.alive());
        drop(remote);
        in_time(gone(process)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_silent_for_too_long_is_killed() {
    let mut fixture = Fixture::idle().await;
    fixture.runtime = open_with(fixture.root.path(), Some(Duration::from_millis(200)));
    let mut remote = fixture.exec("echo $$; while :; do sleep 0.05; done", ALL).await;
    let mut line = String::new();
    in_time(BufReader::new(remote.stdout.as_mut().unwrap()).read_line(&mut line)).await.unwrap();
    in_time(gone(pid::Process::of(line.trim().parse().unwrap()).unwrap())).await;
}

async fn gone(process: pid::Process) {
    while process.alive() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ends_with_its_container() {
    let fixture = Fixture::idle().await;
    let remote = fixture.exec("while :; do sleep 0.05; done", ALL).await;
    let stop = v1::StopContainerRequest { container_id: fixture.container.clone(), timeout: 0 };
    fixture.runtime.stop_container(stop).await.unwrap();
    assert_eq!(in_time(remote.end.outcome()).await, exited(137));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_not_there_is_named() {
    let fixture = Fixture::idle().await;
    let request =
        v1::ExecRequest { container_id: fixture.container.clone(), cmd: vec!["no-such".into()], stdout: true, ..Default::default() };
    let url = fixture.runtime.exec(request).await.unwrap().url;
    let streams = Streams { stdout: true, ..Default::default() };
    let remote = connect(upgraded(&url, request_headers()).await, streams).await.unwrap();
    let Outcome::Failed(why) = in_time(remote.end.outcome()).await else { panic!("it ran") };
    assert!(why.contains("error executing command in container") && why.contains("executable file not found in $PATH"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_opens_once_and_only_for_what_can_be_streamed() {
    let fixture = Fixture::idle().await;
    let request = v1::AttachRequest { container_id: fixture.container.clone(), stdout: true, ..Default::default() };
    let url = fixture.runtime.attach(request.clone()).await.unwrap().url;
    let first = ask(&url, request_headers()).await.status();
    let second = ask(&url, request_headers()).await.status();
    assert_eq!((first.as_u16(), second.as_u16()), (101, 404));
    let refused = |request| async { fixture.runtime.attach(request).await.unwrap_err().message().to_owned() };
    assert_eq!(refused(v1::AttachRequest { stdout: false, ..request.clone() }).await, "one of stdin, stdout, or stderr must be set");
    let both = v1::AttachRequest { tty: true, stderr: true, ..request.clone() };
    assert_eq!(refused(both).await, "tty and stderr cannot both be true");
    let stop = v1::StopContainerRequest { container_id: fixture.container.clone(), timeout: 0 };
    fixture.runtime.stop_container(stop).await.unwrap();
    assert_eq!(refused(request).await, "container is in CONTAINER_EXITED state");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_clients_end_of_input_is_the_containers_if_it_asks_so() {
    let config = v1::ContainerConfig { stdin: true, stdin_once: true, ..Default::default() };
    let fixture = Fixture::new("while read line; do echo heard $line; done; echo the end >&2; exit 6", config).await;
    let mut remote = fixture.attach(ALL).await;
    let mut stdin = remote.stdin.take().unwrap();
    stdin.write_all(b"one\ntwo\n").await.unwrap();
    stdin.shutdown().await.unwrap();
    assert_eq!(all(remote.stdout.as_mut().unwrap()).await, "heard one\nheard two\n");
    assert_eq!(all(remote.stderr.as_mut().unwrap()).await, "the end\n");
    assert_eq!(in_time(remote.end.outcome()).await, Outcome::Success);
    assert!(fixture.runtime.exited_within(&fixture.container, Duration::from_secs(20)).await);
    let status = status(&fixture.runtime, &fixture.container).await;
    assert_eq!((status.state, status.exit_code), (EXITED, 6));
    let log = crate::logs::read::last_words(status.log_path.as_ref(), 10, 100).await;
    assert!(log.contains("heard two") && log.contains("the end"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_come_and_go_and_a_new_kubelet_lets_them_attach_again() {
    let config = v1::ContainerConfig { stdin: true, ..Default::default() };
    let mut fixture = Fixture::new("while read line; do echo heard $line; done", config).await;
    for word in ["one", "two"] {
        let mut remote = fixture.attach(ALL).await;
        remote.stdin.as_mut().unwrap().write_all(format!("{word}\n").as_bytes()).await.unwrap();
        let mut stdout = BufReader::new(remote.stdout.as_mut().unwrap());
        let mut line = String::new();
        in_time(stdout.read_line(&mut line)).await.unwrap();
        assert_eq!(line, format!("heard {word}\n"));
        // The end of a client's input is the end of its visit, as in containerd.
        remote.stdin.as_mut().unwrap().shutdown().await.unwrap();
        assert_eq!(in_time(remote.end.outcome()).await, Outcome::Success);
        assert_eq!(status(&fixture.runtime, &fixture.container).await.state, RUNNING);
        fixture.runtime = open(fixture.root.path());
    }
}

/// Puts a shim that says `said` and hangs up in the place of the container's own.
fn replace_shim(fixture: &Fixture, said: &'static [u8]) {
    let directory = std::fs::File::open(fixture.runtime.store.container_directory(&fixture.container)).unwrap();
    let address = super::super::shim::attach::address(&directory);
    std::fs::remove_file(&address).unwrap();
    let listener = tokio::net::UnixListener::bind(&address).unwrap();
    tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap().0;
        stream.read_exact(&mut [0; 8]).await.unwrap();
        stream.write_all(said).await.unwrap();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_breaks_off_is_no_success() {
    let fixture = Fixture::idle().await;
    for (said, expected) in [(&b"\0\0\0\0\0"[..], "error attaching to container"), (b"\x05\0\0\0\x02hi", "its output was not taken")] {
        replace_shim(&fixture, said);
        let remote = fixture.attach(ALL).await;
        let Outcome::Failed(why) = in_time(remote.end.outcome()).await else { panic!("it went well") };
        assert!(why.contains(expected), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_on_a_terminal_is_resized_and_heard_by_two() {
    let config = v1::ContainerConfig { stdin: true, tty: true, ..Default::default() };
    let fixture = Fixture::new("until [ \"$(stty size)\" = '33 111' ]; do sleep 0.02; done; read w; echo got $w", config).await;
    let mut watcher = fixture.attach(Streams { stdout: true, tty: true, ..Default::default() }).await;
    let mut typist = fixture.attach(TERMINAL).await;
    typist.resize.as_mut().unwrap().write_all(b"{\"Width\":111,\"Height\":33}").await.unwrap();
    typist.stdin.as_mut().unwrap().write_all(b"it\r").await.unwrap();
    for client in [&mut watcher, &mut typist] {
        let out = all(client.stdout.as_mut().unwrap()).await;
        assert!(out.contains("got it\r\n"), "{out:?}");
    }
    assert!(fixture.runtime.exited_within(&fixture.container, Duration::from_secs(20)).await);
}

/// What came back on the data and error streams of one forwarded connection.
async fn forwarded(fixture: &Fixture, port: u16, said: &[u8]) -> (String, String) {
    let request = v1::PortForwardRequest { pod_sandbox_id: fixture.sandbox.clone(), port: vec![] };
    let url = fixture.runtime.port_forward(request).await.unwrap().url;
    let io = upgraded(&url, streaming::port_forward::request_headers()).await;
    let connection = Connection::new(io, Role::Client, Options::default());
    let port = port.to_string();
    let stream = |kind| connection.open(Headers::new([("streamType", kind), ("port", port.as_str()), ("requestID", "0")]));
    let mut error = stream("error").await.unwrap();
    error.shutdown().await.unwrap();
    let mut data = stream("data").await.unwrap();
    data.write_all(said).await.unwrap();
    data.shutdown().await.unwrap();
    (all(&mut data).await, all(&mut error).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_the_machine_is_reached_and_half_a_close_with_it() {
    let fixture = Fixture::idle().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = async {
        let mut stream = listener.accept().await.unwrap().0;
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        stream.write_all(said.to_uppercase().as_bytes()).await.unwrap();
    };
    let (_, heard) = tokio::join!(in_time(serve), forwarded(&fixture, port, b"question"));
    assert_eq!(heard, ("QUESTION".to_owned(), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_nobody_listens_on_is_told_on_the_error_stream() {
    let fixture = Fixture::idle().await;
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let (data, error) = forwarded(&fixture, unused, b"").await;
    let begins = format!("error forwarding port {unused} to pod {}, uid : failed to connect to localhost:{unused}", fixture.sandbox);
    assert!(data.is_empty() && error.starts_with(&begins) && error.contains("onnection refused"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_not_forwarded_into_a_sandbox_that_was_stopped() {
    let fixture = Fixture::idle().await;
    let forward = |id: &str| v1::PortForwardRequest { pod_sandbox_id: id.into(), port: vec![] };
    assert_eq!(fixture.runtime.port_forward(forward("none")).await.unwrap_err().code(), tonic::Code::NotFound);
    fixture.runtime.stop_pod_sandbox(v1::StopPodSandboxRequest { pod_sandbox_id: fixture.sandbox.clone() }).await.unwrap();
    let refused = fixture.runtime.port_forward(forward(&fixture.sandbox)).await.unwrap_err();
    assert_eq!(refused.message(), "sandbox container is not running");
}

/// The tests' containers have directories deeper than a socket's address can be.
#[test]
fn a_sockets_address_is_short_wherever_its_directory_is() {
    let root = tempfile::tempdir().unwrap();
    let deep = root.path().join("d".repeat(100)).join("e".repeat(100));
    std::fs::create_dir_all(&deep).unwrap();
    let directory = std::fs::File::open(&deep).unwrap();
    let address = super::super::shim::attach::address(&directory);
    let _listener = std::os::unix::net::UnixListener::bind(&address).unwrap();
    assert!(Path::new(&deep.join("attach.sock")).exists());
}
