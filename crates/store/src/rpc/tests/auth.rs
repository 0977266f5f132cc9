//! Users through the wire: who gets in, and how far.

use super::local::{Served, serve};
use crate::rpc::Limits;
use bytes::Bytes;
use etcd::{
    authpb::{Permission, UserAddOptions, permission::Type},
    etcdserverpb::{
        AuthDisableRequest, AuthEnableRequest, AuthRoleAddRequest, AuthRoleGetRequest, AuthRoleGrantPermissionRequest, AuthRoleListRequest,
        AuthStatusRequest, AuthUserAddRequest, AuthUserChangePasswordRequest, AuthUserDeleteRequest, AuthUserGetRequest,
        AuthUserGrantRoleRequest, AuthUserListRequest, AuthenticateRequest, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseLeasesRequest,
        LeaseRevokeRequest, LeaseTimeToLiveRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, WatchCreateRequest, WatchRequest,
        WatchResponse, auth_client::AuthClient, kv_client::KvClient, lease_client::LeaseClient, request_op, watch_client::WatchClient,
        watch_request::RequestUnion,
    },
    v3electionpb::{CampaignRequest, LeaderRequest, election_client::ElectionClient},
    v3lockpb::{LockRequest, UnlockRequest, lock_client::LockClient},
};
use std::{sync::atomic::Ordering::Relaxed, time::Duration};
use tonic::{
    Code, Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

const LONG: Duration = Duration::from_secs(20);

/// Sends a token along.
#[derive(Clone)]
struct With(Option<MetadataValue<Ascii>>);

impl Interceptor for With {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("token", token.clone());
        }
        Ok(request)
    }
}

type As = InterceptedService<Channel, With>;

/// A connection that sends a token along.
#[derive(Clone)]
struct Session(As);

impl Session {
    async fn open(served: &Served, token: Option<&str>) -> Self {
        let channel = Channel::from_shared(served.url.clone()).unwrap().connect().await.unwrap();
        Session(InterceptedService::new(channel, With(token.map(|token| token.parse().unwrap()))))
    }

    async fn login(served: &Served, name: &str) -> Self {
        let token = token(served, name, name).await.unwrap();
        Self::open(served, Some(&token)).await
    }

    fn auth(&self) -> AuthClient<As> {
        AuthClient::new(self.0.clone())
    }

    fn kv(&self) -> KvClient<As> {
        KvClient::new(self.0.clone())
    }

    fn leases(&self) -> LeaseClient<As> {
        LeaseClient::new(self.0.clone())
    }

    async fn put(&self, key: &'static str, lease: i64) -> Result<(), Status> {
        self.kv().put(PutRequest { key: key.into(), lease, ..Default::default() }).await.map(drop)
    }

    async fn get(&self, key: &'static str, range_end: &'static str) -> Result<i64, Status> {
        let request = RangeRequest { key: key.into(), range_end: range_end.into(), ..Default::default() };
        Ok(self.kv().range(request).await?.into_inner().count)
    }

    /// All pieces of a range.
    async fn stream(&self, key: &'static str, range_end: &'static str) -> Result<usize, Status> {
        let request = RangeRequest { key: key.into(), range_end: range_end.into(), ..Default::default() };
        let mut pieces = self.kv().range_stream(request).await?.into_inner();
        let mut keys = 0;
        while let Some(piece) = pieces.message().await? {
            keys += piece.range_response.unwrap_or_default().kvs.len();
        }
        Ok(keys)
    }

    async fn add_user(&self, name: &str, role: &str) {
        let request = AuthUserAddRequest { name: name.into(), password: name.into(), ..Default::default() };
        self.auth().user_add(request).await.unwrap();
        self.auth().user_grant_role(AuthUserGrantRoleRequest { user: name.into(), role: role.into() }).await.unwrap();
    }

    async fn permit(&self, role: &str, key: &'static str, range_end: &'static str) {
        let perm = Some(Permission { perm_type: Type::Readwrite as i32, key: key.into(), range_end: range_end.into() });
        self.auth().role_grant_permission(AuthRoleGrantPermissionRequest { name: role.into(), perm }).await.unwrap();
    }
}

async fn token(served: &Served, name: &str, password: &str) -> Result<String, Status> {
    let request = AuthenticateRequest { name: name.into(), password: password.into() };
    Ok(Session::open(served, None).await.auth().authenticate(request).await?.into_inner().token)
}

