//! Members as processes of the real binary, on free ports of the loopback.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use etcd::etcdserverpb::{
    PutRequest, RangeRequest, StatusRequest, StatusResponse, cluster_client::ClusterClient, kv_client::KvClient, lease_client::LeaseClient,
    maintenance_client::MaintenanceClient,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;
use tests::{ports, wires::Wires};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tonic::{Status, transport::Channel};

/// No further flags.
const NONE: &[&str] = &[];

/// Longest wait for something that must happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Clusters run next to each other, but for those whose pauses are measured.
static TURN: RwLock<()> = RwLock::const_new(());

/// A place among the clusters that run.
enum Turn {
    Shared(#[allow(dead_code)] RwLockReadGuard<'static, ()>),
    Alone(#[allow(dead_code)] RwLockWriteGuard<'static, ()>),
}

/// A cluster in a temporary directory; its processes end with it.
pub struct Cluster {
    pub members: Vec<Member>,
    // After the members, which print their logs from it when a test fails.
    _directory: TempDir,
    _turn: Turn,
}

/// One member: running, or killed and to be started again with the same flags.
pub struct Member {
    pub name: String,
    pub client_port: u16,
    pub data_dir: PathBuf,
    pub log: PathBuf,
    /// Keys and certificates, where it speaks TLS.
    pki: Option<PathBuf>,
    flags: Vec<String>,
    process: Option<Child>,
}

impl Cluster {
    /// Starts `size` members and waits until each has a leader.
    pub async fn start(size: usize) -> Self {
        let cluster = Self::start_with(size, &[]).await;
        cluster.wait_for_leader().await;
        cluster
    }

    /// As [`Cluster::start`], with no other cluster running meanwhile: for tests that measure time.
    pub async fn start_alone(size: usize) -> Self {
        let mut cluster = Self::lay_out(None, &Ports::free(size), NONE, Turn::Alone(TURN.write().await));
        cluster.members.iter_mut().for_each(Member::start);
        cluster.wait_for_leader().await;
        cluster
    }

    /// A cluster of which nobody runs yet.
    pub async fn not_started(size: usize) -> Self {
        Self::lay_out(None, &Ports::free(size), NONE, Turn::Shared(TURN.read().await))
    }

    async fn wait_for_leader(&self) {
        for member in &self.members {
            member.wait_for_leader().await;
        }
    }

    /// Starts members with further flags; does not wait.
    pub async fn start_with(size: usize, further: &[&str]) -> Self {
        Self::start_at(None, size, further).await
    }

    /// Starts members that speak TLS only, with the files of a directory; does not wait.
    pub async fn start_tls(size: usize, pki: &Path) -> Self {
        Self::start_at(Some(pki), size, NONE).await
    }

    /// Starts members that reach each other by wires, with TLS where there is a directory with its files; does not wait.
    pub async fn start_wired(size: usize, pki: Option<&Path>, wires: &Arc<Wires>) -> Self {
        Self::start_wired_with(size, pki, wires, NONE).await
    }

    /// The same with further flags.
    pub async fn start_wired_with(size: usize, pki: Option<&Path>, wires: &Arc<Wires>, further: &[&str]) -> Self {
        let mut ports = Ports::free(size);
        for (number, port) in ports.advertised.iter_mut().enumerate() {
            *port = wires.listen(number, ports.peers[number]).await;
        }
        let mut cluster = Self::lay_out(pki, &ports, further, Turn::Shared(TURN.read().await));
        for (number, member) in cluster.members.iter_mut().enumerate() {
            member.start();
            wires.is_process(number, member.pid());
        }
        cluster
    }

    /// Starts members of which nobody reaches the first: it dials the others, at an address of its own nobody listens.
    pub async fn start_with_one_unreachable(size: usize, pki: Option<&Path>) -> Self {
        let mut ports = Ports::free(size);
        ports.advertised[0] = ports::free(1)[0];
        let mut cluster = Self::lay_out(pki, &ports, NONE, Turn::Shared(TURN.read().await));
        cluster.members.iter_mut().for_each(Member::start);
        cluster
    }

    async fn start_at(pki: Option<&Path>, size: usize, further: &[&str]) -> Self {
        let mut cluster = Self::lay_out(pki, &Ports::free(size), further, Turn::Shared(TURN.read().await));
        cluster.members.iter_mut().for_each(Member::start);
        cluster
    }

    fn lay_out(pki: Option<&Path>, ports: &Ports, further: &[&str], turn: Turn) -> Self {
        let (scheme, keys) = pki.map_or(("http", Vec::new()), |pki| ("https", tls_flags(pki)));
        let directory = tempfile::tempdir().unwrap();
        let (size, pki) = (ports.clients.len(), pki.map(Path::to_owned));
        let names: Vec<_> = (1..=size).map(|number| format!("m{number}")).collect();
        let url = |port: &u16| format!("{scheme}://127.0.0.1:{port}");
        let peers: Vec<_> = ports.advertised.iter().map(url).collect();
        let initial: Vec<_> = names.iter().zip(&peers).map(|(name, url)| format!("{name}={url}")).collect();
        let members = (0..size).map(|i| {
            let client = url(&ports.clients[i]);
            let data_dir = directory.path().join(&names[i]);
            let mut flags: Vec<String> = [
                ("--name", names[i].as_str()),
                ("--data-dir", data_dir.to_str().unwrap()),
                ("--listen-client-urls", &client),
                ("--advertise-client-urls", &client),
                ("--listen-peer-urls", &url(&ports.peers[i])),
                ("--initial-advertise-peer-urls", &peers[i]),
                ("--initial-cluster", &initial.join(",")),
            ]
            .iter()
            .flat_map(|(flag, value)| [flag.to_string(), value.to_string()])
            .collect();
            flags.extend(further.iter().map(ToString::to_string).chain(keys.iter().cloned()));
            let log = directory.path().join(format!("{}.log", names[i]));
            Member { name: names[i].clone(), client_port: ports.clients[i], data_dir, log, pki: pki.clone(), flags, process: None }
        });
        Self { members: members.collect(), _directory: directory, _turn: turn }
    }

    /// A member that is not of the cluster yet, with flags to join it.
    pub fn newcomer(&self, name: &str) -> Member {
        let free = ports::free(2);
        let (client, peer) = (format!("http://127.0.0.1:{}", free[0]), format!("http://127.0.0.1:{}", free[1]));
        let data_dir = self._directory.path().join(name);
        let mut listed: Vec<_> = self.members.iter().map(|member| format!("{}={}", member.name, member.peer_url())).collect();
        listed.push(format!("{name}={peer}"));
        let flags = [
            ("--name", name),
            ("--data-dir", data_dir.to_str().unwrap()),
            ("--listen-client-urls", &client),
            ("--advertise-client-urls", &client),
            ("--listen-peer-urls", &peer),
            ("--initial-advertise-peer-urls", &peer),
            ("--initial-cluster", &listed.join(",")),
            ("--initial-cluster-state", "existing"),
        ];
        let flags = flags.iter().flat_map(|(flag, value)| [flag.to_string(), value.to_string()]).collect();
        let log = self._directory.path().join(format!("{name}.log"));
        Member { name: name.to_owned(), client_port: free[0], data_dir, log, pki: None, flags, process: None }
    }

    /// Position of the member that leads, as the others say too.
    pub async fn leader(&self) -> usize {
        let status = self.running().wait_for_leader().await;
        for (position, member) in self.members.iter().enumerate() {
            if member.is_running() {
                let own = member.status().await.map(|status| status.header.unwrap().member_id);
                if own.is_ok_and(|own| own == status.leader) {
                    return position;
                }
            }
        }
        panic!("the leader {:x} does not run", status.leader);
    }

    /// Any member that runs.
    pub fn running(&self) -> &Member {
        self.members.iter().find(|member| member.is_running()).unwrap()
    }
}

impl Member {
    pub fn start(&mut self) {
        self.start_as(Command::new(env!("CARGO_BIN_EXE_store")));
    }

    /// Starts on a disk that refuses files above a size.
    pub fn start_with_largest_file(&mut self, kib: u64) {
        let mut shell = Command::new("sh");
        let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", kib * 2);
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_store")]);
        self.start_as(shell);
    }

    /// Starts with one more flag, this time only.
    pub fn start_with_flag(&mut self, flag: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_store"));
        command.arg(flag);
        self.start_as(command);
    }

    fn start_as(&mut self, mut command: Command) {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let child = tests::on_its_own(&mut command).args(&self.flags).env_remove("RUST_LOG").stdout(Stdio::null()).stderr(log).spawn();
        self.process = Some(child.unwrap());
    }

    /// Where its peers reach it.
    pub fn peer_url(&self) -> String {
        self.flag("--initial-advertise-peer-urls")
    }

    /// The value of one of its flags.
    pub fn flag(&self, name: &str) -> String {
        let at = self.flags.iter().position(|flag| flag == name).unwrap();
        self.flags[at + 1].clone()
    }

    /// Starts with another value of a flag from now on.
    pub fn set_flag(&mut self, name: &str, value: &str) {
        let at = self.flags.iter().position(|flag| flag == name).unwrap();
        self.flags[at + 1] = value.to_owned();
    }

    pub fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel())
    }

