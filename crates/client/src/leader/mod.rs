//! Leader election on a Lease, compatible with client-go's: either side takes over from the other.
//!
//! Clocks of different machines are never compared: a lease is stale once *this* process has seen it unchanged for its
//! whole duration on its own monotonic clock.

mod flags;
mod identity;
mod lease;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use component::Shutdown;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
    core::Resource as _,
};
use parking_lot::RwLock;
use tokio::time::{Instant, timeout_at};

pub use flags::{Flags, parse_duration};
pub use identity::{hostname, identity};
use lease::{Observed, Verdict};

use crate::{events::Recorder, retry};

/// Acquisition attempts are spread over this multiple of the retry period, so that candidates do not move in step.
const JITTER: f64 = 1.2;

/// Another instance holds the lease now, or this one could not renew it in time.
#[derive(Debug, thiserror::Error)]
#[error("leader election lost")]
pub struct Lost;

/// Which lease, as whom, and how long everything takes.
#[derive(Clone, Debug)]
pub struct Config {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who this instance is; unique among candidates.
    pub identity: String,
    /// How long others wait before they take over from a silent leader.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it steps down; shorter than `lease_duration`.
    pub renew_deadline: Duration,
    /// Pause between attempts.
    pub retry_period: Duration,
}

/// An instance that stands for election.
pub struct Election {
    config: Config,
    leases: Api<Lease>,
    observed: Observed,
    leader: Leader,
    recorder: Option<Recorder>,
}

/// Who leads, as last seen by this instance; empty before the first look.
#[derive(Clone, Debug, Default)]
pub struct Leader(Arc<RwLock<String>>);

impl Leader {
    /// The holder's identity.
    pub fn identity(&self) -> String {
        self.0.read().clone()
    }
}

/// Runs `lead` whenever this instance leads (at once without a `config`), until `shutdown` or until `lead` ends by itself.
///
/// Leadership is lost when the lease cannot be renewed, as while the store has no quorum. By then the work has stopped (see
/// [`Election::run`]), so this instance stands again like any other. Upstream's processes exit instead.
pub async fn serve<F>(client: &Client, config: Option<&Config>, recorder: &Recorder, shutdown: &Shutdown, lead: impl Fn(Shutdown) -> F)
where
    F: Future<Output = ()>,
{
    let Some(config) = config else { return lead(shutdown.child_token()).await };
    while !shutdown.is_cancelled() {
        let election = Election::new(client.clone(), config.clone(), Some(recorder.clone()));
        match election.run(shutdown.clone(), &lead).await {
            Ok(()) => return,
            Err(lost) => tracing::warn!(error = %lost, "work stopped, standing for election again"),
        }
    }
}

impl Election {
    /// Stands for `config`'s lease; `recorder` tells of a change of leader by an event on the Lease.
    pub fn new(client: Client, config: Config, recorder: Option<Recorder>) -> Self {
        let leases = Api::namespaced(client, &config.namespace);
        Self { config, leases, observed: Observed::default(), leader: Leader::default(), recorder }
    }

    /// A handle that shows who leads while [`Election::run`] goes on.
    pub fn leader(&self) -> Leader {
        self.leader.clone()
    }

    /// Waits until this instance leads, then runs `lead` until it ends, `shutdown` is cancelled or leadership is lost.
    ///
    /// No two leaders act at once: on `shutdown` the token passed to `lead` is cancelled and the lease kept up until `lead`
    /// has ended, then released; when leadership is lost, `lead` is dropped where it stands. So whatever it spawns must end
    /// when it is dropped, as in a `JoinSet`. Without leadership when `shutdown` comes, `lead` never runs.
    ///
    /// # Errors
    /// [`Lost`] when leadership went to another instance or could not be renewed.
    pub async fn run<F>(mut self, shutdown: Shutdown, lead: impl FnOnce(Shutdown) -> F) -> Result<(), Lost>
    where
        F: Future<Output = ()>,
    {
        if shutdown.run_until_cancelled(self.acquire()).await.is_none() {
            return Ok(());
        }
        tracing::info!(lease = %self.lease_name(), identity = self.config.identity, "became leader");
        self.tell("became leader");
        let leading = shutdown.child_token();
        let stop = leading.clone().drop_guard();
        let kept = tokio::select! {
            () = lead(leading) => true,
            () = self.renew() => false,
        };
        drop(stop);
        if !kept {
            tracing::error!(lease = %self.lease_name(), "leader election lost");
            return Err(Lost);
        }
        self.release().await;
        Ok(())
    }

