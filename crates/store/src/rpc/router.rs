//! All services of the client port, and the work that goes on beside them.

use std::{sync::Arc, time::Duration};

use component::Shutdown;
use etcd::encoded::watch_server::WatchServer;
use etcd::etcdserverpb::{
    auth_server::AuthServer, cluster_server::ClusterServer, kv_server::KvServer, lease_server::LeaseServer,
    maintenance_server::MaintenanceServer,
};
use etcd::{v3electionpb::election_server::ElectionServer, v3lockpb::lock_server::LockServer};
use tokio::{task::JoinSet, time::sleep};
use tonic::service::{Routes, interceptor::InterceptedService};

use super::{
    Calls, Context, Limits,
    cluster::Cluster,
    count, gateway, guard,
    health::{Health, HealthServer},
    layers, learner,
    lease::min_ttl,
    maintenance::Maintenance,
    reflection::{Reflection, ServerReflectionServer},
    rephrase,
};
use crate::{
    auth::Authenticator,
    command::{Command, MemberAttributes},
    config::Config,
    lease::expiry,
    node::Node,
    raft::RaftNode,
    upkeep::{auto_compaction, compactor, corruption, quota, quota::Space},
    url::Url,
};

/// Room for what gRPC puts around a request, as in etcd.
const OVERHEAD: usize = 512 * 1024;
/// Between two looks for this member's vote.
const LOOK: Duration = Duration::from_millis(100);
/// Between two attempts to publish what this member is called.
const PUBLISH_AGAIN: Duration = Duration::from_secs(1);

/// The services, on one router.
pub(crate) fn router(
    raft: &RaftNode,
    config: &Config,
    auth: Authenticator,
    calls: Arc<Calls>,
    stop: &Shutdown,
) -> anyhow::Result<axum::Router> {
    let node: Arc<dyn Node> = Arc::new(raft.clone());
    let limits = Limits {
        txn_ops: config.max_txn_ops,
        request_bytes: config.max_request_bytes,
        min_lease_ttl: min_ttl(Duration::from_millis(config.election_timeout)),
        progress_interval: config.watch_progress_notify_interval,
        slow_apply: config.upkeep.warning_apply_duration,
    };
    raft.state().with_tokens(|tokens, _| tokens.keep_for(auth.token_ttl));
    let (space, metrics) = (Space::new(config.quota()), raft.metrics().clone());
    let context = Context { space, metrics, ..Context::new(node.clone(), limits, Arc::new(auth)) };
    let cluster = Cluster { context: context.clone(), raft: raft.clone() };
    let maintenance = Maintenance::new(context.clone(), raft.clone(), config.quota());
    let largest = config.max_request_bytes.saturating_add(OVERHEAD);
    let required = layers::require_leader(node);
    macro_rules! guarded {
        ($service:expr) => {{
            let service = $service.max_decoding_message_size(largest).max_encoding_message_size(usize::MAX);
            InterceptedService::new(service, required.clone())
        }};
    }
    let mut routes = Routes::builder();
    routes
        .add_service(guarded!(KvServer::new(context.clone())))
        .add_service(guarded!(WatchServer::new(context.clone())))
        .add_service(guarded!(LeaseServer::new(context.clone())))
        .add_service(guarded!(LockServer::new(context.clone())))
        .add_service(guarded!(ElectionServer::new(context.clone())))
        .add_service(guarded!(AuthServer::new(context.clone())))
        .add_service(guarded!(ClusterServer::new(cluster)))
        .add_service(guarded!(MaintenanceServer::new(maintenance)))
        .add_service(HealthServer::new(Health { stop: stop.clone() }))
        .add_service(ServerReflectionServer::new(Reflection::new()?));
    let counted = axum::middleware::from_fn_with_state(calls, count::count);
    let guarded = axum::middleware::from_fn_with_state(context, guard::guard);
    let learning = axum::middleware::from_fn_with_state(raft.clone(), learner::refuse);
    let rephrased = axum::middleware::from_fn(rephrase::rephrase);
    Ok(routes.routes().prepare().into_axum_router().layer(guarded).layer(rephrased).layer(learning).layer(counted))
}

/// The same services as JSON over HTTP.
pub(crate) fn json(services: axum::Router, raft: &RaftNode, config: &Config) -> anyhow::Result<axum::Router> {
    let (raft, certificates) = (raft.clone(), config.tls.clients.cert_auth);
    gateway::router(services, config.max_request_bytes.saturating_add(OVERHEAD), move || certificates && raft.state().policy().enabled())
}

/// Starts what goes on beside requests: leases that end, removal of what compaction gave up, telling the others
/// what this member is called.
pub(crate) fn background(raft: &RaftNode, config: &Config, client_urls: Vec<Url>, stop: &Shutdown) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let (node, upkeep): (Arc<dyn Node>, _) = (Arc::new(raft.clone()), &config.upkeep);
    tasks.spawn(expiry::run(node.clone(), upkeep.enabled("LeaseCheckpoint"), raft.metrics().clone(), stop.clone()));
    tasks.spawn(compact(raft.clone(), upkeep.pace(), stop.clone()));
    tasks.spawn(quota::run(node.clone(), config.quota(), upkeep.quota_auto_disarm, stop.clone()));
    if let Some(policy) = upkeep.compaction() {
        let leads = raft.clone();
        tasks.spawn(auto_compaction::run(node, policy, move || leads.progress().leads, stop.clone()));
    }
    if !upkeep.corrupt_check_time.is_zero() {
        tasks.spawn(corruption::run_periodic(raft.clone(), upkeep.corrupt_check_time, stop.clone()));
    }
    if upkeep.enabled("CompactHashCheck") {
        tasks.spawn(corruption::run_at_compactions(raft.clone(), upkeep.compact_hash_check_time, stop.clone()));
    }
    let attributes = MemberAttributes {
        member: raft.identity().member_id,
        name: config.name.clone(),
        client_urls: client_urls.iter().map(Url::to_string).collect(),
    };
    tasks.spawn(publish(raft.clone(), attributes));
    tasks
}

async fn compact(raft: RaftNode, pace: compactor::Pace, stop: Shutdown) {
    if let Err(error) = compactor::run(raft.state().clone(), pace, raft.metrics().clone(), stop).await {
        // A disk that failed here fails the next write too, and that stops the member.
        tracing::error!(error = &error as &dyn std::error::Error, "remove compacted versions");
    }
}

/// Publishes, until it worked, unless the cluster knows already. A member with a name counts: one that was added waits
/// for its vote first.
async fn publish(raft: RaftNode, attributes: MemberAttributes) {
    while raft.awaits_vote() || raft.leader().is_none() {
        sleep(LOOK).await;
    }
    loop {
        let known = raft.state().read(|read, _| crate::apply::member::list(read)).and_then(|list| list);
        if known.is_ok_and(|members| members.contains(&attributes)) {
            // Only now, as in etcd: scripts wait for these words, and then use the cluster.
            tracing::info!("ready to serve client requests");
            return;
        }
        match raft.propose(Command::MemberAttributes(attributes.clone())).await {
            Ok(_) => tracing::info!(name = attributes.name, "published this member to the cluster"),
            Err(refusal) => {
                tracing::warn!(%refusal, "publish this member to the cluster; will try again");
                sleep(PUBLISH_AGAIN).await;
            }
        }
    }
}
