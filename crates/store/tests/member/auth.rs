//! Users on clusters: every member knows them, and what only root may do is root's on every method.

use etcd::{
    authpb::{Permission, UserAddOptions, permission::Type},
    etcdserverpb::{
        AlarmRequest, AuthEnableRequest, AuthRoleAddRequest, AuthRoleGrantPermissionRequest, AuthUserAddRequest, AuthUserGrantRoleRequest,
        AuthenticateRequest, CompactionRequest, DefragmentRequest, DowngradeRequest, HashKvRequest, HashRequest, LeaseGrantRequest,
        LeaseTimeToLiveRequest, MemberAddRequest, MemberListRequest, MemberPromoteRequest, MemberRemoveRequest, MemberUpdateRequest,
        MoveLeaderRequest, PutRequest, RangeRequest, SnapshotRequest, StatusRequest, auth_client::AuthClient,
        cluster_client::ClusterClient, kv_client::KvClient, lease_client::LeaseClient, maintenance_client::MaintenanceClient,
    },
};
use tonic::{
    Code, Request, Status,
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

use crate::{
    support::{Cluster, Member, eventually},
    tls,
};

/// Sends a token along.
#[derive(Clone)]
pub struct With(Option<String>);

impl Interceptor for With {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("token", token.parse().unwrap());
        }
        Ok(request)
    }
}

pub type As = InterceptedService<Channel, With>;

pub fn with(member: &Member, token: Option<String>) -> As {
    InterceptedService::new(member.channel(), With(token))
}

pub async fn login(member: &Member, name: &str) -> Result<String, Status> {
    let request = AuthenticateRequest { name: name.into(), password: name.into() };
    Ok(AuthClient::new(member.channel()).authenticate(request).await?.into_inner().token)
}

pub async fn put(session: &As, key: &'static str) -> Result<(), Status> {
    KvClient::new(session.clone()).put(PutRequest { key: key.into(), ..Default::default() }).await.map(drop)
}

pub async fn get(session: &As, key: &'static str, serializable: bool) -> Result<i64, Status> {
    let request = RangeRequest { key: key.into(), serializable, ..Default::default() };
    Ok(KvClient::new(session.clone()).range(request).await?.into_inner().count)
}

/// Adds `root`, and `alice`, who may do what she likes with the keys from `a` on, before `b`; has requests checked.
pub async fn guard(channel: Channel) {
    let mut auth = AuthClient::new(channel);
    let role = |user: &str, role: &str| AuthUserGrantRoleRequest { user: user.into(), role: role.into() };
    for name in ["root", "alice"] {
        let user = AuthUserAddRequest { name: name.into(), password: name.into(), ..Default::default() };
        auth.user_add(user).await.unwrap();
    }
    auth.role_add(AuthRoleAddRequest { name: "r".into() }).await.unwrap();
    let perm = Some(Permission { perm_type: Type::Readwrite as i32, key: "a".into(), range_end: "b".into() });
    auth.role_grant_permission(AuthRoleGrantPermissionRequest { name: "r".into(), perm }).await.unwrap();
    auth.user_grant_role(role("alice", "r")).await.unwrap();
    auth.user_grant_role(role("root", "root")).await.unwrap();
    auth.auth_enable(AuthEnableRequest {}).await.unwrap();
}

pub const CHEAP: [&str; 2] = ["--bcrypt-cost", "4"];

