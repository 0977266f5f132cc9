//! Users, roles and who may do what, command by command.

use crate::{
    auth::{
        Caller,
        records::{self, Kind, Permission, ROOT},
    },
    command::*,
    disk::{Batch, memory::Memory},
    refusal::Refusal,
    state::State,
};
use std::{sync::Arc, time::Duration};

struct Store(Arc<State>);

type Outcomes = Vec<std::result::Result<Response, Refusal>>;

impl Store {
    fn new() -> Self {
        Store(State::open(Arc::new(Memory::new()), Arc::new(|| Duration::ZERO)).unwrap())
    }

    /// `root`, and `alice` with the role `r`: reads a..c, writes b..d. Requests are checked.
    fn with_alice() -> Self {
        let store = Self::new();
        for change in [
            user("root"),
            grant_role("root", ROOT),
            user("alice"),
            Change::RoleAdd(named("r")),
            permit("r", Kind::Read, "a", "c"),
            permit("r", Kind::Write, "b", "d"),
            grant_role("alice", "r"),
            Change::Enable(Done {}),
        ] {
            store.changes(change).unwrap();
        }
        store
    }

    fn all(&self, commands: &[Command]) -> Outcomes {
        let outcomes = self.0.apply(commands, Batch::default()).unwrap();
        outcomes.into_iter().map(|outcome| outcome.result).collect()
    }

    fn run(&self, command: Command) -> std::result::Result<Response, Refusal> {
        self.all(&[command]).remove(0)
    }

    /// As root, if anybody has to be.
    fn changes(&self, change: Change) -> std::result::Result<Response, Refusal> {
        self.run(auth(change).by(&self.caller(ROOT)))
    }

    /// Somebody who proves who they are just now.
    fn caller(&self, user: &str) -> Caller {
        Caller { user: user.to_owned(), revision: self.revision() }
    }

    fn alice(&self, command: Command) -> std::result::Result<Response, Refusal> {
        self.run(command.by(&self.caller("alice")))
    }

    fn revision(&self) -> u64 {
        self.0.policy().revision()
    }

    fn roles(&self, name: &str) -> Vec<String> {
        self.0.read(|read, _| records::user(read, name)).unwrap().unwrap().unwrap().roles
    }

    fn permissions(&self, role: &str) -> Vec<(i32, String, String)> {
        let text = |bytes: &bytes::Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        let role = self.0.read(|read, _| records::role(read, role)).unwrap().unwrap().unwrap();
        role.permissions.iter().map(|permission| (permission.kind, text(&permission.key), text(&permission.range_end))).collect()
    }

    fn keys(&self) -> Vec<bytes::Bytes> {
        let all = Range { key: "\0".into(), range_end: "\0".into(), ..Default::default() };
        let found = self.0.read(|read, revisions| crate::mvcc::range::range(read, revisions, &all)).unwrap().unwrap();
        found.kvs.into_iter().map(|kv| kv.key).collect()
    }
}

fn auth(change: Change) -> Command {
    Command::Auth(Auth { change: Some(change) })
}

fn named(name: &str) -> Named {
    Named { name: name.to_owned() }
}

fn user(name: &str) -> Change {
    Change::UserAdd(UserAdd { name: name.to_owned(), password: "hash".into(), no_password: false })
}

fn grant_role(user: &str, role: &str) -> Change {
    Change::UserGrantRole(UserRole { user: user.to_owned(), role: role.to_owned() })
}

fn revoke_role(user: &str, role: &str) -> Change {
    Change::UserRevokeRole(UserRole { user: user.to_owned(), role: role.to_owned() })
}

fn permit(role: &str, kind: Kind, key: &'static str, range_end: &'static str) -> Change {
    let permission = Permission { kind: kind as i32, key: key.into(), range_end: range_end.into() };
    Change::RoleGrantPermission(RolePermission { role: role.to_owned(), permission: Some(permission) })
}

fn forbid(role: &str, key: &'static str, range_end: &'static str) -> Change {
    Change::RoleRevokePermission(RoleKeys { role: role.to_owned(), key: key.into(), range_end: range_end.into() })
}

fn proof(user: &str, revision: u64) -> Change {
    Change::Authenticate(Authenticate { user: user.to_owned(), token: "word".into(), revision })
}

fn put(key: &'static str) -> Put {
    Put { key: key.into(), value: "v".into(), ..Default::default() }
}

fn delete(key: &'static str, range_end: &'static str) -> DeleteRange {
    DeleteRange { key: key.into(), range_end: range_end.into(), prev_kv: false }
}

fn branch(requests: Vec<Request>) -> Vec<Op> {
    requests.into_iter().map(|request| Op { request: Some(request) }).collect()
}