/// A member with `root`, and `alice`, who may do what she likes with the keys from `a` on, before `b`.
async fn guarded() -> Served {
    let served = serve(Limits::default()).await;
    let session = Session::open(&served, None).await;
    session.add_user("root", "root").await;
    session.auth().role_add(AuthRoleAddRequest { name: "r".into() }).await.unwrap();
    session.permit("r", "a", "b").await;
    session.add_user("alice", "r").await;
    session.auth().auth_enable(AuthEnableRequest {}).await.unwrap();
    served
}

fn refused<T>(result: Result<T, Status>) -> (Code, String) {
    let status = result.err().unwrap();
    (status.code(), status.message().to_owned())
}

fn denied() -> (Code, String) {
    (Code::PermissionDenied, "etcdserver: permission denied".into())
}

fn nobody() -> (Code, String) {
    (Code::InvalidArgument, "etcdserver: user name is empty".into())
}

#[tokio::test]
async fn a_user_reaches_their_keys_by_their_password_and_no_others() {
    let served = guarded().await;
    let alice = Session::login(&served, "alice").await;
    alice.put("a/1", 0).await.unwrap();
    assert_eq!(alice.get("a", "b").await.unwrap(), 1);
    assert_eq!(refused(alice.put("b", 0).await), denied());
    assert_eq!(refused(alice.get("a", "c").await), denied());
    assert_eq!(alice.stream("a", "b").await.unwrap(), 1);
    assert_eq!(refused(alice.stream("a", "c").await), denied());
    let stranger = Session::open(&served, None).await;
    assert_eq!(refused(stranger.put("a/1", 0).await), nobody());
    assert_eq!(refused(stranger.get("a/1", "").await), nobody());
    assert_eq!(refused(stranger.stream("a/1", "").await), nobody());
    let root = Session::login(&served, "root").await;
    assert_eq!(root.get("\0", "\0").await.unwrap(), 1);
}

#[tokio::test]
async fn proofs_that_fail_are_told_as_etcd_does() {
    let served = guarded().await;
    let failed = (Code::InvalidArgument, "etcdserver: authentication failed, invalid user ID or password".to_owned());
    assert_eq!(refused(token(&served, "alice", "wrong").await), failed);
    assert_eq!(refused(token(&served, "eve", "alice").await), failed);
    let root = Session::login(&served, "root").await;
    let options = Some(UserAddOptions { no_password: true });
    root.auth().user_add(AuthUserAddRequest { name: "cn".into(), options, ..Default::default() }).await.unwrap();
    let no_password = "auth: authentication failed, password was given for no password user".to_owned();
    assert_eq!(refused(token(&served, "cn", "").await), (Code::Unknown, no_password));
    let invalid = (Code::Unauthenticated, "etcdserver: invalid auth token".to_owned());
    for made_up in ["word.1", "rubbish", "a.b.c"] {
        assert_eq!(refused(Session::open(&served, Some(made_up)).await.get("a", "").await), invalid);
    }
    let long = AuthUserAddRequest { name: "bob".into(), password: "x".repeat(73), ..Default::default() };
    assert_eq!(refused(root.auth().user_add(long).await), (Code::Unknown, "bcrypt: password length exceeds 72 bytes".into()));
    root.auth().auth_disable(AuthDisableRequest {}).await.unwrap();
    let off = (Code::FailedPrecondition, "etcdserver: authentication is not enabled".to_owned());
    assert_eq!(refused(token(&served, "alice", "alice").await), off);
    Session::open(&served, None).await.put("anything", 0).await.unwrap();
}

#[tokio::test]
async fn a_token_ends_when_unused_for_long_and_with_the_password() {
    let served = guarded().await;
    let (alice, root) = (Session::login(&served, "alice").await, Session::login(&served, "root").await);
    served.clock.store(299_000, Relaxed);
    alice.get("a", "").await.unwrap();
    served.clock.store(598_000, Relaxed);
    alice.get("a", "").await.unwrap();
    let invalid = (Code::Unauthenticated, "etcdserver: invalid auth token".to_owned());
    assert_eq!(refused(root.get("a", "").await), invalid, "nobody used it");
    let root = Session::login(&served, "root").await;
    let change = AuthUserChangePasswordRequest { name: "alice".into(), password: "other".into(), ..Default::default() };
    root.auth().user_change_password(change).await.unwrap();
    assert_eq!(refused(alice.get("a", "").await), invalid);
    let again = Session::open(&served, Some(&token(&served, "alice", "other").await.unwrap())).await;
    again.get("a", "").await.unwrap();
    root.auth().user_delete(AuthUserDeleteRequest { name: "alice".into() }).await.unwrap();
    assert_eq!(refused(again.get("a", "").await), invalid);
}

