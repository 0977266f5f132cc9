//! One server that speaks etcd's protocol without TLS: the store's binary or a real etcd, started the same way.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::command::{Output, binary, on_its_own, run, run_with_input};
use crate::ports::free;
use crate::wait::within;

/// Until it serves.
const START: Duration = Duration::from_secs(30);

/// Whose program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// This project's.
    Ours,
    /// etcd's.
    Etcd,
}

impl Maker {
    /// The server's program.
    pub fn server(self) -> PathBuf {
        match self {
            Maker::Ours => binary("store"),
            Maker::Etcd => "etcd".into(),
        }
    }

    /// The program that works on snapshot files, as a command that takes `snapshot …`.
    pub fn tool(self) -> PathBuf {
        match self {
            Maker::Ours => binary("store"),
            Maker::Etcd => "etcdutl".into(),
        }
    }
}

/// A running server; killed when dropped.
pub struct Server {
    directory: TempDir,
    child: Child,
    client: String,
    peer: String,
}

impl Server {
    /// Starts one with an empty data directory and further flags.
    pub fn start(maker: Maker, flags: &[&str]) -> Self {
        Self::start_on(maker, tempfile::tempdir().unwrap(), flags)
    }

    /// Restores a snapshot file with flags of that command, and starts on what came of it.
    pub fn restore(maker: Maker, file: &Path, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        run(Command::new(maker.tool()).args(["snapshot", "restore"]).arg(file).arg("--data-dir").arg(&data).args(flags)).ok();
        Self::start_on(maker, directory, &[])
    }

    /// Starts so many members of one cluster, `m1` and on, and waits until all serve and each knows all names: a member without
    /// one counts as not started.
    pub fn cluster(maker: Maker, size: usize) -> Vec<Self> {
        let urls: Vec<_> = (0..size).map(|_| urls()).collect();
        let listed: Vec<_> = urls.iter().enumerate().map(|(number, (_, peer))| format!("m{}={peer}", number + 1)).collect();
        let members = urls.into_iter().enumerate().map(|(number, (client, peer))| {
            let named = format!("--name=m{}", number + 1);
            let advertised = format!("--initial-advertise-peer-urls={peer}");
            let cluster = format!("--initial-cluster={}", listed.join(","));
            Self::spawn(maker, tempfile::tempdir().unwrap(), &[&named, &advertised, &cluster], client, peer)
        });
        let members: Vec<_> = members.collect();
        members.iter().for_each(Self::wait);
        members.iter().for_each(|member| member.wait_for_names(size));
        members
    }

    /// Starts one more member of a cluster that was told of it; does not wait. `listed` is the whole cluster.
    pub fn join(maker: Maker, number: usize, peer: &str, listed: &str) -> Self {
        let (client, _) = urls();
        let named = format!("--name=m{number}");
        let advertised = format!("--initial-advertise-peer-urls={peer}");
        let cluster = format!("--initial-cluster={listed}");
        let flags: [&str; 4] = [&named, &advertised, &cluster, "--initial-cluster-state=existing"];
        Self::spawn(maker, tempfile::tempdir().unwrap(), &flags, client, peer.to_owned())
    }

    fn start_on(maker: Maker, directory: TempDir, flags: &[&str]) -> Self {
        let (client, peer) = urls();
        let server = Self::spawn(maker, directory, flags, client, peer);
        server.wait();
        server
    }

    fn spawn(maker: Maker, directory: TempDir, flags: &[&str], client: String, peer: String) -> Self {
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        let child = on_its_own(&mut Command::new(maker.server()))
            .arg("--data-dir")
            .arg(directory.path().join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--listen-peer-urls", &peer])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { directory, child, client, peer }
    }

    /// Waits until it serves.
    pub fn wait(&self) {
        within(START, "the server serves", || {
            // Nobody needs to prove who they are for this.
            let said = self.http_get("/health").unwrap_or_else(|error| error.to_string());
            if said.contains(r#""health":"true""#) { Ok(()) } else { Err(format!("{said}\n{}", self.log())) }
        });
    }

    fn wait_for_names(&self, size: usize) {
        within(START, "all members have said their names", || {
            let listed = self.etcdctl(&["member", "list"]);
            let named = listed.out.lines().filter(|line| line.contains(", started, m")).count();
            if named == size { Ok(()) } else { Err(format!("{listed:?}\n{}", self.log())) }
        });
    }

    /// Where its peers reach it.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// What it answers to a plain HTTP request, head and body.
    pub fn http_get(&self, path: &str) -> std::io::Result<String> {
        let address = self.client.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// What it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Where clients reach it.
    pub fn endpoint(&self) -> &str {
        &self.client
    }

    /// A place for files; it goes with the server.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// etcdctl against it.
    pub fn etcdctl(&self, args: &[&str]) -> Output {
        self.etcdctl_with_input(args, "")
    }

    /// etcdctl against it, with text on standard input.
    pub fn etcdctl_with_input(&self, args: &[&str], input: &str) -> Output {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", self.client)).args(args);
        run_with_input(&mut command, input)
    }

    /// Has etcdctl save a snapshot; the file.
    pub fn snapshot(&self) -> PathBuf {
        let file = self.directory.path().join("snapshot.db");
        self.etcdctl(&["snapshot", "save", file.to_str().unwrap()]).ok();
        file
    }
}

/// Where one may listen, for clients and for peers.
fn urls() -> (String, String) {
    let free = free(2);
    (format!("http://127.0.0.1:{}", free[0]), format!("http://127.0.0.1:{}", free[1]))
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}
