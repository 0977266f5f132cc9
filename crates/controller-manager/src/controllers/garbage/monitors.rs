//! One metadata-only informer per resource, started and stopped as the server gains and loses resources.

use std::{collections::BTreeMap, sync::Arc};

use client::informer::{Change, Informer, MetadataSource};
use component::Shutdown;
use kube::{
    Api,
    api::DynamicObject,
    core::{ApiResource, PartialObjectMeta},
};
use parking_lot::Mutex;

use super::{Collector, graph::Identity};
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
        let wanted: Vec<_> = discovered.resources.iter().filter(|served| is_monitored(served)).collect();
        // A group that could not be discovered just now is not gone.
        if discovered.failed.is_empty() {
            running.retain(|key, monitor| {
                let stays = wanted.iter().any(|served| key_of(served) == *key && **served == monitor.served);
                if !stays {
                    monitor.stop.cancel();
                }
                stays
            });
        }
        for served in wanted {
            running.entry(key_of(served)).or_insert_with(|| start(collector, served));
        }
        *self.known.lock() = discovered.resources;
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
    pub(super) fn resource(&self, api_version: &str, kind: &str) -> Option<(ApiResource, bool)> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let known = self.known.lock();
        let served = known.iter().find(|served| served.resource.group == group && served.resource.kind == kind)?;
        Some((served.resource.clone(), served.namespaced))
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
            Change::Updated { old, .. } if old.metadata.uid != meta.uid => {
                // Deleted and made anew between two looks.
                let gone = old.metadata.uid.clone().unwrap_or_default();
                collector.change(|graph| graph.remove(&gone));
                collector.change(|graph| graph.observe(identity(&resource, meta), meta));
            }
            _ => collector.change(|graph| graph.observe(identity(&resource, meta), meta)),
        }
    });
    let stop = collector.context.shutdown.child_token();
    tokio::spawn(informer.clone().run(stop.clone()));
    Monitor { served: served.clone(), informer, stop }
}

fn identity(resource: &ApiResource, meta: &kube::api::ObjectMeta) -> Identity {
    Identity {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
    }
}