#[tokio::test]
async fn rights_that_change_count_at_once() {
    let served = guarded().await;
    let (alice, root) = (Session::login(&served, "alice").await, Session::login(&served, "root").await);
    assert_eq!(refused(alice.put("b", 0).await), denied());
    root.permit("r", "b", "").await;
    alice.put("b", 0).await.unwrap();
    let status = root.auth().auth_status(AuthStatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.enabled, status.auth_revision), (true, 8));
}

#[tokio::test]
async fn everybody_may_know_what_they_are_and_only_root_the_rest() {
    let served = guarded().await;
    let (alice, stranger) = (Session::login(&served, "alice").await, Session::open(&served, None).await);
    let user = |name: &str| AuthUserGetRequest { name: name.into() };
    let role = |role: &str| AuthRoleGetRequest { role: role.into() };
    assert_eq!(alice.auth().user_get(user("alice")).await.unwrap().into_inner().roles, ["r"]);
    let perm = alice.auth().role_get(role("r")).await.unwrap().into_inner().perm;
    assert_eq!(perm, [Permission { perm_type: Type::Readwrite as i32, key: "a".into(), range_end: "b".into() }]);
    assert_eq!(refused(alice.auth().user_get(user("root")).await), denied());
    assert_eq!(refused(alice.auth().role_get(role("root")).await), denied());
    assert_eq!(refused(alice.auth().user_list(AuthUserListRequest {}).await), denied());
    assert_eq!(refused(alice.auth().role_add(AuthRoleAddRequest { name: "s".into() }).await), denied());
    let eve = AuthUserAddRequest { name: "eve".into(), ..Default::default() };
    assert_eq!(refused(alice.auth().user_add(eve).await), denied());
    assert_eq!(refused(stranger.auth().user_get(user("alice")).await), nobody());
    assert!(stranger.auth().auth_status(AuthStatusRequest {}).await.unwrap().into_inner().enabled);
    let root = Session::login(&served, "root").await;
    assert_eq!(root.auth().user_list(AuthUserListRequest {}).await.unwrap().into_inner().users, ["alice", "root"]);
    assert_eq!(root.auth().role_list(AuthRoleListRequest {}).await.unwrap().into_inner().roles, ["r"]);
    let missing = (Code::FailedPrecondition, "etcdserver: role name not found".to_owned());
    assert_eq!(refused(root.auth().role_get(role("root")).await), missing, "it need not be there");
    root.auth().role_add(AuthRoleAddRequest { name: "root".into() }).await.unwrap();
    let perm = root.auth().role_get(role("root")).await.unwrap().into_inner().perm;
    assert_eq!(perm, [Permission { perm_type: Type::Readwrite as i32, key: Bytes::new(), range_end: "\0".into() }]);
}

#[tokio::test]
async fn a_transaction_that_only_reads_is_looked_through_too() {
    let served = guarded().await;
    let alice = Session::login(&served, "alice").await;
    let read = |key: &'static str| RequestOp {
        request: Some(request_op::Request::RequestRange(RangeRequest { key: key.into(), ..Default::default() })),
    };
    let nested = |op| RequestOp { request: Some(request_op::Request::RequestTxn(TxnRequest { success: vec![op], ..Default::default() })) };
    let txn = |op| TxnRequest { success: vec![op], ..Default::default() };
    alice.kv().txn(txn(nested(read("a/1")))).await.unwrap();
    assert_eq!(refused(alice.kv().txn(txn(read("b"))).await), denied());
    assert_eq!(refused(alice.kv().txn(txn(nested(read("b")))).await), denied());
}

/// The first answer to a watch.
async fn watch(session: &Session, key: &'static str, range_end: &'static str) -> WatchResponse {
    let create = WatchCreateRequest { key: key.into(), range_end: range_end.into(), ..Default::default() };
    let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    let requests = tokio_stream::iter([request]);
    let mut answers = WatchClient::new(session.0.clone()).watch(requests).await.unwrap().into_inner();
    tokio::time::timeout(LONG, answers.message()).await.unwrap().unwrap().unwrap()
}

