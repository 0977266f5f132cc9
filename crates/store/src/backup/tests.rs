//! Files are written from states that lived through random commands, read back, and compared.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;

use super::{
    bolt::read::Bolt,
    buckets::{Member, Standing},
    export::Export,
    hash::{hash_all, hash_kv},
    import::{Adjust, import},
    status,
};
use crate::{
    auth::records::{self, User},
    command::{Alarm, Command, Compact, DeleteRange, LeaseGrant, LeaseRevoke, Op, Put, Range, Request, Txn},
    disk::{
        Batch, Column, Database, Read,
        columns::{self, AuthPart},
        memory::Memory,
    },
    mvcc::{Revisions, history, range},
    state::State,
};

fn standing() -> Standing {
    let member = |id, learner| Member { id, peer_urls: vec![format!("http://h{id}:2380")], learner };
    Standing { index: 77, term: 3, members: vec![member(5, false), member(6, true)], removed: vec![4] }
}

fn state() -> (Arc<Memory>, Arc<State>) {
    let memory = Arc::new(Memory::new());
    let state = State::open(memory.clone(), Arc::new(|| Duration::ZERO)).unwrap();
    (memory, state)
}

fn run(state: &State, commands: &[Command]) {
    for command in commands {
        // Refused ones leave no trace.
        state.apply(std::slice::from_ref(command), Batch::default()).unwrap();
    }
}

fn file(read: &dyn Read) -> Vec<u8> {
    let export = Export::new(read, &standing(), std::env::temp_dir()).unwrap();
    let mut bytes = Vec::new();
    let write = export.write(&mut |pages| {
        bytes.extend_from_slice(&pages);
        Ok(())
    });
    write.unwrap();
    assert_eq!(bytes.len() as u64, export.size());
    bytes
}

fn imported(bytes: &[u8], adjust: Adjust) -> Memory {
    let memory = Memory::new();
    import(&Bolt::open(bytes, bytes.len() as u64).unwrap(), &memory, adjust).unwrap();
    memory
}

fn put(key: &str, value: &str, lease: i64) -> Put {
    Put { key: key.to_owned().into(), value: value.to_owned().into(), lease, ..Default::default() }
}

fn delete(key: &str, end: &str) -> DeleteRange {
    DeleteRange { key: key.to_owned().into(), range_end: end.to_owned().into(), ..Default::default() }
}

fn op(request: Request) -> Op {
    Op { request: Some(request) }
}

fn everything() -> Range {
    Range { key: Bytes::from_static(&[0]), range_end: Bytes::from_static(&[0]), ..Default::default() }
}

/// What clients can see: the keys at every revision, the events since, the leases and their keys.
fn seen(read: &dyn Read) -> String {
    let revisions = Revisions::read(read).unwrap();
    let mut seen = format!("{revisions:?}\n");
    for revision in revisions.compacted.max(1)..=revisions.current {
        let keys = range::range(read, revisions, &Range { revision, ..everything() }).unwrap();
        seen += &format!("{revision}: {keys:?} {:?}\n", hash_kv(read, revision, std::env::temp_dir()).unwrap());
    }
    let budget = history::Budget { rows: usize::MAX, bytes: usize::MAX };
    let events = history::read(read, revisions.compacted.max(0) + 1, revisions.current, budget, &mut |_, _| true).unwrap();
    seen += &format!("{events:?}\n");
    for (id, lease) in crate::apply::lease::list(read).unwrap() {
        seen += &format!("{id}: {lease:?} {:?}\n", crate::apply::lease::keys(read, id).unwrap());
    }
    seen
}

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "a\0", "b", "bb", "c"]).prop_map(String::from)
}

