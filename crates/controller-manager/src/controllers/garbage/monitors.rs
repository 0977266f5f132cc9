//! One metadata-only informer per resource, started and stopped as the server gains and loses resources.

use std::{collections::BTreeMap, sync::Arc};

use client::informer::{Change, Informer, MetadataSource};
use component::Shutdown;
use kube::{
    Api, Client,
    api::DynamicObject,
    core::{ApiResource, PartialObjectMeta},
};
use parking_lot::Mutex;

use super::{Collector, identity::Identity};
use crate::discovery::{self, Served};

type Metadata = PartialObjectMeta<DynamicObject>;

struct Monitor {
    served: Served,
    informer: Informer<Metadata>,
    stop: Shutdown,
}

/// The running informers, by `group/plural`.
#[derive(Default)]
pub(super) struct Monitors {
    running: Mutex<BTreeMap<(String, String), Monitor>>,
    /// Everything served, also what is not monitored: owners may be of any kind.
    known: Mutex<Vec<Served>>,
}

impl Monitors {
    /// Starts informers of new resources and stops those of resources gone.
    pub(super) async fn sync(&self, collector: &Arc<Collector>) -> anyhow::Result<()> {
        let discovered = discovery::discover(collector.context.informers.client()).await?;
        let mut running = self.running.lock();
        let wanted: Vec<_> = discovered.resources.iter().filter(|served| is_monitored(served)).cloned().collect();
        running.retain(|key, monitor| {
            // A group version that could not be discovered just now is not gone.
            let untold = discovered.failed.contains(&monitor.served.resource.api_version);
            let stays = untold || wanted.iter().any(|served| key_of(served) == *key && served.resource == monitor.served.resource);
            if !stays {
                monitor.stop.cancel();
            }
            stays
        });
        for served in wanted {
            running.entry(key_of(&served)).or_insert_with(|| start(collector, &served));
        }
        let mut known = self.known.lock();
        let untold = known.iter().filter(|served| discovered.failed.contains(&served.resource.api_version)).cloned();
        *known = untold.collect::<Vec<_>>().into_iter().chain(discovered.resources).collect();
        Ok(())
    }

    /// Waits until each informer has listed its resource once.
    pub(super) async fn synced(&self) {
        let informers: Vec<_> = self.running.lock().values().map(|monitor| monitor.informer.clone()).collect();
        for informer in informers {
            informer.synced().await;
        }
    }

    /// How to address objects of that kind; `None` for a kind the server does not serve (any more).
    pub(super) fn place(&self, api_version: &str, kind: &str) -> Option<Place> {
        let known = self.known.lock();
        let served = known.iter().find(|served| served.is(api_version, kind))?;
        Some(Place { resource: served.resource.clone(), namespaced: served.namespaced })
    }
}

/// How the objects of one kind are addressed.
pub(super) struct Place {
    resource: ApiResource,
    namespaced: bool,
}

impl Place {
    /// The objects of `namespace`, or all where the kind has no namespaces; `None` where it has, and none is known.
    pub(super) fn api(&self, client: &Client, namespace: &str) -> Option<Api<DynamicObject>> {
        match (self.namespaced, namespace) {
            (false, _) => Some(Api::all_with(client.clone(), &self.resource)),
            (true, "") => None,
            (true, namespace) => Some(Api::namespaced_with(client.clone(), namespace, &self.resource)),
        }
    }

    /// The identity without the namespace, where the kind has none.
    pub(super) fn coordinates(&self, identity: &Identity) -> Identity {
        let namespace = if self.namespaced { identity.namespace.clone() } else { String::new() };
        Identity { namespace, ..identity.clone() }
    }
}

fn key_of(served: &Served) -> (String, String) {
    (served.resource.group.clone(), served.resource.plural.clone())
}

/// Events are many, own nothing and are owned by nothing.
fn is_monitored(served: &Served) -> bool {
    let event = served.resource.plural == "events" && matches!(served.resource.group.as_str(), "" | "events.k8s.io");
    served.takes(&["delete", "list", "watch"]) && !event
}

fn start(collector: &Arc<Collector>, served: &Served) -> Monitor {
    let client = collector.context.informers.client().clone();
    let api: Api<DynamicObject> = Api::all_with(client, &served.resource);
    let informer = Informer::new(format!("{}.{}", served.resource.plural, served.resource.group), MetadataSource(api));
    let (resource, listener) = (served.resource.clone(), Arc::downgrade(collector));
    informer.on_change(move |change| {
        let Some(collector) = listener.upgrade() else { return };
        let meta = &change.object().metadata;
        let uid = meta.uid.clone().unwrap_or_default();
        match change {
            Change::Deleted(_) => collector.change(|graph| graph.remove(&uid)),
            _ => collector.change(|graph| graph.observe(Identity::observed(&resource, meta), meta)),
        }
    });
    let stop = collector.context.shutdown.child_token();
    tokio::spawn(informer.clone().run(stop.clone()));
    Monitor { served: served.clone(), informer, stop }
}
