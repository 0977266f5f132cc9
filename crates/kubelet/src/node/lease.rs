//! The node's Lease in `kube-node-lease`: the heartbeat that node lifecycle watches.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::Node as NodeObject,
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
};
use kube::{Api, Client, api::PostParams};

use super::Node;

const NAMESPACE: &str = "kube-node-lease";
/// Tries in a row before a renewal waits for its next turn (upstream's `maxUpdateRetries`).
const TRIES: u32 = 5;

/// Renews the lease four times per duration, for ever.
pub(crate) async fn renew(node: &Node) {
    let duration = Duration::from_secs(node.settings.lease_seconds.max(1).unsigned_abs().into());
    let mut ticks = tokio::time::interval(duration / 4);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let api: Api<Lease> = Api::namespaced(node.client.clone(), NAMESPACE);
    let mut held: Option<Lease> = None;
    loop {
        ticks.tick().await;
        for _ in 0..TRIES {
            match tokio::time::timeout(duration / 4, once(node, &api, held.take())).await {
                Ok(Ok(lease)) => {
                    held = Some(lease);
                    break;
                }
                Ok(Err(error)) => tracing::warn!(node = node.name, error = crate::text::api_error(&error), "renew node lease"),
                Err(_) => tracing::warn!(node = node.name, "renewing the node lease took too long"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Writes the lease once: over the one held, else over the one there is, else a new one.
async fn once(node: &Node, api: &Api<Lease>, held: Option<Lease>) -> kube::Result<Lease> {
    let current = match held {
        Some(held) => Some(held),
        None => api.get_opt(&node.name).await?,
    };
    let owner = match current.as_ref().is_some_and(|l| l.metadata.owner_references.is_some()) {
        true => None,
        false => owner(&node.client, &node.name).await,
    };
    let lease = renewed(&node.name, current.clone(), owner, node.settings.lease_seconds, node.now());
    match current {
        Some(_) => api.replace(&node.name, &PostParams::default(), &lease).await,
        None => api.create(&PostParams::default(), &lease).await,
    }
}

/// The node object owns the lease, so that it goes with it.
async fn owner(client: &Client, name: &str) -> Option<OwnerReference> {
    let node = Api::<NodeObject>::all(client.clone()).get_opt(name).await.ok().flatten()?;
    Some(OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: name.to_owned(),
        uid: node.metadata.uid?,
        ..Default::default()
    })
}

fn renewed(name: &str, current: Option<Lease>, owner: Option<OwnerReference>, seconds: i32, now: Timestamp) -> Lease {
    let mut lease = current.unwrap_or_else(|| Lease {
        metadata: ObjectMeta { name: Some(name.into()), namespace: Some(NAMESPACE.into()), ..Default::default() },
        spec: None,
    });
    if let Some(owner) = owner {
        lease.metadata.owner_references = Some(vec![owner]);
    }
    let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
    spec.holder_identity = Some(name.to_owned());
    spec.lease_duration_seconds = Some(seconds);
    spec.renew_time = Some(MicroTime(now));
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewing_keeps_what_the_server_knows() {
        let owner = OwnerReference { name: "node-1".into(), ..Default::default() };
        let mut first = renewed("node-1", None, Some(owner), 40, Timestamp::UNIX_EPOCH);
        first.metadata.resource_version = Some("7".into());
        let second = renewed("node-1", Some(first), None, 40, Timestamp::from_second(10).unwrap());
        assert_eq!(second.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(second.metadata.owner_references.as_ref().map(Vec::len), Some(1));
        let spec = second.spec.unwrap();
        assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some("node-1"), Some(40)));
        assert_eq!(spec.renew_time.unwrap().0.as_second(), 10);
    }
}