fn command() -> impl Strategy<Value = Command> {
    let write = || {
        (key(), 0..3usize, prop::sample::select(vec![0, 7, 8]))
            .prop_map(|(key, size, lease)| put(&key, &"v".repeat([3, 900, 5000][size]), lease))
    };
    prop_oneof![
        6 => write().prop_map(Command::Put),
        2 => key().prop_map(|key| Command::DeleteRange(delete(&key, ""))),
        1 => key().prop_map(|key| Command::DeleteRange(delete(&key, "\0"))),
        2 => (write(), key()).prop_map(|(write, gone)| {
            let ops = vec![op(Request::DeleteRange(delete(&gone, ""))), op(Request::Put(put("d", "1", 0))), op(Request::Put(write))];
            Command::Txn(Txn { success: ops, ..Default::default() })
        }),
        1 => (1..60i64).prop_map(|revision| Command::Compact(Compact { revision })),
        1 => prop::sample::select(vec![7, 8]).prop_map(|id| Command::LeaseGrant(LeaseGrant { id, ttl: 60 })),
        1 => prop::sample::select(vec![7, 8]).prop_map(|id| Command::LeaseRevoke(LeaseRevoke { id, expired_in: 0 })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_state_comes_back_from_its_file_as_it_was(commands in prop::collection::vec(command(), 1..60), scrub in any::<bool>()) {
        let (memory, state) = state();
        run(&state, &commands);
        while scrub && !state.scrub(3).unwrap().done {}
        let back = imported(&file(&*memory), Adjust::default());
        prop_assert_eq!(seen(&back), seen(&*memory));
        let all = |read| hash_all(read, &standing(), std::env::temp_dir()).unwrap();
        prop_assert_eq!(all(&back), all(&*memory));
        prop_assert_eq!(file(&back), file(&*memory));
    }

    #[test]
    fn a_damaged_file_is_an_error_or_another_state_but_never_a_panic(
        place in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 1..9),
    ) {
        let (memory, state) = state();
        run(&state, &(0..40).map(|i| Command::Put(put(&format!("k{i}"), &"v".repeat(400), 0))).collect::<Vec<_>>());
        let mut file = file(&*memory);
        let at = place.index(file.len());
        for (byte, with) in file[at..].iter_mut().zip(&bytes) {
            *byte ^= with;
        }
        read_all(&file);
    }

    #[test]
    fn any_bytes_behind_an_intact_head_are_read_without_a_panic(pages in prop::collection::vec(page(), 1..12)) {
        let mut file = super::bolt::write::Shape::of(3, 3 + pages.len() as u64).head().to_vec();
        pages.iter().enumerate().for_each(|(number, page)| file.extend(page.encode(3 + number as u64)));
        read_all(&file);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        read_all(&bytes);
    }
}

fn read_all(file: &[u8]) {
    if let Ok(bolt) = Bolt::open(file, file.len() as u64) {
        let _ = status::status(&bolt, std::env::temp_dir());
        let _ = import(&bolt, &Memory::new(), Adjust { bump: 5, compact: true });
    }
}

/// A page that looks like one at first sight.
#[derive(Debug)]
struct Page {
    kind: u16,
    count: u16,
    overflow: u32,
    elements: Vec<[u32; 4]>,
}

impl Page {
    fn encode(&self, number: u64) -> Vec<u8> {
        let mut out = number.to_le_bytes().to_vec();
        out.extend(self.kind.to_le_bytes());
        out.extend(self.count.to_le_bytes());
        out.extend(self.overflow.to_le_bytes());
        self.elements.iter().flatten().for_each(|number| out.extend(number.to_le_bytes()));
        out.resize(super::bolt::format::PAGE_SIZE, b'k');
        out
    }
}

fn page() -> impl Strategy<Value = Page> {
    let number = || prop_oneof![4 => 0..20u32, 1 => 0..5000u32, 1 => any::<u32>()];
    let element = [number(), number(), number(), number()];
    let kind = prop::sample::select(vec![1, 2, 2, 4]);
    let overflow = prop_oneof![8 => Just(0), 1 => any::<u32>()];
    (kind, 0..6u16, overflow, prop::collection::vec(element, 0..6)).prop_map(|(kind, count, overflow, elements)| Page {
        kind,
        count,
        overflow,
        elements,
    })
}

#[test]
fn a_bumped_and_compacted_import_goes_on_far_ahead_and_forgets_history() {
    let (memory, state) = state();
    run(&state, &[Command::Put(put("a", "1", 0)), Command::Put(put("a", "2", 0)), Command::Put(put("b", "1", 0))]);
    let back = imported(&file(&*memory), Adjust { bump: 1000, compact: true });
    assert_eq!(Revisions::read(&back).unwrap(), Revisions { current: 1004, compacted: 1004 });
    let state = State::open(Arc::new(back), Arc::new(|| Duration::ZERO)).unwrap();
    while !state.scrub(100).unwrap().done {}
    let outcome = state.apply(&[Command::Put(put("a", "3", 0))], Batch::default()).unwrap();
    assert_eq!(outcome[0].revision, 1005);
    let (kvs, old) = state
        .read(|read, revisions| {
            let kvs = range::range(read, revisions, &everything()).unwrap().kvs;
            (kvs, range::range(read, revisions, &Range { revision: 1003, ..everything() }))
        })
        .unwrap();
    let versions: Vec<_> = kvs.iter().map(|kv| (&kv.key[..], kv.create_revision, kv.mod_revision, kv.version)).collect();
    assert_eq!(versions, [(&b"a"[..], 2, 1005, 3), (&b"b"[..], 4, 4, 1)]);
    assert!(old.is_err());
}

#[test]
fn alarms_and_leases_come_along() {
    let (memory, state) = state();
    run(
        &state,
        &[
            Command::LeaseGrant(LeaseGrant { id: 7, ttl: 60 }),
            Command::Put(put("a", "1", 7)),
            Command::Alarm(Alarm { member: 5, kind: 1, raised: true }),
        ],
    );
    let back = imported(&file(&*memory), Adjust::default());
    assert_eq!(crate::apply::lease::keys(&back, 7).unwrap(), ["a"]);
    assert!(back.get(Column::Alarm, &columns::alarm_key(5, 1)).unwrap().is_some());
}

#[test]
fn users_and_roles_come_along() {
    let memory = Memory::new();
    let put = |part, name: &[u8], row: Vec<u8>| {
        let mut batch = Batch::default();
        batch.put(Column::Auth, columns::auth_key(part, name), row);
        memory.write(batch).unwrap();
    };
    let user = User { name: "root".into(), password: "hash".into(), roles: vec!["root".into()], options: None };
    put(AuthPart::Users, b"root", user.encode_to_vec());
    put(AuthPart::Settings, records::ENABLED, vec![1]);
    put(AuthPart::Settings, records::REVISION, 7u64.to_be_bytes().to_vec());
    let back = imported(&file(&memory), Adjust::default());
    assert_eq!(records::users(&back).unwrap(), [user]);
    assert_eq!((records::enabled(&back).unwrap(), records::revision(&back).unwrap()), (true, 7));
    put(AuthPart::Users, b"broken", vec![0xff]);
    let file = file(&memory);
    let refused = import(&Bolt::open(&file[..], file.len() as u64).unwrap(), &Memory::new(), Adjust::default());
    assert!(refused.unwrap_err().to_string().contains("bucket \"authUsers\": a row is not as etcd writes it"));
}

#[test]
fn a_store_nobody_set_up_users_in_has_etcds_first_revision_of_them() {
    let back = imported(&file(&Memory::new()), Adjust::default());
    assert_eq!(back.get(Column::Auth, b"\0authRevision").unwrap().unwrap()[..], [0, 0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn many_and_large_rows_make_trees_of_several_levels() {
    let (memory, state) = state();
    let small = (0..20_000).map(|i| Command::Put(put(&format!("key-{i:06}"), "value", 0)));
    let large = (0..3).map(|i| Command::Put(put(&format!("large-{i}"), &"v".repeat(1 << 20), 0)));
    let commands: Vec<_> = small.chain(large).collect();
    for chunk in commands.chunks(1000) {
        state.apply(chunk, Batch::default()).unwrap();
    }
    let file = file(&*memory);
    let status = status::status(&Bolt::open(&file[..], file.len() as u64).unwrap(), std::env::temp_dir()).unwrap();
    assert_eq!((status.revision, status.total_keys, &status.version[..]), (20_004, 20_003, "3.6.0"));
    assert_eq!(status.total_size, file.len() as u64);
    let back = imported(&file, Adjust::default());
    let hash = |read| hash_kv(read, 0, std::env::temp_dir()).unwrap();
    assert_eq!(hash(&back as &dyn Read), hash(&*memory));
}

#[test]
fn a_file_that_is_cut_short_is_named_so() {
    let file = file(&Memory::new());
    let cut = &file[..file.len() - 1];
    let error = Bolt::open(cut, cut.len() as u64).err().unwrap().to_string();
    assert_eq!(error, format!("the file is cut short: it has {} bytes of {}", cut.len(), file.len()));
    let error = Bolt::open(&b"rubbish"[..], 7).err().unwrap().to_string();
    assert!(error.contains("not a bbolt database"), "{error}");
}
