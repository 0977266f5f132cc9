use std::time::Duration;

use async_trait::async_trait;
use client::informer::{Informer, Source, WatchStream};
use component::{
    Shutdown,
    health::{Endpoint, Health},
};
use futures::{StreamExt as _, stream};
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::ListMeta};
use kube::api::{ListParams, ObjectList, TypeMeta, WatchEvent, WatchParams};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::Follower;
use crate::{
    kernel::{Family, Kernel},
    plan::{Action, Route},
};

/// What the test says instead of an API server: a first list, then events.
struct Said {
    list: Vec<Node>,
    events: Mutex<Option<mpsc::UnboundedReceiver<WatchEvent<Node>>>>,
}

#[async_trait]
impl Source<Node> for Said {
    async fn list(&self, _: &ListParams) -> kube::Result<ObjectList<Node>> {
        let metadata = ListMeta { resource_version: Some("1".into()), ..ListMeta::default() };
        Ok(ObjectList { types: TypeMeta::list::<Node>(), metadata, items: self.list.clone() })
    }

    async fn watch(&self, _: &WatchParams, _: &str) -> kube::Result<WatchStream<Node>> {
        let events = self.events.lock().take();
        let Some(events) = events else { return Ok(stream::pending().boxed()) };
        Ok(stream::unfold(events, |mut events| async move { events.recv().await.map(|event| (Ok(event), events)) }).boxed())
    }
}

/// What the fake kernel holds.
#[derive(Clone, Default)]
struct State {
    forwards: bool,
    routes: Vec<Route>,
    restored: String,
    /// Somebody else's route, to a range of ours.
    foreign: Option<Route>,
}

struct Fake(watch::Sender<State>);

impl Kernel for Fake {
    async fn forward(&self, _: Family) -> anyhow::Result<()> {
        self.0.send_modify(|state| state.forwards = true);
        Ok(())
    }

    async fn routes(&self, _: Family) -> anyhow::Result<Vec<Route>> {
        Ok(self.0.borrow().routes.clone())
    }

    async fn act(&self, action: &Action) -> anyhow::Result<()> {
        let occupied =
            self.0.borrow().foreign.as_ref().is_some_and(|foreign| matches!(action, Action::Add { to, .. } if *to == foreign.to));
        anyhow::ensure!(!occupied, "File exists");
        self.0.send_modify(|state| {
            let (Action::Add { to, .. } | Action::Replace { to, .. } | Action::Remove { to }) = action;
            state.routes.retain(|route| route.to != *to);
            if let Action::Add { to, via } | Action::Replace { to, via } = action {
                state.routes.push(Route { to: *to, via: Some(*via) });
            }
        });
        Ok(())
    }

    async fn rules(&self, _: Family) -> anyhow::Result<String> {
        Ok(self.0.borrow().restored.clone())
    }

    async fn restore(&self, _: Family, input: &str) -> anyhow::Result<()> {
        self.0.send_modify(|state| state.restored = input.to_owned());
        Ok(())
    }
}

fn node(number: u8) -> Node {
    let object = json!({
        "metadata": {"name": format!("node-{number}"), "resourceVersion": "1"},
        "spec": {"podCIDR": format!("10.244.{number}.0/24")},
        "status": {"addresses": [{"type": "InternalIP", "address": format!("192.0.2.{number}")}]},
    });
    serde_json::from_value(object).unwrap()
}

fn route(number: u8) -> Route {
    Route { to: format!("10.244.{number}.0/24").parse().unwrap(), via: format!("192.0.2.{number}").parse().ok() }
}

struct World {
    say: mpsc::UnboundedSender<WatchEvent<Node>>,
    kernel: watch::Sender<State>,
    health: Health,
}

/// node-1 in a cluster of two.
fn world(state: State) -> World {
    let (say, events) = mpsc::unbounded_channel();
    let nodes = Informer::new("nodes", Said { list: vec![node(1), node(2)], events: Mutex::new(Some(events)) });
    let kernel = watch::Sender::new(state);
    let fake = Fake(kernel.clone());
    let follower = Follower::new("node-1".into(), vec!["10.244.0.0/16".parse().unwrap()], nodes.clone(), fake, Duration::from_millis(50));
    let health = Health::new();
    health.add_ready(follower.check());
    tokio::spawn(nodes.run(Shutdown::new()));
    tokio::spawn(follower.follow());
    World { say, kernel, health }
}

impl World {
    /// Waits until the kernel is so.
    async fn becomes(&self, so: impl FnMut(&State) -> bool) -> State {
        let mut kernel = self.kernel.subscribe();
        let state = tokio::time::timeout(Duration::from_secs(20), kernel.wait_for(so)).await;
        state.expect("in time").unwrap().clone()
    }

    async fn becomes_ready(&self) {
        let ready = async {
            while !self.health.answer(Endpoint::Readyz, "").await.0.is_success() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), ready).await.expect("ready in time");
    }
}

#[tokio::test]
async fn makes_the_network_right_and_is_ready_then() {
    let world = world(State::default());
    let state = world.becomes(|state| !state.restored.is_empty()).await;
    assert!(state.forwards);
    assert_eq!(state.routes, [route(2)]);
    assert!(state.restored.contains("-s 10.244.1.0/24 -j MASQUERADE"), "{}", state.restored);
    world.becomes_ready().await;
}

#[tokio::test]
async fn routes_come_and_go_with_nodes() {
    let world = world(State::default());
    world.say.send(WatchEvent::Added(node(3))).unwrap();
    world.becomes(|state| state.routes.len() == 2 && state.routes.contains(&route(3))).await;
    world.say.send(WatchEvent::Deleted(node(2))).unwrap();
    world.becomes(|state| state.routes == [route(3)]).await;
}

#[tokio::test]
async fn what_somebody_deletes_comes_back() {
    let world = world(State::default());
    world.becomes(|state| !state.restored.is_empty()).await;
    world.kernel.send_modify(|state| *state = State::default());
    world.becomes(|state| state.routes == [route(2)] && !state.restored.is_empty()).await;
}

#[tokio::test]
async fn a_route_that_cannot_be_made_keeps_no_other_from_being_made_but_is_not_ready() {
    let world = world(State { foreign: Some(route(2)), ..State::default() });
    world.say.send(WatchEvent::Added(node(3))).unwrap();
    let state = world.becomes(|state| state.routes == [route(3)] && !state.restored.is_empty()).await;
    assert_eq!(state.foreign, Some(route(2)));
    assert!(!world.health.answer(Endpoint::Readyz, "").await.0.is_success());
    world.kernel.send_modify(|state| state.foreign = None);
    world.becomes(|state| state.routes.contains(&route(2))).await;
    world.becomes_ready().await;
}