#[tokio::test]
async fn a_watch_is_cancelled_where_it_would_tell_too_much() {
    let served = guarded().await;
    let (alice, stranger) = (Session::login(&served, "alice").await, Session::open(&served, None).await);
    let allowed = watch(&alice, "a", "b").await;
    assert!(allowed.created && !allowed.canceled);
    let told = |response: WatchResponse| (response.watch_id, response.created, response.canceled, response.cancel_reason);
    let denied = (-1, true, true, "rpc error: code = PermissionDenied desc = etcdserver: permission denied".to_owned());
    assert_eq!(told(watch(&alice, "b", "").await), denied);
    // CVE-2026-73499 of etcd: a permission for one key let in a watch from that key on.
    assert_eq!(told(watch(&alice, "a", "\0").await), denied);
    let nobody = "rpc error: code = InvalidArgument desc = etcdserver: user name is empty";
    assert_eq!(watch(&stranger, "a", "").await.cancel_reason, nobody);
    let invalid = "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token";
    assert_eq!(watch(&Session::open(&served, Some("word.1")).await, "a", "").await.cancel_reason, invalid);
}

#[tokio::test]
async fn leases_are_kept_and_looked_at_by_those_who_may_touch_their_keys() {
    let served = guarded().await;
    let (alice, root, stranger) =
        (Session::login(&served, "alice").await, Session::login(&served, "root").await, Session::open(&served, None).await);
    let grant = LeaseGrantRequest { ttl: 60, id: 5 };
    assert_eq!(refused(stranger.leases().lease_grant(grant).await), nobody());
    alice.leases().lease_grant(grant).await.unwrap();
    alice.put("a/1", 5).await.unwrap();
    let keys = |keys| LeaseTimeToLiveRequest { id: 5, keys };
    let keep = async |session: &Session| {
        let requests = tokio_stream::iter([LeaseKeepAliveRequest { id: 5 }]);
        let mut answers = session.leases().lease_keep_alive(requests).await?.into_inner();
        Ok::<_, Status>(answers.message().await?.unwrap().ttl)
    };
    assert_eq!(keep(&alice).await.unwrap(), 60);
    assert_eq!(alice.leases().lease_time_to_live(keys(true)).await.unwrap().into_inner().keys, ["a/1"]);
    assert_eq!(alice.leases().lease_leases(LeaseLeasesRequest {}).await.unwrap().into_inner().leases.len(), 1);
    root.put("b", 5).await.unwrap();
    assert_eq!(refused(keep(&alice).await), denied());
    assert_eq!(refused(keep(&stranger).await), nobody());
    assert_eq!(refused(alice.leases().lease_time_to_live(keys(true)).await), denied());
    alice.leases().lease_time_to_live(keys(false)).await.unwrap();
    assert_eq!(refused(alice.leases().lease_leases(LeaseLeasesRequest {}).await), denied());
    assert_eq!(refused(stranger.leases().lease_leases(LeaseLeasesRequest {}).await), nobody());
    assert_eq!(refused(alice.leases().lease_revoke(LeaseRevokeRequest { id: 5 }).await), denied());
    assert_eq!(refused(stranger.leases().lease_revoke(LeaseRevokeRequest { id: 5 }).await), nobody());
    root.leases().lease_revoke(LeaseRevokeRequest { id: 5 }).await.unwrap();
}

#[tokio::test]
async fn locks_and_elections_are_keys_like_others() {
    let served = guarded().await;
    let (alice, stranger) = (Session::login(&served, "alice").await, Session::open(&served, None).await);
    let lock = |name: &'static str| LockRequest { name: name.into(), lease: 0 };
    let key = LockClient::new(alice.0.clone()).lock(lock("a/lock")).await.unwrap().into_inner().key;
    assert_eq!(refused(LockClient::new(alice.0.clone()).lock(lock("b")).await), denied());
    assert_eq!(refused(LockClient::new(stranger.0.clone()).lock(lock("a/lock")).await), nobody());
    assert_eq!(refused(LockClient::new(stranger.0.clone()).unlock(UnlockRequest { key: key.clone() }).await), nobody());
    LockClient::new(alice.0.clone()).unlock(UnlockRequest { key }).await.unwrap();
    let campaign = |name: &'static str| CampaignRequest { name: name.into(), lease: 0, value: "v".into() };
    ElectionClient::new(alice.0.clone()).campaign(campaign("a/vote")).await.unwrap();
    assert_eq!(refused(ElectionClient::new(alice.0.clone()).campaign(campaign("b")).await), denied());
    let leader = |name: &'static str| LeaderRequest { name: name.into() };
    assert_eq!(refused(ElectionClient::new(alice.0.clone()).leader(leader("b")).await), denied());
    ElectionClient::new(alice.0.clone()).leader(leader("a/vote")).await.unwrap();
}