async fn started(size: usize, further: &[&str]) -> Cluster {
    let cluster = Cluster::start_with(size, &[&CHEAP, further].concat()).await;
    for member in &cluster.members {
        member.wait_for_leader().await;
    }
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn every_member_knows_a_token_that_any_gave() {
    let cluster = started(3, &[]).await;
    guard(cluster.members[0].channel()).await;
    for giver in &cluster.members {
        let token = login(giver, "alice").await.unwrap();
        for member in &cluster.members {
            let session = with(member, Some(token.clone()));
            put(&session, "a/1").await.unwrap();
            assert_eq!(get(&session, "a/1", false).await.unwrap(), 1);
            assert_eq!(put(&session, "b").await.unwrap_err().code(), Code::PermissionDenied);
            assert_eq!(get(&session, "b", true).await.unwrap_err().code(), Code::PermissionDenied);
        }
    }
    for member in &cluster.members {
        assert_eq!(put(&with(member, None), "a/1").await.unwrap_err().message(), "etcdserver: user name is empty");
        assert_eq!(login(member, "eve").await.unwrap_err().code(), Code::InvalidArgument);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_outlive_their_members_and_tokens_do_not() {
    let mut cluster = started(1, &[]).await;
    let member = &mut cluster.members[0];
    guard(member.channel()).await;
    let token = login(member, "alice").await.unwrap();
    put(&with(member, Some(token.clone())), "a/1").await.unwrap();
    assert!(member.terminate().success());
    member.start();
    let fresh = eventually("alice gets in", async || login(member, "alice").await.ok()).await;
    assert_eq!(get(&with(member, Some(token)), "a/1", false).await.unwrap_err().code(), Code::Unauthenticated);
    assert_eq!(get(&with(member, Some(fresh)), "a/1", false).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_away_while_rights_changed_checks_by_the_new_ones() {
    let mut cluster = started(3, &[]).await;
    let away = (cluster.leader().await + 1) % 3;
    cluster.members[away].kill();
    let present = cluster.running();
    eventually("a leader is there", async || put(&with(present, None), "b").await.ok()).await;
    guard(present.channel()).await;
    let token = login(present, "alice").await.unwrap();
    cluster.members[away].start();
    let back = with(&cluster.members[away], Some(token));
    eventually("it serves", async || get(&back, "a/1", false).await.ok()).await;
    assert_eq!(get(&back, "b", false).await.unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(put(&back, "b").await.unwrap_err().code(), Code::PermissionDenied);
    put(&back, "a/1").await.unwrap();
}

/// Calls everything that is not about keys; the answers by name.
async fn call_all(session: As) -> Vec<(&'static str, Result<(), Status>)> {
    let (mut cluster, mut maintenance) = (ClusterClient::new(session.clone()), MaintenanceClient::new(session.clone()));
    let (mut kv, mut lease) = (KvClient::new(session.clone()), LeaseClient::new(session));
    let peer_ur_ls = vec!["http://127.0.0.1:1".to_owned()];
    vec![
        ("MemberAdd", cluster.member_add(MemberAddRequest { peer_ur_ls: peer_ur_ls.clone(), is_learner: true }).await.map(drop)),
        ("MemberRemove", cluster.member_remove(MemberRemoveRequest { id: 1 }).await.map(drop)),
        ("MemberUpdate", cluster.member_update(MemberUpdateRequest { id: 1, peer_ur_ls }).await.map(drop)),
        ("MemberPromote", cluster.member_promote(MemberPromoteRequest { id: 1 }).await.map(drop)),
        ("Compact", kv.compact(CompactionRequest { revision: 1, physical: false }).await.map(drop)),
        ("Alarm", maintenance.alarm(AlarmRequest::default()).await.map(drop)),
        ("Status", maintenance.status(StatusRequest {}).await.map(drop)),
        ("Defragment", maintenance.defragment(DefragmentRequest {}).await.map(drop)),
        ("Hash", maintenance.hash(HashRequest {}).await.map(drop)),
        ("HashKV", maintenance.hash_kv(HashKvRequest { revision: 0 }).await.map(drop)),
        ("Snapshot", maintenance.snapshot(SnapshotRequest {}).await.map(drop)),
        ("MoveLeader", maintenance.move_leader(MoveLeaderRequest { target_id: 1 }).await.map(drop)),
        ("Downgrade", maintenance.downgrade(DowngradeRequest { action: 0, version: "3.5".into() }).await.map(drop)),
        ("MemberList", cluster.member_list(MemberListRequest { linearizable: false }).await.map(drop)),
        ("LeaseGrant", lease.lease_grant(LeaseGrantRequest { ttl: 60, id: 0 }).await.map(drop)),
        ("LeaseTimeToLive", lease.lease_time_to_live(LeaseTimeToLiveRequest { id: 1, keys: false }).await.map(drop)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_roots_is_refused_to_others_on_every_method() {
    let cluster = started(1, &[]).await;
    let member = &cluster.members[0];
    guard(member.channel()).await;
    let alice = with(member, Some(login(member, "alice").await.unwrap()));
    for (name, result) in call_all(with(member, None)).await {
        assert_eq!(result.unwrap_err().message(), "etcdserver: user name is empty", "{name}");
    }
    for (name, result) in call_all(alice).await {
        match name {
            "MemberList" | "LeaseGrant" | "LeaseTimeToLive" => result.unwrap(),
            _ => assert_eq!(result.unwrap_err().message(), "etcdserver: permission denied", "{name}"),
        }
    }
    for (name, result) in call_all(with(member, Some(login(member, "root").await.unwrap()))).await {
        let message = result.err().map(|status| status.message().to_owned()).unwrap_or_default();
        assert!(!message.contains("permission denied") && !message.contains("user name"), "{name}: {message}");
    }
    // The program that watches over the member has no user.
    let health = tokio::net::TcpStream::connect(("127.0.0.1", member.client_port)).await.unwrap();
    assert!(answered(health, "/health").await.contains(r#""health":"true""#));
}

async fn answered(mut stream: tokio::net::TcpStream, path: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_tokens_are_good_everywhere_and_until_rights_change() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    std::fs::write(&key, "a secret of the cluster's").unwrap();
    let flag = format!("jwt,priv-key={},sign-method=HS256,ttl=10m", key.display());
    let mut cluster = started(1, &["--auth-token", &flag]).await;
    let member = &mut cluster.members[0];
    guard(member.channel()).await;
    let token = login(member, "alice").await.unwrap();
    assert_eq!(token.split('.').count(), 3);
    put(&with(member, Some(token.clone())), "a/1").await.unwrap();
    assert_eq!(put(&with(member, Some(format!("{token}x"))), "a/1").await.unwrap_err().code(), Code::Unauthenticated);
    member.kill();
    member.start();
    let session = with(member, Some(token));
    eventually("it is good after a restart", async || put(&session, "a/1").await.ok()).await;
    let root = with(member, Some(login(member, "root").await.unwrap()));
    AuthClient::new(root).role_add(AuthRoleAddRequest { name: "s".into() }).await.unwrap();
    let old = "etcdserver: revision of auth store is old";
    assert_eq!(put(&session, "a/1").await.unwrap_err().message(), old);
    assert_eq!(get(&session, "a/1", false).await.unwrap_err().message(), old);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_no_token_is_who_their_certificate_names() {
    let pki = tempfile::tempdir().unwrap();
    tls::write_pki(pki.path());
    let cluster = Cluster::start_tls(1, pki.path()).await;
    let member = &cluster.members[0];
    member.wait_for_leader().await;
    guard(member.channel()).await;
    let of = |certificate| InterceptedService::new(tls::channel_as(pki.path(), member.client_port, Some(certificate)), With(None));
    put(&of("alice"), "a/1").await.unwrap();
    assert_eq!(put(&of("alice"), "b").await.unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(put(&of("tls"), "a/1").await.unwrap_err().code(), Code::PermissionDenied, "nobody is called `member`");
    // A token goes before the certificate.
    let root = login(member, "root").await.unwrap();
    put(&InterceptedService::new(tls::channel_as(pki.path(), member.client_port, Some("alice")), With(Some(root.clone()))), "b")
        .await
        .unwrap();
    let mut auth = AuthClient::new(with(member, Some(root)));
    let options = Some(UserAddOptions { no_password: true });
    auth.user_add(AuthUserAddRequest { name: "member".into(), options, ..Default::default() }).await.unwrap();
    auth.user_grant_role(AuthUserGrantRoleRequest { user: "member".into(), role: "r".into() }).await.unwrap();
    put(&of("tls"), "a/1").await.unwrap();
    // What a gateway passes on is not the gateway's.
    let mut request = Request::new(PutRequest { key: "a/1".into(), ..Default::default() });
    request.metadata_mut().insert("grpcgateway-accept", "*/*".parse().unwrap());
    let mut kv = KvClient::new(tls::channel_as(pki.path(), member.client_port, Some("alice")));
    assert_eq!(kv.put(request).await.unwrap_err().message(), "etcdserver: user name is empty");
}