const DENIED: Refusal = Refusal::PermissionDenied;

#[test]
fn checking_begins_only_when_root_can_end_it() {
    let store = Store::new();
    let enable = || store.changes(Change::Enable(Done {})).err();
    assert_eq!(enable(), Some(Refusal::RootUserNotExist));
    store.changes(user("root")).unwrap();
    assert_eq!(enable(), Some(Refusal::RootRoleNotExist));
    store.changes(grant_role("root", ROOT)).unwrap();
    assert_eq!(enable(), None);
    assert_eq!(enable(), None, "again is no error");
    assert!(store.0.policy().enabled());
}

#[test]
fn changes_are_refused_as_etcd_does() {
    let store = Store::with_alice();
    let no_role = Change::RoleGrantPermission(RolePermission { role: "r".into(), permission: None });
    for (change, refusal) in [
        (user(""), Refusal::UserEmpty),
        (user("alice"), Refusal::UserExists),
        (Change::UserDelete(named("bob")), Refusal::UserNotFound),
        (Change::UserPassword(UserPassword { name: "bob".into(), password: "hash".into() }), Refusal::UserNotFound),
        (grant_role("bob", "r"), Refusal::UserNotFound),
        (grant_role("alice", "s"), Refusal::RoleNotFound),
        (revoke_role("bob", "r"), Refusal::UserNotFound),
        (revoke_role("alice", "s"), Refusal::RoleNotGranted),
        (Change::RoleAdd(named("")), Refusal::RoleEmpty),
        (Change::RoleAdd(named("r")), Refusal::RoleExists),
        (Change::RoleDelete(named("s")), Refusal::RoleNotFound),
        (permit("s", Kind::Read, "a", ""), Refusal::RoleNotFound),
        (permit("r", Kind::Read, "b", "a"), Refusal::InvalidAuthManagement),
        (permit("r", Kind::Read, "", "\0"), Refusal::InvalidAuthManagement),
        (no_role, Refusal::PermissionNotGiven),
        (forbid("s", "a", "c"), Refusal::RoleNotFound),
        (forbid("r", "a", ""), Refusal::PermissionNotGranted),
        (Change::UserDelete(named("root")), Refusal::InvalidAuthManagement),
        (revoke_role("root", ROOT), Refusal::InvalidAuthManagement),
        (Change::RoleDelete(named(ROOT)), Refusal::InvalidAuthManagement),
    ] {
        let before = store.revision();
        assert_eq!(store.changes(change.clone()), Err(refusal), "{change:?}");
        assert_eq!(store.revision(), before, "{change:?}");
    }
}

#[test]
fn every_change_is_a_revision_that_makes_older_proofs_void() {
    let store = Store::with_alice();
    assert_eq!(store.revision(), 8, "the first, and seven changes; switching on is none");
    let before = store.caller("alice");
    store.changes(grant_role("alice", "r")).unwrap();
    assert_eq!(store.revision(), 8, "they had it");
    store.run(Command::Put(put("b")).by(&before)).unwrap();
    store.changes(Change::RoleAdd(named("s"))).unwrap();
    assert_eq!(store.run(Command::Put(put("b")).by(&before)), Err(Refusal::AuthOldRevision));
    store.changes(Change::Disable(Done {})).unwrap();
    assert_eq!(store.revision(), 10);
    store.run(Command::Put(put("b")).by(&before)).unwrap();
}

#[test]
fn only_root_changes_users_and_roles() {
    let store = Store::with_alice();
    for change in [user("eve"), grant_role("alice", ROOT), Change::Disable(Done {}), permit("r", Kind::ReadWrite, "\0", "\0")] {
        assert_eq!(store.run(auth(change.clone())), Err(Refusal::UserEmpty), "{change:?}");
        assert_eq!(store.alice(auth(change.clone())), Err(DENIED), "{change:?}");
    }
    store.changes(grant_role("alice", ROOT)).unwrap();
    store.alice(auth(Change::Disable(Done {}))).unwrap();
}

#[test]
fn keys_are_written_by_those_who_may() {
    let store = Store::with_alice();
    assert_eq!(store.run(Command::Put(put("b"))), Err(Refusal::UserEmpty));
    assert_eq!(store.alice(Command::Put(put("a"))), Err(DENIED));
    store.alice(Command::Put(put("b"))).unwrap();
    store.alice(Command::Put(put("c"))).unwrap();
    let prev = |key| Command::Put(Put { prev_kv: true, ..put(key) });
    store.alice(prev("b")).unwrap();
    assert_eq!(store.alice(prev("c")), Err(DENIED), "the pair before is read");
    assert_eq!(store.alice(Command::DeleteRange(delete("b", "\0"))), Err(DENIED));
    assert_eq!(store.alice(Command::DeleteRange(DeleteRange { prev_kv: true, ..delete("b", "d") })), Err(DENIED));
    assert_eq!(store.keys(), ["b", "c"]);
    store.alice(Command::DeleteRange(delete("b", "d"))).unwrap();
    assert_eq!(store.keys(), [""; 0]);
}