    /// Makes its data directory from a snapshot file, with the command of that name; whether that worked.
    pub fn restore(&self, file: &Path) -> std::process::Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_store"));
        command.args(["snapshot", "restore"]).arg(file);
        for pair in self.flags.chunks_exact(2) {
            if ["--name", "--data-dir", "--initial-cluster", "--initial-advertise-peer-urls"].contains(&pair[0].as_str()) {
                command.args(pair);
            }
        }
        tests::on_its_own(&mut command).output().unwrap()
    }

    /// The same address under another name, without the process.
    pub fn address_only(&self, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            client_port: self.client_port,
            data_dir: self.data_dir.clone(),
            log: self.log.clone(),
            pki: self.pki.clone(),
            flags: Vec::new(),
            process: None,
        }
    }

    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        let mut child = self.process.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM, and how it ended.
    pub fn terminate(&mut self) -> ExitStatus {
        let child = self.process.as_ref().unwrap();
        kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        self.wait_for_end()
    }

    /// Waits until the process ends by itself.
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let mut child = self.process.take().unwrap();
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        panic!("{} did not end in {PATIENCE:?}:\n{}", self.name, self.logged());
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    pub fn url(&self) -> String {
        let scheme = if self.pki.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.client_port)
    }

    /// A connection that opens itself when there is someone to talk to.
    pub fn channel(&self) -> Channel {
        match &self.pki {
            Some(pki) => crate::tls::channel(pki, self.client_port, true),
            None => Channel::from_shared(self.url()).unwrap().connect_lazy(),
        }
    }

    pub fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel())
    }

    /// Its number.
    pub async fn id(&self) -> u64 {
        self.status().await.unwrap().header.unwrap().member_id
    }

    /// Stops its process where it stands, or lets it go on.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().try_into().unwrap()), signal).unwrap();
    }

    pub fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel())
    }

    pub fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.channel())
    }

    pub async fn status(&self) -> Result<StatusResponse, Status> {
        let mut client = MaintenanceClient::new(self.channel());
        within(Duration::from_secs(2), client.status(StatusRequest {})).await.map(tonic::Response::into_inner)
    }

    pub async fn wait_for_leader(&self) -> StatusResponse {
        eventually(&format!("{} has a leader", self.name), async || self.status().await.ok().filter(|status| status.leader != 0)).await
    }

    pub fn logged(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut child) = self.process.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- {} ---\n{}", self.name, self.logged());
        }
    }
}

