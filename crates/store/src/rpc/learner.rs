//! A learner answers little: it may be far behind, and clients are to use the others.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tonic::Status;

use crate::{raft::RaftNode, refusal::Refusal};

/// What a learner answers; of ranges only serializable ones, which `kv` looks at.
const ANSWERED: [&str; 3] = ["/etcdserverpb.KV/Range", "/etcdserverpb.Maintenance/Status", "/etcdserverpb.Maintenance/Snapshot"];

/// Refuses everything else while this member is a learner.
pub(super) async fn refuse(State(raft): State<RaftNode>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let ours = ["/etcdserverpb.", "/v3lockpb.", "/v3electionpb."].iter().any(|package| path.starts_with(package));
    if raft.learns() && ours && !ANSWERED.contains(&path) {
        return Status::from(Refusal::NotSupportedForLearner).into_http::<axum::body::Body>().into_response();
    }
    next.run(request).await
}