#[test]
fn a_transaction_is_allowed_whole_or_not_at_all() {
    let store = Store::with_alice();
    let txn = |compares, success, failure| store.alice(Command::Txn(Txn { compares, success: branch(success), failure: branch(failure) }));
    let compare = |key: &'static str| Compare { key: key.into(), operand: Some(Operand::Version(0)), ..Default::default() };
    let read = |key: &'static str| Request::Range(Range { key: key.into(), ..Default::default() });
    let nested = |requests| Request::Txn(Txn { success: branch(requests), ..Default::default() });
    txn(vec![compare("a")], vec![Request::Put(put("b")), read("a")], vec![Request::DeleteRange(delete("c", ""))]).unwrap();
    assert_eq!(txn(vec![compare("c")], vec![Request::Put(put("b"))], vec![]), Err(DENIED), "a compare reads");
    assert_eq!(txn(vec![], vec![Request::Put(put("b"))], vec![Request::Put(put("a"))]), Err(DENIED), "the branch not taken counts");
    assert_eq!(txn(vec![], vec![Request::Put(Put { prev_kv: true, ..put("c") })], vec![]), Err(DENIED));
    assert_eq!(txn(vec![], vec![Request::Put(put("b")), read("c")], vec![]), Err(DENIED));
    // CVE-2026-33343 of etcd: what stands in a nested one was not looked at.
    for inner in [Request::Put(put("a")), read("x"), Request::DeleteRange(delete("\0", "\0"))] {
        assert_eq!(txn(vec![], vec![nested(vec![nested(vec![inner])])], vec![]), Err(DENIED));
    }
    txn(vec![], vec![nested(vec![nested(vec![Request::Put(put("c"))])])], vec![]).unwrap();
}

#[test]
fn a_lease_is_ended_and_used_only_by_those_who_may_write_all_its_keys() {
    let store = Store::with_alice();
    let grant = |id| Command::LeaseGrant(LeaseGrant { id, ttl: 60 });
    let leased = |key, lease| Command::Put(Put { lease, ..put(key) });
    assert_eq!(store.run(grant(1)), Err(Refusal::UserEmpty));
    store.alice(grant(1)).unwrap();
    store.alice(leased("b", 1)).unwrap();
    store.run(leased("x", 1).by(&store.caller(ROOT))).unwrap();
    assert_eq!(store.alice(leased("c", 1)), Err(DENIED));
    let in_txn = Command::Txn(Txn { success: branch(vec![Request::Put(Put { lease: 1, ..put("c") })]), ..Default::default() });
    assert_eq!(store.alice(in_txn), Err(DENIED));
    let revoke = || Command::LeaseRevoke(LeaseRevoke { id: 1, expired_in: 0 });
    assert_eq!(store.alice(revoke()), Err(DENIED));
    assert_eq!(store.run(revoke().by(&Caller::default())), Err(Refusal::UserEmpty));
    assert_eq!(store.keys(), ["b", "x"]);
    store.run(revoke()).expect("it ended by itself");
    assert_eq!(store.keys(), [""; 0]);
}

#[test]
fn what_is_applied_together_is_checked_in_order() {
    let store = Store::with_alice();
    let root = store.caller(ROOT);
    let alice = |revision| Caller { user: "alice".into(), revision };
    let revision = store.revision();
    let outcomes = store.all(&[
        Command::Put(put("b")).by(&alice(revision)),
        auth(forbid("r", "b", "d")).by(&root),
        Command::Put(put("b")).by(&alice(revision)),
        Command::Put(put("b")).by(&alice(revision + 1)),
        auth(Change::Disable(Done {})).by(&root),
        Command::Put(put("z")),
        auth(Change::Enable(Done {})),
        Command::Put(put("y")),
    ]);
    let refused: Vec<_> = outcomes.into_iter().map(|outcome| outcome.err()).collect();
    let (old, denied, stranger) = (Some(Refusal::AuthOldRevision), Some(DENIED), Some(Refusal::UserEmpty));
    assert_eq!(refused, [None, None, old, denied, None, None, None, stranger]);
    assert_eq!(store.keys(), ["b", "z"]);
}

