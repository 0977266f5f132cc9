//! Looks after every APIService: whether it is available, and what it serves. Upstream: the controllers of `status/`, and the
//! managers of discovery and OpenAPI.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apimachinery::status::Status;
use component::backoff::Backoff;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Aggregator;
use super::fetch::Asker;
use super::network::Fault;
use super::service::{ApiService, Backend};
use super::work::Work;
use crate::loopback::Api;
use crate::registry::apiextensions::definition::set_condition;
use crate::registry::apiregistration::local_condition;
use crate::registry::edit::ensure_object;

/// So many are looked at together.
const AT_ONCE: usize = 5;
/// Whether a server answers can change without any object telling.
const AGAIN: Duration = Duration::from_secs(30);
const FIRST_RETRY: Duration = Duration::from_millis(200);

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// When something changes.
    Changed,
    /// In a while.
    Later,
    /// Soon, and ever more rarely.
    Retry,
}

/// Follows the APIServices.
pub(super) struct Follower {
    pub(super) aggregator: Arc<Aggregator>,
    pub(super) api: Api,
    /// Told of changes of APIServices, Services and EndpointSlices.
    pub(super) work: Arc<Work>,
}

/// Who is due.
#[derive(Default)]
struct Agenda {
    waiting: BTreeSet<String>,
    busy: BTreeSet<String>,
    later: BTreeMap<String, Instant>,
    retries: BTreeMap<String, Backoff>,
    seen: BTreeMap<String, Seen>,
}

/// What of an APIService decides how it is looked at: its UID, who serves it, and of ours whether it says so. The condition that is
/// written is no reason to look again, or several servers that see different errors would keep each other writing.
type Seen = (String, Option<Backend>, bool);

impl Agenda {
    /// The next one to look at, unless it is being looked at already.
    fn start(&mut self) -> Option<String> {
        let name = self.waiting.iter().find(|name| !self.busy.contains(*name))?.clone();
        self.waiting.remove(&name);
        self.later.remove(&name);
        self.busy.insert(name.clone());
        Some(name)
    }

    fn finish(&mut self, name: String, next: Next) {
        self.busy.remove(&name);
        let delay = match next {
            Next::Retry => {
                let backoff = self.retries.entry(name.clone()).or_insert_with(|| Backoff::new(FIRST_RETRY, AGAIN));
                backoff.next_delay(&mut rand::rng())
            }
            Next::Changed | Next::Later => {
                self.retries.remove(&name);
                AGAIN
            }
        };
        if next != Next::Changed {
            self.later.insert(name, Instant::now() + delay);
        }
    }

    /// Moves those whose time has come.
    fn wake(&mut self, now: Instant) {
        let due = self.later.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone());
        self.waiting.extend(due.collect::<Vec<_>>());
        self.later.retain(|_, at| *at > now);
    }

    /// Whether an APIService is another than when this was last asked.
    fn is_news(&mut self, name: &str, service: Option<&ApiService>) -> bool {
        let now = service.map(|service| {
            let local = service.backend.is_none() && service.available;
            (service.object.uid().to_owned(), service.backend.clone(), local)
        });
        let before = match now.clone() {
            Some(now) => self.seen.insert(name.to_owned(), now),
            None => self.seen.remove(name),
        };
        now.is_none() || before != now
    }

    async fn sleep(&self) {
        match self.later.values().min() {
            Some(at) => tokio::time::sleep_until(*at).await,
            None => std::future::pending().await,
        }
    }
}

