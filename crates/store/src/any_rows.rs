//! Damaged rows of the state, read by everything that reads rows: an error or another state, but never a panic. RocksDB's
//! checksums find a flipped bit before that; these are rows that a bug or another program wrote.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use bytes::Bytes;
use proptest::{prelude::*, sample::Index};

use crate::{
    apply::{alarm::Alarms, downgrade, lease, member},
    auth::records,
    backup::{export::Export, hash},
    command::{
        Alarm, Auth, Change, Command, Compact, DeleteRange, Downgrade, LeaseGrant, LeaseRevoke, MemberAttributes, Named, Op, Put, Range,
        Request, Txn, UserAdd, UserRole,
    },
    disk::{Batch, Column, Database, Read, memory::Memory},
    mvcc::{KeyRange, Revisions, history, range, segments},
    raft::planted,
    state::State,
};

/// What is done to a row.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Cut(Index),
    Fill(u8),
    Replace(Vec<u8>),
}

impl Damage {
    fn to(&self, bytes: &[u8]) -> Bytes {
        let mut bytes = bytes.to_vec();
        match self {
            Damage::Replace(other) => bytes.clone_from(other),
            _ if bytes.is_empty() => {}
            Damage::Flip(at, with) => {
                let at = at.index(bytes.len());
                bytes[at] ^= with;
            }
            Damage::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Damage::Fill(with) => bytes.fill(*with),
        }
        bytes.into()
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        3 => (any::<Index>(), 1..=255u8).prop_map(|(at, with)| Damage::Flip(at, with)),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => prop::sample::select(vec![0, 0x7f, 0xff]).prop_map(Damage::Fill),
        2 => prop::collection::vec(any::<u8>(), 0..24).prop_map(Damage::Replace),
    ]
}

/// A row chosen by chance, and what happens to its key or its value.
type Hit = (Index, bool, Damage);

fn put(key: &str, lease: i64) -> Put {
    Put { key: key.to_owned().into(), value: "value".into(), lease, ..Default::default() }
}

fn delete(key: &str, end: &str) -> DeleteRange {
    DeleteRange { key: key.to_owned().into(), range_end: end.to_owned().into(), prev_kv: true }
}

fn txn(puts: &[&str]) -> Command {
    let success = puts.iter().map(|key| Op { request: Some(Request::Put(put(key, 0))) }).collect();
    Command::Txn(Txn { success, ..Default::default() })
}

fn users() -> [Change; 4] {
    let named = |name: &str| Named { name: name.into() };
    [
        Change::UserAdd(UserAdd { name: "alice".into(), password: "hash".into(), no_password: false }),
        Change::RoleAdd(named("r")),
        Change::UserGrantRole(UserRole { user: "alice".into(), role: "r".into() }),
        Change::RoleDelete(named("r")),
    ]
}

/// Commands after which every column has rows.
fn life() -> Vec<Command> {
    [
        Command::LeaseGrant(LeaseGrant { id: 7, ttl: 60 }),
        Command::Put(put("a", 7)),
        Command::Put(put("a\0b", 0)),
        Command::Put(put("a", 0)),
        Command::Put(put("b", 7)),
        txn(&["c", "d", "e"]),
        Command::DeleteRange(delete("c", "e")),
        Command::Compact(Compact { revision: 4 }),
        Command::Alarm(Alarm { member: 5, kind: 1, raised: true }),
        Command::Alarm(Alarm { member: 5, kind: 1, raised: false }),
        Command::Alarm(Alarm { member: 6, kind: 9, raised: true }),
        Command::MemberAttributes(MemberAttributes { member: 5, name: "m5".into(), client_urls: vec!["http://h:1".into()] }),
        Command::Downgrade(Downgrade { target: "3.5.0".into() }),
    ]
    .into_iter()
    .chain(users().into_iter().take(3).map(|change| Command::Auth(Auth { change: Some(change) })))
    .collect()
}

fn everything() -> KeyRange {
    KeyRange::new(&Bytes::from_static(b"\0"), &Bytes::from_static(b"\0"))
}

