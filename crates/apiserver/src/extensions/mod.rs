//! The server's own loops over CustomResourceDefinitions: names and conditions, serving of instances, cleaning up.
//!
//! Every API server runs them, each for itself; what they write they write with the version they saw, so that of several one wins and
//! the others look again. Upstream: the controllers of `apiextensions-apiserver`.

mod cleanup;
mod install;
mod known;
mod status;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use apimachinery::{Object, status::Status};
use component::{Shutdown, backoff::Backoff};
use tokio::time::Instant;

use crate::{
    informer,
    loopback::{Api, Loopback},
    registry::{apiextensions::view::Definition, store::Hub},
};
use install::Installer;
use known::Known;

const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(10);

/// All loops in one: definitions are few and change rarely.
pub(crate) struct Extensions {
    hub: Arc<Hub>,
    api: Loopback,
    definitions: Api,
    known: Arc<Known>,
    installer: Installer,
    /// When to look again at definitions that could not be settled, and how patiently.
    later: BTreeMap<String, (Instant, Backoff)>,
}

/// Whether a definition is as it should be.
#[derive(Debug, PartialEq, Eq)]
enum Settled {
    /// Nothing is to do until it changes.
    Yes,
    /// Something else has to happen first.
    NotYet,
}

impl Extensions {
    /// Loops that bring what is defined into the hub's catalog. Until they have run once the catalog counts as incomplete.
    pub(crate) fn new(hub: Arc<Hub>, api: Loopback) -> Self {
        let known = Arc::new(Known::default());
        let definitions = api.api("apiextensions.k8s.io/v1", "customresourcedefinitions");
        hub.incomplete.store(true, Ordering::Release);
        Self { api, definitions, known, installer: Installer::new(hub.clone()), hub, later: BTreeMap::new() }
    }

    /// Follows the definitions until shutdown.
    pub(crate) async fn run(mut self, shutdown: Shutdown) {
        let feed = informer::feed(self.definitions.clone(), self.known.clone());
        tokio::select! {
            () = feed => {}
            () = self.follow() => {}
            () = shutdown.cancelled() => {}
        }
    }

    async fn follow(&mut self) {
        loop {
            let next = self.later.values().map(|(at, _)| *at).min();
            let pause = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.known.changed() => {}
                () = pause => {}
            }
            self.pass().await;
        }
    }

    /// Looks at everything that changed or is due.
    async fn pass(&mut self) {
        let (synced, now) = (self.known.is_synced(), Instant::now());
        let mut due = self.known.take_changed();
        due.extend(self.later.iter().filter(|(_, (at, _))| *at <= now).map(|(name, _)| name.clone()));
        // All at once: after a start there may be thousands.
        let definitions: Vec<(&str, Option<Object>)> = due.iter().map(|name| (name.as_str(), self.known.get(name))).collect();
        self.installer.install(&definitions);
        if synced {
            self.hub.incomplete.store(false, Ordering::Release);
        }
        for name in &due {
            match self.settle(name).await {
                Ok(Settled::Yes) => drop(self.later.remove(name)),
                Ok(Settled::NotYet) => self.retry(name),
                Err(status) => {
                    tracing::debug!(definition = %name, error = %status, "settling a custom resource definition failed; trying again");
                    self.retry(name);
                }
            }
        }
    }

    fn retry(&mut self, name: &str) {
        let (at, backoff) = self.later.entry(name.to_owned()).or_insert_with(|| (Instant::now(), Backoff::new(FIRST_RETRY, LAST_RETRY)));
        *at = Instant::now() + backoff.next_delay(&mut rand::rng());
    }

    /// One definition: names, then serving, then the word that it is served; or the end of its instances.
    async fn settle(&mut self, name: &str) -> Result<Settled, Status> {
        let Some(definition) = self.known.get(name) else { return Ok(Settled::Yes) };
        if definition.deletion_timestamp().is_some() {
            return cleanup::step(&self.api, &self.definitions, &self.known, &definition).await;
        }
        let now = component::clock::now();
        let accept = |definition: &Object| {
            let view = Definition(definition);
            let settled = view.names() == view.accepted() && view.is("NamesAccepted");
            if settled { None } else { status::accept(definition, &self.known.taken(view.group()), now) }
        };
        let Some(definition) = self.write(definition, accept).await? else { return Ok(Settled::Yes) };
        self.installer.install(&[(name, Some(definition.clone()))]);
        self.write(definition, |definition| status::conclude(definition, now)).await?;
        Ok(Settled::Yes)
    }

    /// Writes the status the plan asks for, if any; `None` where somebody else came first, who will be heard of.
    async fn write(&self, definition: Object, plan: impl Fn(&Object) -> Option<Object>) -> Result<Option<Object>, Status> {
        match plan(&definition) {
            None => Ok(Some(definition)),
            Some(wanted) => write_status(&self.definitions, &self.known, &wanted).await,
        }
    }
}

/// Writes a definition's status; `None` where the definition is another by now or gone.
async fn write_status(definitions: &Api, known: &Known, wanted: &Object) -> Result<Option<Object>, Status> {
    match definitions.update_sub("status", wanted).await {
        Ok(written) => {
            known.learn(&written);
            Ok(Some(written))
        }
        Err(status) if matches!(status.code, 404 | 409) => Ok(None),
        Err(status) => Err(status),
    }
}