/// Where members listen, and where they tell the others to reach them.
struct Ports {
    clients: Vec<u16>,
    peers: Vec<u16>,
    advertised: Vec<u16>,
}

impl Ports {
    fn free(size: usize) -> Self {
        let mut clients = ports::free(2 * size);
        let peers = clients.split_off(size);
        Self { clients, advertised: peers.clone(), peers }
    }
}

fn tls_flags(pki: &Path) -> Vec<String> {
    let file = |name: &str| pki.join(name).to_str().unwrap().to_owned();
    let (ca, cert, key) = (file("ca.crt"), file("tls.crt"), file("tls.key"));
    let client = ["--cert-file", &cert, "--key-file", &key, "--trusted-ca-file", &ca, "--client-cert-auth"];
    let peer = ["--peer-cert-file", &cert, "--peer-key-file", &key, "--peer-trusted-ca-file", &ca, "--peer-client-cert-auth"];
    client.iter().chain(&peer).map(ToString::to_string).collect()
}

/// Asks again until there is an answer.
pub async fn eventually<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not in {PATIENCE:?}: {what}");
}

/// A call with a deadline, as clients set one.
pub async fn within<T>(limit: Duration, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let expired = |_| Status::deadline_exceeded("the client's deadline");
    tokio::time::timeout(limit, call).await.map_err(expired)?
}

pub async fn put(kv: &mut KvClient<Channel>, key: &str, value: &str) -> Result<i64, Status> {
    let request = PutRequest { key: key.to_owned().into(), value: value.to_owned().into(), ..Default::default() };
    Ok(kv.put(request).await?.into_inner().header.unwrap().revision)
}

pub async fn get(kv: &mut KvClient<Channel>, key: &str) -> Result<Option<String>, Status> {
    let request = RangeRequest { key: key.to_owned().into(), ..Default::default() };
    let found = kv.range(request).await?.into_inner().kvs.pop();
    Ok(found.map(|kv| String::from_utf8(kv.value.to_vec()).unwrap()))
}