impl Follower {
    /// Goes on until dropped.
    pub(super) async fn run(self) {
        let mut agenda = Agenda::default();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < AT_ONCE
                && let Some(name) = agenda.start()
            {
                running.push(self.look(name));
            }
            tokio::select! {
                () = self.work.changed() => {
                    let concerned = self.concerned(&mut agenda);
                    agenda.waiting.extend(concerned);
                }
                Some((name, next)) = running.next() => agenda.finish(name, next),
                () = agenda.sleep() => {}
            }
            agenda.wake(Instant::now());
        }
    }

    /// The APIServices that changes are about.
    fn concerned(&self, agenda: &mut Agenda) -> Vec<String> {
        let (changed, services) = (self.work.take(), &self.aggregator.services);
        let behind = |service: &ApiService| service.backend.as_ref().is_some_and(|backend| changed.topics.contains(&backend.topic()));
        let all = services.list("").into_iter().filter(|(_, service)| changed.everything || behind(service));
        let mut names: Vec<String> = all.map(|(key, _)| key.name).collect();
        // Names without a slash are those of APIServices; of one that is gone something has to be forgotten.
        let named = changed.topics.iter().filter(|topic| !topic.contains('/'));
        names.extend(named.filter(|name| agenda.is_news(name, services.get("", name).as_deref())).cloned());
        names
    }

    async fn look(&self, name: String) -> (String, Next) {
        let library = &self.aggregator.library;
        let Some(service) = self.aggregator.services.get("", &name) else {
            library.forget(&name);
            self.aggregator.metrics.forget(&name);
            return (name, Next::Changed);
        };
        let outcome = match &service.backend {
            None => {
                library.forget(&name);
                self.write(&service, local_condition()).await.map(|()| Next::Changed)
            }
            Some(backend) => self.look_behind(&service, backend).await,
        };
        let next = outcome.unwrap_or_else(|status| {
            tracing::debug!(apiservice = %name, error = %status, "writing whether an API service is available failed; trying again");
            Next::Retry
        });
        (name, next)
    }

    async fn look_behind(&self, service: &ApiService, backend: &Backend) -> Result<Next, Status> {
        let Aggregator { network, transport, library, .. } = &*self.aggregator;
        self.aggregator.wanted.notify_one();
        if !network.is_synced() {
            return Ok(Next::Retry);
        }
        let asker = Asker { network, transport, service, backend };
        let missing = network.fault(backend).map(|fault| (fault, Next::Later));
        let fault = match missing {
            Some(missing) => Some(missing),
            None => asker.reach().await.err().map(|message| (Fault { reason: "FailedDiscoveryCheck", message }, Next::Retry)),
        };
        if let Some((fault, next)) = fault {
            library.mark_stale(service.name());
            self.write(service, condition("False", fault.reason, &fault.message)).await?;
            return Ok(next);
        }
        let (name, discovered) = (service.name(), asker.discover().await);
        let next = match discovered {
            Ok(discovered) => {
                library.set_discovered(name, discovered);
                Next::Later
            }
            Err(error) => {
                tracing::debug!(apiservice = name, error, "fetching what an API server serves failed");
                library.mark_stale(name);
                Next::Retry
            }
        };
        // Clients need not wait for OpenAPI documents, and a server without them is none the less available.
        self.write(service, condition("True", "Passed", "all checks passed")).await?;
        if next == Next::Later
            && let Err(error) = asker.fetch_openapi(library).await
        {
            tracing::debug!(apiservice = name, error, "fetching OpenAPI documents failed; those known before stay");
        }
        Ok(next)
    }

    /// Writes the condition, if it is another.
    async fn write(&self, service: &ApiService, condition: Value) -> Result<(), Status> {
        let metrics = &self.aggregator.metrics;
        metrics.found(service, &condition);
        let mut changed = service.object.clone();
        set_condition(ensure_object(&mut changed.0, "status"), condition.clone(), Some(component::clock::now()));
        if changed == service.object {
            return Ok(());
        }
        match self.api.update_sub("status", &changed).await {
            // Another server came first, or it is gone: the watch tells.
            Err(status) if matches!(status.code, 404 | 409) => Ok(()),
            written => written.map(|_| metrics.wrote(service, &condition)),
        }
    }
}

fn condition(status: &str, reason: &str, message: &str) -> Value {
    json!({"type": "Available", "status": status, "reason": reason, "message": message})
}

#[cfg(test)]
mod tests {
    use apimachinery::Object;

    use super::*;

    #[test]
    fn a_condition_alone_is_no_reason_to_look_again() {
        let service = |name: &str, status: &str| {
            let spec = json!({"group": "g", "version": "v1", "service": {"namespace": "n", "name": name}});
            let status = json!({"conditions": [condition(status, "x", "y")]});
            ApiService::read(Object::from_value(json!({"metadata": {"name": "v1.g", "uid": "1"}, "spec": spec, "status": status})).unwrap())
        };
        let mut agenda = Agenda::default();
        let mut news = |service: Option<ApiService>| agenda.is_news("v1.g", service.as_ref());
        assert!(news(service("a", "False")));
        assert!(!news(service("a", "True")));
        assert!(news(service("b", "True")), "another Service serves it");
        assert!(news(None) && news(None));
        assert!(news(service("b", "True")));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_fails_is_looked_at_ever_more_rarely_and_never_twice_at_once() {
        let mut agenda = Agenda::default();
        agenda.waiting.insert("a".into());
        assert_eq!(agenda.start(), Some("a".into()));
        // It changes while it is being looked at.
        agenda.waiting.insert("a".into());
        assert_eq!(agenda.start(), None);
        agenda.finish("a".into(), Next::Retry);
        assert_eq!(agenda.start(), Some("a".into()));
        for (next, least, most) in [(Next::Retry, 200, 400), (Next::Later, 30_000, 30_000), (Next::Retry, 100, 200)] {
            agenda.finish("a".into(), next);
            let began = Instant::now();
            agenda.sleep().await;
            let slept = began.elapsed().as_millis();
            assert!((least..=most + 2).contains(&slept), "{next:?}: {slept} ms");
            agenda.wake(Instant::now());
            assert_eq!(agenda.start(), Some("a".into()));
        }
        agenda.finish("a".into(), Next::Changed);
        assert!(agenda.later.is_empty() && agenda.waiting.is_empty());
    }
}
