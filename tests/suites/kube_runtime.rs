//! The runtime of the `kube` crate, which controllers in Rust are made of: watcher, reflector, controller.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{
        WatchStreamExt,
        controller::{Action, Controller},
        reflector,
        watcher::{self, Event, watcher},
    },
};
use tests::Cluster;
use tokio::time::timeout;

/// Until a change is seen.
const PATIENCE: Duration = Duration::from_secs(30);

async fn client(cluster: &Cluster) -> Client {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()).unwrap()
}

fn map(name: &str, value: &str) -> ConfigMap {
    let labels = BTreeMap::from([("by".to_owned(), "kube".to_owned())]);
    let metadata = ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    ConfigMap { metadata, data: Some(BTreeMap::from([("k".to_owned(), value.to_owned())])), ..ConfigMap::default() }
}

fn ours() -> watcher::Config {
    watcher::Config::default().labels("by=kube")
}

fn value(map: &ConfigMap) -> Option<&str> {
    map.data.as_ref()?.get("k").map(String::as_str)
}

/// What a watcher tells, as a line.
fn told(event: Event<ConfigMap>) -> String {
    match event {
        Event::Init => "init".to_owned(),
        Event::InitApply(map) => format!("there is {}", map.name_any()),
        Event::InitDone => "that is all".to_owned(),
        Event::Apply(map) => format!("{} has {}", map.name_any(), value(&map).unwrap_or_default()),
        Event::Delete(map) => format!("{} is gone", map.name_any()),
    }
}

/// By a list and a watch, or by a watch that sends what there is first.
async fn a_watcher_tells_what_there_is_and_what_changes(maps: &Api<ConfigMap>, config: watcher::Config) {
    maps.create(&PostParams::default(), &map("w", "1")).await.unwrap();
    let mut events = pin!(watcher(maps.clone(), config));
    let mut next = async || told(timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap());
    assert_eq!([next().await, next().await, next().await], ["init", "there is w", "that is all"]);
    let change = serde_json::json!({"data": {"k": "2"}});
    maps.patch("w", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    assert_eq!(next().await, "w has 2");
    maps.delete("w", &DeleteParams::default()).await.unwrap();
    assert_eq!(next().await, "w is gone");
}

async fn a_reflector_holds_what_there_is(maps: &Api<ConfigMap>) {
    let (store, writer) = reflector::store();
    let mut changes = pin!(watcher(maps.clone(), ours()).reflect(writer).applied_objects());
    let mut shows = async |wanted: Option<&str>| {
        let key = reflector::ObjectRef::new("r").within("default");
        let shown = async {
            while store.get(&key).as_deref().and_then(value) != wanted {
                // A deletion comes as no object; the store is asked again all the same.
                let _ = timeout(Duration::from_millis(20), changes.next()).await;
            }
        };
        timeout(PATIENCE, shown).await.unwrap_or_else(|_| panic!("the store does not show {wanted:?}"));
    };
    maps.create(&PostParams::default(), &map("r", "1")).await.unwrap();
    shows(Some("1")).await;
    maps.delete("r", &DeleteParams::default()).await.unwrap();
    shows(None).await;
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Failed(#[from] kube::Error);

/// Doubles `k` into `doubled`, as its own field manager.
async fn double(map: Arc<ConfigMap>, maps: Arc<Api<ConfigMap>>) -> Result<Action, Failed> {
    let doubled = value(&map).unwrap_or_default().repeat(2);
    let config = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"doubled": doubled}});
    maps.patch(&map.name_any(), &PatchParams::apply("doubler"), &Patch::Apply(&config)).await?;
    Ok(Action::await_change())
}

async fn a_controller_brings_about_what_is_wanted(maps: &Api<ConfigMap>) {
    maps.create(&PostParams::default(), &map("c", "ab")).await.unwrap();
    let again = |_: Arc<ConfigMap>, _: &Failed, _: Arc<Api<ConfigMap>>| Action::requeue(Duration::from_millis(100));
    let mut rounds = pin!(Controller::new(maps.clone(), ours()).run(double, again, Arc::new(maps.clone())));
    for (wanted, change) in [("abab", Some("x")), ("xx", None)] {
        let brought = async {
            while maps.get("c").await.unwrap().data.unwrap().get("doubled").map(String::as_str) != Some(wanted) {
                rounds.next().await.unwrap().unwrap();
            }
        };
        timeout(PATIENCE, brought).await.unwrap_or_else(|_| panic!("{wanted} is not brought about"));
        if let Some(change) = change {
            let change = serde_json::json!({"data": {"k": change}});
            maps.patch("c", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
        }
    }
}

#[test]
fn controllers_in_rust_can_be_built_on_it() {
    let cluster = Cluster::up(&["--components", "store,apiserver"]);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let maps = Api::namespaced(client(&cluster).await, "default");
        a_watcher_tells_what_there_is_and_what_changes(&maps, ours()).await;
        a_watcher_tells_what_there_is_and_what_changes(&maps, ours().streaming_lists()).await;
        a_reflector_holds_what_there_is(&maps).await;
        a_controller_brings_about_what_is_wanted(&maps).await;
    });
}
