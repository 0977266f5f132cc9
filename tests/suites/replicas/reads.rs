//! Reading at one server what was written through the other.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams, VersionMatch, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tests::Maker;

use crate::several::Several;

const ROUNDS: usize = 60;
/// Until an event has come.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_server_wrote_the_other_shows_at_once() {
    reads_its_writes(Maker::Ours).await;
}

/// 3.5.1 reports progress ahead of events: lists must not come from a cache there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_server_wrote_the_other_shows_at_once_on_an_old_etcd() {
    reads_its_writes(Maker::Etcd).await;
}

async fn reads_its_writes(maker: Maker) {
    let several = Several::on(maker);
    let maps = [maps(&several, 0).await, maps(&several, 1).await];
    let from = maps[0].list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut last = 0;
    for number in 0..ROUNDS {
        let (here, there) = (&maps[number % 2], &maps[(number + 1) % 2]);
        let name = format!("m{number}");
        let made = here.create(&PostParams::default(), &map(&name)).await.unwrap();
        shows(there, &made).await;
        last = version(made.resource_version());
        if number % 3 == 0 {
            here.delete(&name, &DeleteParams::default()).await.unwrap();
            let listed = there.list(&ListParams::default()).await.unwrap();
            assert!(listed.items.iter().all(|map| map.name_any() != name), "{name} is still there");
        }
    }
    let seen = [events(&maps[0], &from, last).await, events(&maps[1], &from, last).await];
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].len() >= ROUNDS, "{seen:?}");
}

/// A server shows what was just written through another one: alone, in a consistent list, and in one that is not older.
async fn shows(there: &Api<ConfigMap>, made: &ConfigMap) {
    assert_eq!(&there.get(&made.name_any()).await.unwrap(), made);
    let at_least = made.resource_version().unwrap();
    let not_older = ListParams::default().at(&at_least).matching(VersionMatch::NotOlderThan);
    for params in [ListParams::default(), not_older] {
        let listed = there.list(&params).await.unwrap();
        assert!(listed.items.contains(made), "{} is missing in {params:?}", made.name_any());
        assert!(version(listed.metadata.resource_version) >= version(Some(at_least.clone())));
    }
}

/// What a watch from `from` shows up to `last`.
async fn events(maps: &Api<ConfigMap>, from: &str, last: u64) -> Vec<(&'static str, String, u64)> {
    let mut events = pin!(maps.watch(&WatchParams::default(), from).await.unwrap());
    let mut seen: Vec<(_, _, u64)> = Vec::new();
    while seen.last().is_none_or(|(.., version)| *version < last) {
        let event = tokio::time::timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap();
        let (kind, map) = match event {
            WatchEvent::Added(map) => ("added", map),
            WatchEvent::Modified(map) => ("modified", map),
            WatchEvent::Deleted(map) => ("deleted", map),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => panic!("{status:?}"),
        };
        seen.push((kind, map.name_any(), version(map.resource_version())));
    }
    seen
}

async fn maps(several: &Several, server: usize) -> Api<ConfigMap> {
    Api::namespaced(several.client(server).await, "default")
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "b"}})).unwrap()
}

fn version(text: Option<String>) -> u64 {
    text.unwrap().parse().unwrap()
}
