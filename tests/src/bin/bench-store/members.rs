//! A cluster of one maker's members as plain processes: started, asked, killed.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use etcd::etcdserverpb::{StatusRequest, maintenance_client::MaintenanceClient};
use tempfile::TempDir;
use tests::bench::{Usage, disk, usage};
use tokio::time::{sleep, timeout};
use tonic::transport::{Channel, Endpoint};

use crate::first_put::first_put;

/// A cluster that takes longer to serve its first write than this is broken.
const START: Duration = Duration::from_secs(120);
/// One question to a member that may not be there yet.
const ATTEMPT: Duration = Duration::from_millis(500);
/// Between two looks.
const RETRY: Duration = Duration::from_millis(2);
/// A member ends by itself within this time.
const STOP: Duration = Duration::from_secs(20);

/// Whose members, and how to start them.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// As it stands in the report.
    pub(crate) name: String,
    /// The executable.
    pub(crate) path: PathBuf,
    /// Flags beside those that make the cluster.
    pub(crate) flags: Vec<String>,
}

/// A running cluster; killed and removed when dropped.
pub(crate) struct Members {
    program: Program,
    directory: TempDir,
    members: Vec<Member>,
}

struct Member {
    client: String,
    peer: String,
    child: Option<Child>,
}

impl Members {
    /// Starts `count` members on empty directories below `base`, and waits until one has acknowledged a write.
    pub(crate) async fn start(program: &Program, count: usize, base: &Path) -> anyhow::Result<Self> {
        let directory = directory(base)?;
        let ports = tests::ports::free(2 * count);
        if ports.len() < 2 * count {
            bail!("no {} free ports", 2 * count);
        }
        let url = |port: &u16| format!("http://127.0.0.1:{port}");
        let member = |ports: &[u16]| Member { client: url(&ports[0]), peer: url(&ports[1]), child: None };
        let members = ports.chunks(2).map(member).collect();
        let mut cluster = Self { program: program.clone(), directory, members };
        cluster.resume().await?;
        Ok(cluster)
    }

    /// Starts the members that do not run; the time until a write was acknowledged.
    pub(crate) async fn resume(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        for index in 0..self.members.len() {
            if self.members[index].child.is_none() {
                self.members[index].child = Some(self.spawn(index)?);
            }
        }
        let endpoints: Vec<_> = self.members.iter().map(|member| member.client.clone()).collect();
        first_put(&endpoints, START, || self.all_run()).await?;
        Ok(began.elapsed())
    }

    /// Kills all, and starts on an empty directory again; the time until a write was acknowledged.
    pub(crate) async fn start_anew(&mut self) -> anyhow::Result<Duration> {
        (0..self.members.len()).try_for_each(|index| self.kill(index).map(drop))?;
        let base = self.directory.path().parent().context("a directory lies in another")?;
        self.directory = directory(base)?;
        self.resume().await
    }

    fn spawn(&self, index: usize) -> anyhow::Result<Child> {
        let member = &self.members[index];
        let name = |index: usize| format!("m{index}");
        let all: Vec<_> = self.members.iter().enumerate().map(|(index, member)| format!("{}={}", name(index), member.peer)).collect();
        let log = File::options().create(true).append(true).open(self.log(index)).context("make a log file")?;
        let mut command = Command::new(&self.program.path);
        command.args(["--name", &name(index), "--data-dir"]).arg(self.data(index));
        command.args(["--listen-client-urls", &member.client, "--advertise-client-urls", &member.client]);
        command.args(["--listen-peer-urls", &member.peer, "--initial-advertise-peer-urls", &member.peer]);
        command.args(["--initial-cluster", &all.join(","), "--initial-cluster-state", "new"]);
        command.args(["--quota-backend-bytes", "17179869184"]).args(&self.program.flags);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn().with_context(|| format!("start {}", self.program.path.display()))
    }

    fn all_run(&mut self) -> anyhow::Result<()> {
        for index in 0..self.members.len() {
            if let Some(child) = &mut self.members[index].child
                && let Some(status) = child.try_wait()?
            {
                bail!("{} ended ({status}): {}", self.program.name, self.last_words(index));
            }
        }
        Ok(())
    }

    fn data(&self, index: usize) -> PathBuf {
        self.directory.path().join(format!("data-{index}"))
    }

    fn log(&self, index: usize) -> PathBuf {
        self.directory.path().join(format!("log-{index}"))
    }

    fn last_words(&self, index: usize) -> String {
        let log = std::fs::read_to_string(self.log(index)).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    /// Where clients reach the members that run, the leader first.
    pub(crate) async fn endpoints(&self) -> anyhow::Result<Vec<String>> {
        let leader = self.leader().await?;
        let others = (0..self.members.len()).filter(|index| *index != leader && self.members[*index].child.is_some());
        Ok([leader].into_iter().chain(others).map(|index| self.members[index].client.clone()).collect())
    }

    /// The member that leads.
    pub(crate) async fn leader(&self) -> anyhow::Result<usize> {
        let began = Instant::now();
        while began.elapsed() < START {
            for (index, member) in self.members.iter().enumerate().filter(|(_, member)| member.child.is_some()) {
                if matches!(timeout(ATTEMPT, leads(&member.client)).await, Ok(Ok(true))) {
                    return Ok(index);
                }
            }
            sleep(ATTEMPT / 10).await;
        }
        bail!("{} has no leader", self.program.name)
    }

    /// Kills a member with SIGKILL; the time it was sent.
    pub(crate) fn kill(&mut self, index: usize) -> io::Result<Instant> {
        let at = Instant::now();
        if let Some(mut child) = self.members[index].child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(at)
    }

    /// Has all members end by themselves.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        let running: Vec<_> = self.members.iter_mut().filter_map(|member| member.child.take()).collect();
        for child in &running {
            let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).context("a process ID")?);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)?;
        }
        for mut child in running {
            let began = Instant::now();
            while child.try_wait()?.is_none() {
                if began.elapsed() > STOP {
                    child.kill()?;
                }
                sleep(RETRY).await;
            }
        }
        Ok(())
    }

    /// Where clients reach a member.
    pub(crate) fn endpoint(&self, index: usize) -> &str {
        &self.members[index].client
    }

    /// How many members there are.
    pub(crate) fn count(&self) -> usize {
        self.members.len()
    }

    /// What each member has used.
    pub(crate) fn usage(&self) -> Vec<Usage> {
        self.members.iter().map(|member| member.child.as_ref().map_or(Usage::default(), |child| usage(child.id()))).collect()
    }

    /// Bytes each member has on disk.
    pub(crate) fn disk(&self) -> Vec<u64> {
        (0..self.members.len()).map(|index| disk(&self.data(index))).collect()
    }
}

fn directory(base: &Path) -> anyhow::Result<TempDir> {
    tempfile::Builder::new().prefix("bench-store-").tempdir_in(base).context("make a data directory")
}

impl Drop for Members {
    fn drop(&mut self) {
        for index in 0..self.members.len() {
            let _ = self.kill(index);
        }
    }
}

async fn leads(endpoint: &str) -> anyhow::Result<bool> {
    let status = MaintenanceClient::new(connect(endpoint).await?).status(StatusRequest {}).await?.into_inner();
    Ok(status.header.is_some_and(|header| header.member_id == status.leader))
}

/// A connection, made now.
pub(crate) async fn connect(endpoint: &str) -> Result<Channel, tonic::transport::Error> {
    Endpoint::from_shared(endpoint.to_owned())?.tcp_nodelay(true).connect().await
}
