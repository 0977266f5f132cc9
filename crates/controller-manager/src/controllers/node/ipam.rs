//! Gives every node its own pod range out of `--cluster-cidr`.

use std::sync::Arc;

use client::{
    Key,
    informer::{Change, Informer},
    queue::{self, Outcome},
    retry,
};
use futures::{FutureExt as _, future::BoxFuture};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Resource as _,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use serde_json::json;

use super::cidrs::Cidrs;
use crate::{Options, context::Context};

struct Controller {
    context: Context,
    nodes: Informer<Node>,
    ranges: Mutex<Vec<Cidrs>>,
}

pub(crate) fn run(context: Context) -> BoxFuture<'static, ()> {
    async move {
        if context.options.cluster_cidrs.is_empty() {
            return;
        }
        let ranges = match ranges(&context.options) {
            Ok(ranges) => ranges,
            Err(error) => {
                tracing::error!(%error, "cannot give out pod ranges");
                return;
            }
        };
        let nodes: Informer<Node> = context.informers.of();
        nodes.synced().await;
        let controller = Arc::new(Controller { nodes, ranges: Mutex::new(ranges), context });
        // What nodes have already must be known before anything new is given out.
        controller.nodes.list().iter().for_each(|node| controller.occupy(node));
        let queue = controller.context.queue("cidrallocator-node");
        let (sink, listener) = (queue.clone(), Arc::clone(&controller));
        controller.nodes.on_change(move |change| match change {
            Change::Deleted(node) => listener.release(node),
            _ => sink.add(Key::of(&change.object().metadata)),
        });
        let shutdown = controller.context.shutdown.clone();
        queue::work(queue, 4, shutdown, move |key| Arc::clone(&controller).reconcile(key)).await;
    }
    .boxed()
}

/// The cluster's ranges, with those of services kept free.
fn ranges(options: &Options) -> Result<Vec<Cidrs>, super::cidrs::Error> {
    let cut = options.cluster_cidrs.iter().map(|range| {
        let mask = if range.addr().is_ipv4() { options.node_mask_ipv4 } else { options.node_mask_ipv6 };
        let mut cidrs = Cidrs::new(*range, mask)?;
        for service in &options.service_cidrs {
            cidrs.occupy(service);
        }
        Ok(cidrs)
    });
    cut.collect()
}

fn pod_cidrs(node: &Node) -> Vec<IpNet> {
    let spec = node.spec.clone().unwrap_or_default();
    let several = spec.pod_cidrs.unwrap_or_default();
    let all = if several.is_empty() { spec.pod_cidr.into_iter().collect() } else { several };
    all.iter().filter_map(|cidr| cidr.parse().ok()).collect()
}

impl Controller {
    fn occupy(&self, node: &Node) {
        let mut ranges = self.ranges.lock();
        for net in pod_cidrs(node) {
            let known = ranges.iter_mut().filter_map(|range| range.occupy(&net).then_some(())).count();
            if known == 0 {
                tracing::warn!(node = node.metadata.name, %net, "node has a pod range outside of the cluster's");
            }
        }
    }

    fn release(&self, node: &Node) {
        let mut ranges = self.ranges.lock();
        for net in pod_cidrs(node) {
            ranges.iter_mut().for_each(|range| range.release(&net));
        }
    }

    fn allocate(&self) -> Option<Vec<IpNet>> {
        let mut ranges = self.ranges.lock();
        let taken: Vec<Option<IpNet>> = ranges.iter_mut().map(Cidrs::allocate).collect();
        if taken.iter().all(Option::is_some) {
            return taken.into_iter().collect();
        }
        for (range, net) in ranges.iter_mut().zip(taken) {
            net.iter().for_each(|net| range.release(net));
        }
        None
    }

    async fn reconcile(self: Arc<Self>, key: Key) -> anyhow::Result<Outcome> {
        let Some(node) = self.nodes.get(&key) else { return Ok(Outcome::Done) };
        if !pod_cidrs(&node).is_empty() {
            self.occupy(&node);
            return Ok(Outcome::Done);
        }
        let Some(nets) = self.allocate() else {
            let message = format!("Node {key} status is now: CIDRNotAvailable");
            self.context.recorder.normal(&node.object_ref(&()), "CIDRNotAvailable", message);
            anyhow::bail!("no pod range is left for node {key}");
        };
        let nodes: Api<Node> = Api::all(self.context.client.clone());
        let cidrs: Vec<String> = nets.iter().map(IpNet::to_string).collect();
        // A node that got other ranges meanwhile keeps them: the API server lets nobody change them. Its version is no matter; a
        // node that starts is written often.
        let patch = Patch::Strategic(json!({"spec": {"podCIDR": cidrs[0], "podCIDRs": cidrs}}));
        let written = nodes.patch(&key.name, &PatchParams::default(), &patch).await;
        if let Err(kube::Error::Api(_)) = &written {
            // Refused for certain; after any other failure the range may be in use.
            let mut ranges = self.ranges.lock();
            for (range, net) in ranges.iter_mut().zip(&nets) {
                range.release(net);
            }
        }
        Ok(retry::optional(written).map(|_| Outcome::Done)?)
    }
}