#[test]
fn a_full_database_lets_nobody_past_the_check() {
    let store = Store::with_alice();
    store.alice(Command::Put(put("b"))).unwrap();
    store.run(Command::Alarm(Alarm { member: 1, kind: AlarmKind::NoSpace as i32, raised: true })).unwrap();
    assert_eq!(store.run(Command::DeleteRange(delete("\0", "\0"))), Err(Refusal::UserEmpty));
    assert_eq!(store.alice(Command::DeleteRange(delete("\0", "\0"))), Err(DENIED));
    assert_eq!(store.alice(auth(Change::Disable(Done {}))), Err(DENIED));
    store.alice(Command::DeleteRange(delete("b", ""))).unwrap();
}

#[test]
fn a_name_within_a_name_is_nobodys() {
    let store = Store::with_alice();
    let inner = Command::Put(put("b")).by(&store.caller(ROOT));
    assert!(store.alice(inner).is_err());
    assert_eq!(store.keys(), [""; 0]);
}

#[test]
fn a_deleted_role_is_taken_from_its_users() {
    let store = Store::with_alice();
    store.changes(Change::RoleAdd(named("s"))).unwrap();
    store.changes(grant_role("alice", "s")).unwrap();
    store.changes(grant_role("alice", ROOT)).unwrap();
    assert_eq!(store.roles("alice"), ["r", "root", "s"], "in order");
    store.changes(Change::RoleDelete(named("r"))).unwrap();
    store.changes(revoke_role("alice", ROOT)).unwrap();
    assert_eq!(store.roles("alice"), ["s"]);
    assert_eq!(store.alice(Command::Put(put("b"))), Err(DENIED));
}

#[test]
fn a_permission_is_told_by_its_keys() {
    let store = Store::new();
    store.changes(Change::RoleAdd(named("r"))).unwrap();
    for change in [permit("r", Kind::Read, "b", ""), permit("r", Kind::Read, "a", "c"), permit("r", Kind::Write, "b", "c")] {
        store.changes(change).unwrap();
    }
    store.changes(permit("r", Kind::ReadWrite, "b", "c")).unwrap();
    let text = |kind, key: &str, end: &str| (kind, key.to_owned(), end.to_owned());
    assert_eq!(store.permissions("r"), [text(0, "a", "c"), text(0, "b", ""), text(2, "b", "c")]);
    store.changes(forbid("r", "b", "")).unwrap();
    assert_eq!(store.permissions("r"), [text(0, "a", "c"), text(2, "b", "c")]);
}

#[test]
fn a_token_is_given_for_a_proof_that_still_holds() {
    let store = Store::with_alice();
    let holder = |token: &str| store.0.with_tokens(|tokens, now| tokens.user(token, now));
    let revision = store.revision();
    let given = store.run(auth(proof("alice", revision)));
    assert_eq!(given, Ok(Response::Token(Token { token: "word.1".into() })));
    assert_eq!(holder("word.1").as_deref(), Some("alice"));
    assert_eq!(store.run(auth(proof("alice", revision - 1))), Err(Refusal::AuthOldRevision));
    assert_eq!(store.run(auth(proof("eve", revision))), Err(Refusal::AuthFailed));
    store.changes(Change::UserPassword(UserPassword { name: "alice".into(), password: "other".into() })).unwrap();
    assert_eq!(holder("word.1"), None);
    store.run(auth(proof("alice", store.revision()))).unwrap();
    store.changes(Change::Disable(Done {})).unwrap();
    assert_eq!(holder("word.1"), None);
    assert_eq!(store.run(auth(proof("alice", store.revision()))), Err(Refusal::AuthNotEnabled));
}

#[test]
fn who_has_no_password_gets_no_token_and_never_has_one() {
    let store = Store::with_alice();
    let add = UserAdd { name: "cn".into(), password: "hash".into(), no_password: true };
    store.changes(Change::UserAdd(add)).unwrap();
    store.changes(Change::UserPassword(UserPassword { name: "cn".into(), password: "hash".into() })).unwrap();
    let user = store.0.read(|read, _| records::user(read, "cn")).unwrap().unwrap().unwrap();
    assert_eq!((user.password.len(), user.has_no_password()), (0, true));
    assert_eq!(store.run(auth(proof("cn", store.revision()))), Err(Refusal::AuthFailed));
}

#[test]
fn users_and_roles_outlive_the_member() {
    let database = Arc::new(Memory::new());
    let open = || Store(State::open(database.clone(), Arc::new(|| Duration::ZERO)).unwrap());
    let first = open();
    for change in [user("root"), grant_role("root", ROOT), Change::Enable(Done {})] {
        first.changes(change).unwrap();
    }
    let again = open();
    assert_eq!((again.0.policy().enabled(), again.revision()), (true, 3));
    assert_eq!(again.run(Command::Put(put("b"))), Err(Refusal::UserEmpty));
    again.run(Command::Put(put("b")).by(&again.caller(ROOT))).unwrap();
}
