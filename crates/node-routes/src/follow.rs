//! The loop: reads nodes and kernel, plans, acts; at every change of a node and every `resync` besides.

use std::{sync::Arc, time::Duration};

use client::informer::{Change, Informer};
use component::{backoff::Backoff, health::Check};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use crate::{
    firewall,
    kernel::{Family, Kernel},
    peer::Peer,
    plan,
};

/// First pause after a failure; the longest is `resync`.
const RETRY: Duration = Duration::from_secs(1);

/// Keeps the kernel in step with the nodes.
pub(crate) struct Follower<K> {
    node: String,
    cluster: Vec<IpNet>,
    nodes: Informer<Node>,
    kernel: K,
    resync: Duration,
    /// When the kernel last was as it should be.
    right: Arc<Mutex<Option<Instant>>>,
}

impl<K: Kernel> Follower<K> {
    pub(crate) fn new(node: String, cluster: Vec<IpNet>, nodes: Informer<Node>, kernel: K, resync: Duration) -> Self {
        Self { node, cluster, nodes, kernel, resync, right: Arc::default() }
    }

    /// Passes while the kernel was made right not longer than two rounds ago.
    pub(crate) fn check(&self) -> Check {
        let (right, most) = (Arc::clone(&self.right), self.resync * 2);
        Check::new("routes", move || {
            let at = *right.lock();
            let outcome = match at {
                Some(at) if at.elapsed() <= most => Ok(()),
                Some(at) => Err(format!("routes were last right {} s ago", at.elapsed().as_secs())),
                None => Err("routes are not made yet".to_owned()),
            };
            Box::pin(async { outcome })
        })
    }

    /// Runs for ever.
    pub(crate) async fn follow(self) {
        let changed = Arc::new(Notify::new());
        let told = Arc::clone(&changed);
        self.nodes.on_change(move |change| {
            // Nodes report their conditions often, and their place hardly ever.
            let moved = !matches!(&change, Change::Updated { old, new } if Peer::from(&***old) == Peer::from(&***new));
            if moved {
                told.notify_one();
            }
        });
        // Before all nodes are known, their routes would look like those of nodes that are gone.
        self.nodes.synced().await;
        let mut backoff = Backoff::new(RETRY, self.resync);
        let mut refused = Vec::new();
        loop {
            let failures = self.round(&mut refused).await;
            for error in &failures {
                tracing::warn!(error = format!("{error:#}"), "cannot make the node's network right");
            }
            let pause = async {
                if failures.is_empty() {
                    *self.right.lock() = Some(Instant::now());
                    backoff.reset();
                    tokio::time::sleep(self.resync).await;
                } else {
                    backoff.wait().await;
                }
            };
            tokio::select! { () = pause => {}, () = changed.notified() => {} }
        }
    }

    /// Makes right whatever is not, and goes on past failures, which it returns. `refused` is what the last round refused.
    async fn round(&self, refused: &mut Vec<String>) -> Vec<anyhow::Error> {
        let peers: Vec<_> = self.nodes.list().iter().map(|node| Peer::from(&**node)).collect();
        let wanted = plan::wanted(&peers, &self.node, &self.cluster);
        for refusal in wanted.refused.iter().filter(|refusal| !refused.contains(refusal)) {
            tracing::warn!("no route to {refusal}");
        }
        *refused = wanted.refused.clone();
        let own = peers.iter().find(|peer| peer.name == self.node).map(|peer| peer.pods.as_slice()).unwrap_or_default();
        let mut failures = Vec::new();
        for family in Family::ALL.into_iter().filter(|family| self.cluster.iter().any(|range| family.has(range))) {
            failures.extend(self.kernel.forward(family).await.err());
            failures.extend(self.routes(family, &wanted).await);
            failures.extend(self.rules(family, own).await.err());
        }
        failures
    }

    async fn routes(&self, family: Family, wanted: &plan::Wanted) -> Vec<anyhow::Error> {
        let present = match self.kernel.routes(family).await {
            Ok(present) => present,
            Err(error) => return vec![error],
        };
        let wanted = wanted.routes.iter().filter(|(range, _)| family.has(range)).map(|(range, via)| (*range, *via)).collect();
        let mut failures = Vec::new();
        for action in plan::plan(&wanted, &present) {
            match self.kernel.act(&action).await {
                Ok(()) => tracing::info!("{action}"),
                Err(error) => failures.push(error),
            }
        }
        failures
    }

    async fn rules(&self, family: Family, own: &[IpNet]) -> anyhow::Result<()> {
        let saved = self.kernel.rules(family).await?;
        if let Some(input) = firewall::repair(&saved, family, &self.cluster, own) {
            self.kernel.restore(family, &input).await?;
            tracing::info!(?family, "made rules for forwarding and masquerading");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
