//! What only some may call at all, whatever keys it is about.

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tonic::Status;

use super::{Context, identity::Credentials};

/// Who may call a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// Anybody who proved a name.
    Named,
    /// Those who may do everything.
    Root,
}

/// Methods that are about more than keys; the others look at the keys. Some were open to anybody before etcd 3.6.9, which
/// was its CVE-2026-33413.
const METHODS: [(&str, Who); 17] = [
    ("/etcdserverpb.KV/Compact", Who::Root),
    ("/etcdserverpb.Lease/LeaseGrant", Who::Named),
    ("/etcdserverpb.Lease/LeaseRevoke", Who::Named),
    ("/etcdserverpb.Lease/LeaseTimeToLive", Who::Named),
    ("/etcdserverpb.Cluster/MemberAdd", Who::Root),
    ("/etcdserverpb.Cluster/MemberRemove", Who::Root),
    ("/etcdserverpb.Cluster/MemberUpdate", Who::Root),
    ("/etcdserverpb.Cluster/MemberPromote", Who::Root),
    ("/etcdserverpb.Cluster/MemberList", Who::Named),
    ("/etcdserverpb.Maintenance/Alarm", Who::Root),
    ("/etcdserverpb.Maintenance/Status", Who::Root),
    ("/etcdserverpb.Maintenance/Defragment", Who::Root),
    ("/etcdserverpb.Maintenance/Hash", Who::Root),
    ("/etcdserverpb.Maintenance/HashKV", Who::Root),
    ("/etcdserverpb.Maintenance/Snapshot", Who::Root),
    ("/etcdserverpb.Maintenance/MoveLeader", Who::Root),
    ("/etcdserverpb.Maintenance/Downgrade", Who::Root),
];

/// Refuses calls of those who may not make them.
pub(super) async fn guard(State(context): State<Context>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let Some((_, who)) = METHODS.iter().find(|(method, _)| *method == path) else { return next.run(request).await };
    let credentials = Credentials::new(request.headers(), request.extensions());
    let allowed = context.asked(&credentials).await.and_then(|asked| match who {
        Who::Named => asked.named(),
        Who::Root => asked.root(),
    });
    match allowed {
        Ok(()) => next.run(request).await,
        Err(refusal) => Status::from(refusal).into_http::<Body>().into_response(),
    }
}
