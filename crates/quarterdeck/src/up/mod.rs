//! `quarterdeck up`.

pub(crate) mod detach;
mod ready;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use component::Shutdown;

use crate::cli::{Runtime, UpFlags};
use crate::cluster::Cluster;
use crate::containerd;
use crate::layout::Layout;
use crate::parts::Part;
use crate::state::{self, State};
use crate::supervisor::{Death, Supervisor};

/// The API server may take so long to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a cluster and stays with it until a signal.
pub(crate) async fn run(flags: UpFlags) -> anyhow::Result<ExitCode> {
    if std::env::var_os(detach::ENV).is_none() {
        follow_parent()?;
    }
    let shutdown = component::shutdown::on_signal()?;
    let layout = Layout::new(&flags.data_dir.data_dir)?;
    std::fs::create_dir_all(layout.root().join("logs")).with_context(|| format!("create {}", layout.root().display()))?;
    let held = state::take(&layout)?;
    let mut up = Up::new(&flags, layout)?;
    let outcome = tokio::select! {
        outcome = up.start(&flags) => outcome,
        () = shutdown.cancelled() => Ok(()),
    };
    if outcome.is_ok() && !shutdown.is_cancelled() {
        up.watch(flags.restart, &shutdown).await;
    }
    up.stop().await;
    drop(held);
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Ends with the process that started this one, so that a test run or a closed terminal leaves nothing behind.
fn follow_parent() -> anyhow::Result<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM).context("ask for a signal at the parent's death")
}

struct Up {
    cluster: Cluster,
    supervisor: Supervisor,
    began: Instant,
}

impl Up {
    fn new(flags: &UpFlags, layout: Layout) -> anyhow::Result<Self> {
        let cluster = Cluster::plan(flags, layout)?;
        let supervisor = Supervisor::new(cluster.layout.clone());
        Ok(Self { cluster, supervisor, began: Instant::now() })
    }

    async fn start(&mut self, flags: &UpFlags) -> anyhow::Result<()> {
        self.cluster.write_pki()?;
        self.say("keys, certificates and kubeconfigs written");
        if let Some(copy) = &flags.kubeconfig {
            let text = std::fs::read_to_string(self.cluster.layout.admin_kubeconfig()).context("read admin kubeconfig")?;
            crate::pki::files::write_private(copy, &text)?;
        }
        if self.cluster.parts.contains(&Part::Store) {
            self.start_part(Part::Store)?;
            if !self.cluster.parts.contains(&Part::Apiserver) {
                self.wait_for_store().await?;
            }
        }
        if self.cluster.parts.contains(&Part::Apiserver) {
            self.start_part(Part::Apiserver)?;
            self.wait_ready().await?;
        }
        self.start_spokes().await?;
        self.explain();
        Ok(())
    }

    fn start_part(&mut self, part: Part) -> anyhow::Result<()> {
        for launch in part.launches(&self.cluster) {
            let (instance, listens) = (launch.instance.clone(), launch.listens.clone());
            self.supervisor.start(launch)?;
            self.say(&format!("{instance} started on {listens}"));
        }
        self.save()
    }

    async fn wait_ready(&mut self) -> anyhow::Result<()> {
        let ready = ready::apiservers(&self.cluster);
        tokio::select! {
            outcome = tokio::time::timeout(READY_TIMEOUT, ready) => match outcome {
                Ok(()) => {}
                Err(_) => bail!("the API server is not ready within {READY_TIMEOUT:?}:\n{}", self.supervisor.tail_of(Part::Apiserver.binary())),
            },
            death = self.supervisor.death() => bail!("{}", self.obituary(&death)),
        }
        self.say("API server is ready, the default namespaces exist");
        Ok(())
    }

    /// Without an API server that waits for the store, somebody else has to.
    async fn wait_for_store(&mut self) -> anyhow::Result<()> {
        tokio::select! {
            outcome = tokio::time::timeout(READY_TIMEOUT, ready::store(&self.cluster)) => match outcome {
                Ok(()) => Ok(()),
                Err(_) => bail!("the store is not ready within {READY_TIMEOUT:?}:\n{}", self.supervisor.tail("store-1")),
            },
            death = self.supervisor.death() => bail!("{}", self.obituary(&death)),
        }
    }

    async fn start_spokes(&mut self) -> anyhow::Result<()> {
        if self.cluster.parts.contains(&Part::Kubelet) && self.cluster.runtime == Runtime::Containerd {
            containerd::write_files(&self.cluster.layout)?;
            containerd::remove_networks(&self.cluster).await;
            for launch in containerd::launches(&self.cluster) {
                self.supervisor.start(launch)?;
            }
            tokio::select! {
                outcome = containerd::import_images(&self.cluster) => outcome?,
                death = self.supervisor.death() => bail!("{}", self.obituary(&death)),
            }
            self.say("containerd started, local images imported");
        }
        for part in [Part::ControllerManager, Part::Scheduler, Part::Kubelet] {
            if self.cluster.parts.contains(&part) {
                self.start_part(part)?;
            }
        }
        Ok(())
    }

    fn explain(&self) {
        let admin = self.cluster.layout.admin_kubeconfig();
        println!("\nThe cluster is up ({:.2} s). Next:\n", self.began.elapsed().as_secs_f64());
        println!("  export KUBECONFIG={}", admin.display());
        println!("  kubectl get nodes\n");
        println!(
            "Logs: {}   Stop: Ctrl-C or quarterdeck down --data-dir {}",
            self.cluster.layout.root().join("logs").display(),
            self.cluster.layout.root().display()
        );
    }

    /// Reports deaths, and answers them with a restart if asked to, until shutdown.
    async fn watch(&mut self, restart: bool, shutdown: &Shutdown) {
        loop {
            let death = tokio::select! {
                death = self.supervisor.death() => death,
                () = shutdown.cancelled() => return,
            };
            eprintln!("{}", self.obituary(&death));
            if restart {
                let delay = self.supervisor.restart_delay(&death.instance);
                tokio::select! { () = tokio::time::sleep(delay) => {}, () = shutdown.cancelled() => return }
                match self.supervisor.restart(&death.instance) {
                    Ok(()) => self.say(&format!("{} started again", death.instance)),
                    Err(error) => eprintln!("{} does not start again: {error:#}", death.instance),
                }
            }
            if let Err(error) = self.save() {
                eprintln!("{error:#}");
            }
        }
    }

    fn obituary(&self, death: &Death) -> String {
        format!("{} died ({}); the end of its log:\n{}", death.instance, death.status, self.supervisor.tail(&death.instance))
    }

    async fn stop(self) {
        self.say("stopping");
        self.supervisor.stop().await;
        if self.cluster.runtime == Runtime::Containerd {
            containerd::remove_networks(&self.cluster).await;
        }
        let _ = std::fs::remove_file(self.cluster.layout.state());
    }

    fn save(&self) -> anyhow::Result<()> {
        let instances = self.supervisor.instances();
        let state = State { pid: std::process::id(), server: self.cluster.server(), nodes: self.cluster.nodes.len(), instances };
        state.save(&self.cluster.layout)
    }

    fn say(&self, text: &str) {
        println!("[{:6.2} s] {text}", self.began.elapsed().as_secs_f64());
    }
}