/// A state that lived a little, as a disk holds it.
fn disk() -> Arc<Memory> {
    let disk = Arc::new(Memory::new());
    let state = State::open(disk.clone(), Arc::new(|| Duration::ZERO)).unwrap();
    for command in life() {
        state.apply(&[command], Batch::default()).unwrap()[0].result.as_ref().unwrap();
    }
    state.scrub(1).unwrap();
    let mut batch = Batch::default();
    member::remove(&mut batch, 4);
    disk.write(batch).unwrap();
    disk
}

/// Damages one row of a column.
fn hit(disk: &Memory, column: Column, (row, in_key, damage): &Hit) {
    let mut rows = Vec::new();
    let mut cursor = disk.scan(column, b"", None).unwrap();
    while let Some((key, value)) = cursor.row() {
        rows.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
        cursor.advance().unwrap();
    }
    let mut batch = Batch::default();
    match rows.get(row.index(rows.len().max(1))) {
        Some((key, value)) if *in_key => {
            batch.delete(column, key.clone());
            batch.put(column, damage.to(key), value.clone());
        }
        Some((key, value)) => batch.put(column, key.clone(), damage.to(value)),
        None => batch.put(column, damage.to(b"a key"), damage.to(b"a value")),
    }
    disk.write(batch).unwrap();
}

/// Reads all there is to read, as a member does when it starts and serves.
fn read_all(disk: &Arc<Memory>) {
    let _ = (Alarms::read(&**disk), member::list(&**disk), member::removed(&**disk), downgrade::target(&**disk));
    let _ = (records::users(&**disk), records::roles(&**disk), records::enabled(&**disk), records::revision(&**disk));
    let _ = (planted::members(&**disk), planted::standing(&**disk));
    for (id, _) in lease::list(&**disk).unwrap_or_default() {
        let _ = lease::keys(&**disk, id);
    }
    let Ok(state) = State::open(disk.clone(), Arc::new(|| Duration::ZERO)) else { return };
    let _ = state.read(|read, revisions| look(read, revisions));
    let commands = life().into_iter().chain([
        Command::DeleteRange(delete("a", "\0")),
        Command::Compact(Compact { revision: 9 }),
        Command::LeaseRevoke(LeaseRevoke { id: 7, expired_in: 0 }),
    ]);
    let commands = commands.chain(users().into_iter().skip(3).map(|change| Command::Auth(Auth { change: Some(change) })));
    for command in commands {
        // A disk that errs stops the member.
        if state.apply(&[command], Batch::default()).is_err() {
            return;
        }
    }
    for _ in 0..20 {
        match state.scrub(3) {
            Ok(step) if !step.done => {}
            _ => break,
        }
    }
}

fn look(read: &dyn Read, revisions: Revisions) {
    for revision in [0, 1, 3, 5, 8, revisions.current, revisions.compacted] {
        let request = Range { key: "\0".into(), range_end: "\0".into(), revision, ..Default::default() };
        for limit in [0, 2] {
            let _ = range::range(read, revisions, &Range { limit, ..request.clone() });
        }
        let _ = range::visit(read, &everything(), Some(revision), &mut |_, _, _| ControlFlow::Continue(()));
        let _ = segments::count(read, revisions, &everything(), Some(revision));
        let budget = history::Budget { rows: 5, bytes: 1000 };
        let _ = history::read(read, revision, revisions.current, budget, &mut |_, _| true);
    }
    let _ = hash::hash_kv(read, 0, std::env::temp_dir());
    let Ok(standing) = planted::standing(read) else { return };
    let _ = hash::hash_all(read, &standing, std::env::temp_dir());
    if let Ok(export) = Export::new(read, &standing, std::env::temp_dir()) {
        let _ = export.write(&mut |_| Ok(()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn damaged_rows_of_any_column_are_read_without_a_panic(
        column in prop::sample::select(&Column::KV),
        hits in prop::collection::vec((any::<Index>(), any::<bool>(), damage()), 1..3),
    ) {
        let disk = disk();
        hits.iter().for_each(|one| hit(&disk, column, one));
        read_all(&disk);
    }
}

#[test]
fn every_column_has_rows_to_damage() {
    let disk = disk();
    let mut empty = Column::KV.into_iter().filter(|column| disk.scan(*column, b"", None).unwrap().row().is_none());
    assert_eq!(empty.next(), None);
}
