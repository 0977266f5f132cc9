//! A client library's informer that watches through it all.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Config, ResourceExt as _};
use tests::{Cluster, within};
use tokio::sync::oneshot;
use tokio_stream::StreamExt as _;

/// Until it has seen what it must.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Default)]
struct Seen {
    lists: usize,
    listing: BTreeSet<String>,
    names: BTreeSet<String>,
    revisions: Vec<u64>,
}

/// Keeps the names of the ConfigMaps of the default namespace, as informers keep objects.
pub(crate) struct Informer {
    seen: Arc<Mutex<Seen>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Informer {
    pub(crate) fn start(cluster: &Cluster) -> Self {
        let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    () = watch(kubeconfig, &shared) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { seen, stop: Some(stop), thread: Some(thread) }
    }

    /// Waits until it shows these, besides what every namespace has.
    pub(crate) fn waits_for(&self, names: &[&str]) {
        within(PATIENCE, &format!("the informer shows {names:?}"), || {
            let seen = self.seen.lock().unwrap();
            let shown: Vec<_> = seen.names.iter().filter(|name| *name != "kube-root-ca.crt").collect();
            if shown == names { Ok(()) } else { Err(format!("{shown:?} after {} lists", seen.lists)) }
        });
    }

    /// Waits until it has listed again and shows these.
    pub(crate) fn lists_anew(&self, names: &[&str]) {
        self.waits_for(names);
        let lists = self.seen.lock().unwrap().lists;
        assert!(lists > 1, "it went on from what it saw");
    }

    /// Whether each revision it was told is at least the one before.
    pub(crate) fn never_went_back(&self) -> bool {
        self.revisions().is_sorted()
    }

    /// The revisions of changes it was told, in order.
    pub(crate) fn revisions(&self) -> Vec<u64> {
        self.seen.lock().unwrap().revisions.clone()
    }
}

impl Drop for Informer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn watch(kubeconfig: Kubeconfig, seen: &Mutex<Seen>) {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::try_from(config).unwrap());
    let mut events = Box::pin(watcher(maps, watcher::Config::default()));
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => seen.lock().unwrap().take(event),
            // The server is away for a moment; a watch tries again by itself.
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

impl Seen {
    fn take(&mut self, event: Event<ConfigMap>) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(map) => drop(self.listing.insert(map.name_any())),
            Event::InitDone => {
                self.names = std::mem::take(&mut self.listing);
                self.lists += 1;
            }
            Event::Apply(map) => {
                self.note(&map);
                self.names.insert(map.name_any());
            }
            Event::Delete(map) => {
                self.note(&map);
                self.names.remove(&map.name_any());
            }
        }
    }

    fn note(&mut self, map: &ConfigMap) {
        self.revisions.extend(map.resource_version().and_then(|revision| revision.parse::<u64>().ok()));
    }
}
