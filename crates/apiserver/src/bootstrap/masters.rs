//! Which API servers live: each keeps a key below `masterleases`, which the store drops when it is not renewed.
//!
//! No API shows these keys, so they are read and written in the store itself; they are kube-apiserver's own, so that both can
//! stand in one cluster.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::Object;
use apimachinery::gvk::GroupResource;
use apimachinery::status::Status;
use futures::FutureExt as _;
use serde_json::{Value, json};

use crate::storage::{Backend, Collection, Entry, Error, Key, ListOptions, Preconditions, Scope, Storage, Update, UpdateOptions, Verb};

/// A server that has not renewed its key for so long is gone. Upstream: `DefaultEndpointReconcilerTTL`.
const TTL: Duration = Duration::from_secs(15);

/// The keys of all servers, and which is ours.
pub(crate) struct Masters {
    storage: Arc<dyn Storage>,
    own: IpAddr,
}

impl Masters {
    /// Those in a store whose keys begin with `prefix`; `own` is the address this server advertises.
    pub(crate) fn new(backend: &dyn Backend, prefix: &str, own: IpAddr) -> Self {
        Self { storage: backend.open(Collection::new(resource(), format!("{prefix}/masterleases"))), own }
    }

    /// The address this server advertises.
    pub(super) fn own(&self) -> IpAddr {
        self.own
    }

    fn key(&self) -> Key {
        Key::cluster(self.own.to_string())
    }

    /// Says that this server lives.
    pub(super) async fn renew(&self) -> Result<(), Status> {
        let own = self.own;
        let mut updater = move |found: Option<Entry>| {
            // As upstream does, whose writes of an unchanged object would renew nothing.
            let before = found.and_then(|entry| entry.object().pointer("/metadata/generation")?.as_i64()).unwrap_or(0);
            let renewed = Update::Put { object: lease(own, before + 1), ttl: Some(TTL) };
            std::future::ready(Ok::<_, Status>(renewed)).boxed()
        };
        let options = UpdateOptions { ignore_not_found: true, ..UpdateOptions::default() };
        self.storage.update(&self.key(), options, &mut updater).await.map(drop).map_err(|error| failed(error, Verb::Update))
    }

    /// Says that this server is no more.
    pub(super) async fn remove(&self) -> Result<(), Status> {
        match self.storage.delete(&self.key(), &Preconditions::default(), &mut |_| std::future::ready(Ok::<_, Status>(())).boxed()).await {
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(error, Verb::Delete)),
        }
    }

    /// The addresses of all servers that live, as far as they are of this one's family: one slice holds no others.
    pub(super) async fn live(&self) -> Result<BTreeSet<IpAddr>, Status> {
        let list = self.storage.list(&Scope::all(), ListOptions::default()).await.map_err(|error| failed(error, Verb::List))?;
        let addresses = list.items.iter().filter_map(|entry| address(&entry.object()));
        Ok(addresses.filter(|address| address.is_ipv4() == self.own.is_ipv4()).collect())
    }
}

fn resource() -> GroupResource {
    GroupResource::new("", "endpoints")
}

fn failed(error: Error, verb: Verb) -> Status {
    error.into_status(verb, &resource(), "kubernetes")
}

fn lease(own: IpAddr, generation: i64) -> Object {
    let lease = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"generation": generation},
        "subsets": [{"addresses": [{"ip": own}]}],
    });
    Object::from_value(lease).unwrap_or_default()
}

fn address(lease: &Object) -> Option<IpAddr> {
    lease.pointer("/subsets/0/addresses/0/ip").and_then(Value::as_str)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::memory::Memory;

    #[tokio::test]
    async fn servers_that_renew_are_live_until_they_say_otherwise() {
        let memory = Memory::new();
        let server = |own: &str| Masters::new(&memory, "/registry", own.parse().unwrap());
        let (first, second, other) = (server("10.0.0.2"), server("10.0.0.1"), server("fd00::1"));
        for masters in [&first, &second, &other, &first] {
            masters.renew().await.unwrap();
        }
        let live = |found: BTreeSet<IpAddr>| found.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(live(first.live().await.unwrap()), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(live(other.live().await.unwrap()), ["fd00::1"]);
        for _ in 0..2 {
            second.remove().await.unwrap();
        }
        assert_eq!(live(first.live().await.unwrap()), ["10.0.0.2"]);
    }

    #[tokio::test]
    async fn a_lease_is_kept_as_upstream_keeps_it() {
        let memory = Memory::new();
        let masters = Masters::new(&memory, "/registry", "10.0.0.2".parse().unwrap());
        for _ in 0..2 {
            masters.renew().await.unwrap();
        }
        let all = masters.storage.list(&Scope::all(), ListOptions::default()).await.unwrap();
        let object = all.items[0].object();
        assert_eq!((all.items[0].key().to_string(), object.pointer("/metadata/generation")), ("10.0.0.2".into(), Some(&json!(2))));
        assert_eq!(object.0["subsets"], json!([{"addresses": [{"ip": "10.0.0.2"}]}]));
    }
}