    fn lease_name(&self) -> String {
        format!("{}/{}", self.config.namespace, self.config.name)
    }

    async fn acquire(&mut self) {
        tracing::info!(lease = %self.lease_name(), "attempting to acquire leader lease");
        while !self.attempt(Instant::now() + self.config.renew_deadline).await {
            tokio::time::sleep(retry::jitter(self.config.retry_period, JITTER)).await;
        }
    }

    /// Returns when the lease could not be renewed within the deadline.
    async fn renew(&mut self) {
        let mut deadline = Instant::now() + self.config.renew_deadline;
        loop {
            tokio::time::sleep(self.config.retry_period).await;
            let now = Instant::now();
            if self.attempt(deadline).await {
                deadline = now + self.config.renew_deadline;
            } else if Instant::now() >= deadline || self.observed.held_by_other(&self.config.identity) {
                return;
            }
        }
    }

    async fn attempt(&mut self, deadline: Instant) -> bool {
        match timeout_at(deadline, self.try_acquire_or_renew()).await {
            Ok(Ok(leads)) => leads,
            Ok(Err(error)) => {
                tracing::warn!(lease = %self.lease_name(), %error, "cannot acquire or renew lease");
                false
            }
            Err(_) => {
                tracing::warn!(lease = %self.lease_name(), "no answer while acquiring or renewing lease");
                false
            }
        }
    }

    async fn try_acquire_or_renew(&mut self) -> kube::Result<bool> {
        let (now, wall) = (Instant::now(), component::clock::now());
        let Some(lease) = retry::optional(self.leases.get(&self.config.name).await)? else {
            let spec = lease::claim(&LeaseSpec::default(), &self.config, wall);
            let created = self.leases.create(&PostParams::default(), &self.lease(ObjectMeta::default(), spec)).await?;
            self.observe(&created, now);
            return Ok(true);
        };
        self.observe(&lease, now);
        if self.observed.verdict(&self.config.identity, now) == Verdict::HeldByOther {
            return Ok(false);
        }
        let spec = lease::claim(&lease.spec.unwrap_or_default(), &self.config, wall);
        let updated = self.write(lease.metadata, spec).await?;
        self.observe(&updated, now);
        Ok(true)
    }

    async fn release(&mut self) {
        let wall = component::clock::now();
        let deadline = Instant::now() + self.config.renew_deadline;
        let released = timeout_at(deadline, async {
            let lease = self.leases.get(&self.config.name).await?;
            let spec = lease.spec.unwrap_or_default();
            if spec.holder_identity.as_deref() != Some(&self.config.identity) {
                return Ok(());
            }
            self.write(lease.metadata, lease::release(&spec, wall)).await.map(drop)
        });
        match released.await {
            Ok(Ok(())) => tracing::info!(lease = %self.lease_name(), "stopped leading"),
            Ok(Err(error)) => tracing::warn!(lease = %self.lease_name(), %error, "cannot release lease"),
            Err(_) => tracing::warn!(lease = %self.lease_name(), "no answer while releasing lease"),
        }
    }

    async fn write(&self, metadata: ObjectMeta, spec: LeaseSpec) -> kube::Result<Lease> {
        let lease = self.lease(metadata, spec);
        self.leases.replace(&self.config.name, &PostParams::default(), &lease).await
    }

    fn lease(&self, mut metadata: ObjectMeta, spec: LeaseSpec) -> Lease {
        metadata.name = Some(self.config.name.clone());
        metadata.namespace = Some(self.config.namespace.clone());
        Lease { metadata, spec: Some(spec) }
    }

    fn observe(&mut self, lease: &Lease, now: Instant) {
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if *self.leader.0.read() != holder {
            if holder != self.config.identity {
                tracing::info!(lease = %self.lease_name(), leader = holder, "new leader");
            }
            *self.leader.0.write() = holder;
        }
        self.observed.observe(spec, now);
    }

    fn tell(&self, what: &str) {
        if let Some(recorder) = &self.recorder {
            let lease = self.lease(ObjectMeta::default(), LeaseSpec::default());
            recorder.normal(&lease.object_ref(&()), "LeaderElection", format!("{} {what}", self.config.identity));
        }
    }
}
