use std::{collections::VecDeque, sync::Arc};

use async_trait::async_trait;
use component::Shutdown;
use futures::{StreamExt as _, stream};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ListMeta};
use kube::{
    api::{ListParams, ObjectList, TypeMeta, WatchEvent, WatchParams},
    core::Status,
};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::{Change, Informer, Source, WatchStream};

type List = (&'static str, Vec<ConfigMap>);

/// Answers lists from a script, and each watch with one scripted batch; an exhausted script blocks.
#[derive(Clone, Default)]
struct Script {
    lists: Arc<Mutex<VecDeque<List>>>,
    watches: Arc<Mutex<VecDeque<Vec<WatchEvent<ConfigMap>>>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Source<ConfigMap> for Script {
    async fn list(&self, params: &ListParams) -> kube::Result<ObjectList<ConfigMap>> {
        self.asked.lock().push(format!("list {}", params.resource_version.as_deref().unwrap_or("latest")));
        let next = self.lists.lock().pop_front();
        let Some((version, items)) = next else { return std::future::pending().await };
        let metadata = ListMeta { resource_version: Some(version.into()), ..ListMeta::default() };
        Ok(ObjectList { types: TypeMeta::list::<ConfigMap>(), metadata, items })
    }

    async fn watch(&self, _: &WatchParams, version: &str) -> kube::Result<WatchStream<ConfigMap>> {
        self.asked.lock().push(format!("watch {version}"));
        let next = self.watches.lock().pop_front();
        match next {
            Some(events) => Ok(stream::iter(events).map(Ok).chain(stream::pending()).boxed()),
            None => Ok(stream::pending().boxed()),
        }
    }
}

fn object(name: &str, version: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.namespace = Some("default".into());
    object.metadata.name = Some(name.into());
    object.metadata.resource_version = Some(version.into());
    object
}

fn run(script: Script) -> (Informer<ConfigMap>, mpsc::UnboundedReceiver<String>, Shutdown) {
    let informer = Informer::new("configmaps", script);
    let (told, heard) = mpsc::unbounded_channel();
    informer.on_change(move |change| {
        let name = change.object().metadata.name.clone().unwrap();
        let what = match change {
            Change::Added(_) => "+",
            Change::Updated { .. } => "~",
            Change::Deleted(_) => "-",
        };
        let _ = told.send(format!("{what}{name}"));
    });
    let shutdown = Shutdown::new();
    tokio::spawn(informer.clone().run(shutdown.clone()));
    (informer, heard, shutdown)
}

async fn hear(heard: &mut mpsc::UnboundedReceiver<String>, count: usize) -> Vec<String> {
    let mut changes = Vec::new();
    for _ in 0..count {
        changes.push(heard.recv().await.unwrap());
    }
    changes
}

#[tokio::test]
async fn follows_list_and_watch() {
    let script = Script::default();
    script.lists.lock().push_back(("5", vec![object("a", "3")]));
    script.watches.lock().push_back(vec![
        WatchEvent::Added(object("b", "6")),
        WatchEvent::Modified(object("a", "7")),
        WatchEvent::Deleted(object("b", "8")),
    ]);
    let (informer, mut heard, shutdown) = run(script.clone());
    assert_eq!(hear(&mut heard, 4).await, ["+a", "+b", "~a", "-b"]);
    informer.synced().await;
    assert_eq!(informer.list().len(), 1);
    assert_eq!(*script.asked.lock(), ["list 0", "watch 5"]);
    shutdown.cancel();
}

#[tokio::test]
async fn lists_the_latest_state_when_its_version_has_expired() {
    let script = Script::default();
    script.lists.lock().push_back(("5", vec![object("a", "3"), object("b", "4")]));
    let expired = Status::failure("too old resource version", "Expired").with_code(410).boxed();
    script.watches.lock().push_back(vec![WatchEvent::Error(expired)]);
    script.lists.lock().push_back(("90", vec![object("b", "80")]));
    let (_informer, mut heard, shutdown) = run(script.clone());
    assert_eq!(hear(&mut heard, 4).await, ["+a", "+b", "-a", "~b"]);
    assert_eq!(script.asked.lock()[..3], ["list 0", "watch 5", "list latest"]);
    shutdown.cancel();
}

#[tokio::test]
async fn a_late_handler_hears_of_what_is_cached() {
    let script = Script::default();
    script.lists.lock().push_back(("5", vec![object("a", "3")]));
    let (informer, _heard, shutdown) = run(script);
    informer.synced().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    informer.on_change(move |change| drop(told.send(change.object().metadata.name.clone())));
    assert_eq!(heard.recv().await, Some(Some("a".into())));
    shutdown.cancel();
}
