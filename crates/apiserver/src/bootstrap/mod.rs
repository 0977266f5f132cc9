//! What a cluster needs to exist, made and kept by the server itself, through its own API.

mod aggregate;
pub(crate) mod authentication;
mod endpoints;
mod identity;
mod masters;
mod namespaces;
mod priority_classes;
mod rbac;
mod service;
mod service_cidr;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use apimachinery::{Object, status::Status};
use component::Shutdown;
use component::backoff::Backoff;
use futures::future::BoxFuture;
use ipnet::IpNet;
use tokio::sync::watch;

use crate::loopback::{Api, Loopback};
pub(crate) use masters::Masters;

/// What the bootstrap objects say about this server.
pub(crate) struct BootstrapConfig {
    /// `--service-cluster-ip-range`, the primary one first.
    pub(crate) service_ranges: Vec<IpNet>,
    /// `--advertise-address`, or what stands for it; `None` on a machine without any.
    pub(crate) advertise: Option<IpAddr>,
    /// The port at that address.
    pub(crate) port: u16,
    /// The machine's name; with the port it makes the server's identity.
    pub(crate) hostname: String,
    /// Data of the config map `extension-apiserver-authentication`.
    pub(crate) authentication: BTreeMap<String, String>,
    /// Whether RBAC is in force.
    pub(crate) rbac: bool,
    /// The servers to which the `kubernetes` service leads; `None` leaves its endpoints alone.
    pub(crate) masters: Option<Masters>,
    /// Whether its endpoints have this server's port since it started.
    pub(crate) port_is_set: AtomicBool,
    /// The same of the service itself.
    pub(crate) service_is_set: AtomicBool,
}

/// One thing to make: repeated until it succeeds once, then every `every`, if at all.
struct Step {
    /// The name of the check that waits for it, as upstream's post-start hooks are called.
    name: &'static str,
    every: Option<Duration>,
    run: Box<dyn Fn() -> BoxFuture<'static, Result<(), Status>> + Send + Sync>,
}

/// Steps that have not succeeded yet, by name.
pub(crate) type Pending = Arc<watch::Sender<Vec<&'static str>>>;

/// Makes and keeps the bootstrap objects.
pub(crate) struct Bootstrap {
    steps: Vec<Step>,
    pending: Pending,
    api: Loopback,
    config: Arc<BootstrapConfig>,
}

const ENDPOINTS: &str = "kubernetes-service-endpoints";
/// Shutdown waits no longer until nobody is led here any more: the store may be gone.
const WITHDRAW: Duration = Duration::from_secs(2);
const SOON: Option<Duration> = Some(Duration::from_secs(10));
const MINUTE: Option<Duration> = Some(Duration::from_secs(60));

impl Bootstrap {
    /// All steps, none taken.
    pub(crate) fn new(api: Loopback, config: BootstrapConfig) -> Self {
        let config = Arc::new(config);
        let (api_of, config_of) = (api.clone(), config.clone());
        let step = |name, every, run: fn(Loopback, Arc<BootstrapConfig>) -> BoxFuture<'static, Result<(), Status>>| {
            let (api, config) = (api_of.clone(), config_of.clone());
            Step { name, every, run: Box::new(move || run(api.clone(), config.clone())) }
        };
        let mut steps = vec![
            step("start-system-namespaces-controller", MINUTE, |api, _| Box::pin(namespaces::ensure(api))),
            step("scheduling/bootstrap-system-priority-classes", None, |api, _| Box::pin(priority_classes::ensure(api))),
            step("default-service-cidr-controller", MINUTE, |api, config| Box::pin(service_cidr::ensure(api, config))),
            step("bootstrap-controller", SOON, |api, config| Box::pin(service::ensure(api, config))),
            step("start-cluster-authentication-info-controller", MINUTE, |api, config| Box::pin(authentication::ensure(api, config))),
            step("start-kube-apiserver-identity-lease-controller", SOON, |api, config| Box::pin(identity::renew(api, config))),
            step("start-kube-apiserver-identity-lease-garbage-collector", MINUTE, |api, _| Box::pin(identity::collect(api))),
            step(ENDPOINTS, SOON, |api, config| Box::pin(endpoints::reconcile(api, config))),
        ];
        if config.rbac {
            steps.insert(1, step("rbac/bootstrap-roles", None, |api, _| Box::pin(rbac::reconcile(api))));
        }
        let pending = Arc::new(watch::Sender::new(steps.iter().map(|step| step.name).collect()));
        Self { steps, pending, api, config }
    }

    /// Steps that have not succeeded yet: `/readyz` waits for them.
    pub(crate) fn pending(&self) -> Pending {
        self.pending.clone()
    }

    /// The names of the steps `/readyz` waits for: all but the endpoints, without which the API serves as well.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.steps.iter().map(|step| step.name).filter(|name| *name != ENDPOINTS).collect()
    }

    /// Takes all steps, each at its own pace, until shutdown; then nobody is led here any more, if the store lets it know in time.
    pub(crate) async fn run(self, shutdown: Shutdown) {
        let (pending, api, config) = (self.pending, self.api, self.config);
        let steps = self.steps.into_iter().map(|step| take(step, pending.clone()));
        let aggregation = async {
            if config.rbac {
                aggregate::run(api.clone()).await;
            }
        };
        let all = futures::future::join(futures::future::join_all(steps), aggregation);
        tokio::select! {
            _ = all => {}
            () = shutdown.cancelled() => {}
        }
        match tokio::time::timeout(WITHDRAW, endpoints::withdraw(api.clone(), config.clone())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the kubernetes service may go on leading here for a while"),
            Err(_) => tracing::warn!("the store did not learn in time that this server ends"),
        }
    }
}

async fn take(step: Step, pending: Pending) {
    if step.name == ENDPOINTS {
        // Who is led here shall find a server that has all it needs. The sender lives as long as this.
        let _ = pending.subscribe().wait_for(|pending| *pending == [ENDPOINTS]).await;
    }
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
    loop {
        match (step.run)().await {
            Ok(()) => {
                pending.send_if_modified(|pending| {
                    let before = pending.len();
                    pending.retain(|name| *name != step.name);
                    pending.len() < before
                });
                backoff.reset();
                match step.every {
                    Some(every) => tokio::time::sleep(every).await,
                    None => return,
                }
            }
            Err(status) => {
                tracing::debug!(step = step.name, error = %status, "bootstrap step failed; trying again");
                backoff.wait().await;
            }
        }
    }
}

/// Creates what is missing; what is there stays as it is.
async fn ensure(api: &Api, object: &Object) -> Result<(), Status> {
    if api.get_opt(object.name()).await?.is_some() {
        return Ok(());
    }
    match api.create(object).await {
        Err(status) if status.is(apimachinery::status::reason::ALREADY_EXISTS) => Ok(()),
        created => created.map(drop),
    }
}

/// An object of a few words.
fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Object {
    let mut object = Object::default();
    object.set_api_version(api_version);
    object.0.insert("kind".into(), kind.into());
    object.set_name(name);
    object.set_namespace(namespace);
    object
}
