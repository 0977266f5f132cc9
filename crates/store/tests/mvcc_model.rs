//! The store's versions against a model that keeps every state whole.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use proptest::prelude::*;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use store::{
    backup::hash::hash_kv,
    command::{Command, Compact, DeleteRange, Op, Put, Range, Request, Txn},
    disk::{Batch, Database, memory::Memory},
    mvcc::{EventKind, KeyValue, history, range},
    refusal::Refusal,
    state::State,
};

type Live = BTreeMap<Bytes, KeyValue>;

/// Every state there was, and what happened at each revision.
#[derive(Default)]
struct Model {
    states: BTreeMap<i64, Live>,
    events: BTreeMap<i64, Vec<(EventKind, KeyValue, Option<KeyValue>)>>,
    compacted: i64,
}

impl Model {
    fn new() -> Self {
        Model { states: [(1, Live::new())].into(), compacted: -1, ..Default::default() }
    }

    fn current(&self) -> i64 {
        *self.states.keys().last().expect("a first state")
    }

    fn apply(&mut self, command: &Command) {
        let revision = self.current() + 1;
        let mut live = self.states[&self.current()].clone();
        let mut events = Vec::new();
        let ops = match command {
            Command::Put(put) => vec![Request::Put(put.clone())],
            Command::DeleteRange(delete) => vec![Request::DeleteRange(delete.clone())],
            Command::Txn(txn) => txn.success.iter().filter_map(|op| op.request.clone()).collect(),
            Command::Compact(compact) => {
                if compact.revision > self.compacted && compact.revision <= self.current() {
                    self.compacted = compact.revision;
                }
                return;
            }
            other => unreachable!("{other:?} is not generated"),
        };
        for op in ops {
            match op {
                Request::Put(put) => {
                    let prev = live.get(&put.key).cloned();
                    let kv = KeyValue {
                        key: put.key.clone(),
                        create_revision: prev.as_ref().map_or(revision, |prev| prev.create_revision),
                        mod_revision: revision,
                        version: prev.as_ref().map_or(1, |prev| prev.version + 1),
                        value: put.value.clone(),
                        lease: 0,
                    };
                    live.insert(put.key, kv.clone());
                    events.push((EventKind::Put, kv, prev));
                }
                Request::DeleteRange(delete) => {
                    let doomed: Vec<Bytes> = live.keys().filter(|key| within(key, &delete.key, &delete.range_end)).cloned().collect();
                    for key in doomed {
                        let prev = live.remove(&key);
                        let kv = KeyValue { key, mod_revision: revision, ..Default::default() };
                        events.push((EventKind::Delete, kv, prev));
                    }
                }
                other => unreachable!("{other:?} is not generated"),
            }
        }
        if !events.is_empty() {
            self.states.insert(revision, live);
            self.events.insert(revision, events);
        }
    }
}

fn within(key: &Bytes, start: &Bytes, end: &Bytes) -> bool {
    match &end[..] {
        [] => key == start,
        [0] => key >= start,
        _ => key >= start && key < end,
    }
}

fn key() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', b'b', 255]), 1..4).prop_map(Bytes::from)
}

fn end() -> impl Strategy<Value = Bytes> {
    prop_oneof![Just(Bytes::new()), Just(Bytes::from_static(&[0])), key()]
}

fn put() -> impl Strategy<Value = Put> {
    (key(), prop::collection::vec(any::<u8>(), 0..3)).prop_map(|(key, value)| Put { key, value: value.into(), ..Default::default() })
}

fn delete() -> impl Strategy<Value = DeleteRange> {
    (key(), end()).prop_map(|(key, range_end)| DeleteRange { key, range_end, prev_kv: false })
}

fn command() -> impl Strategy<Value = Command> {
    // A checked transaction writes no key twice: deletions here, puts of other keys after them.
    let txn = (delete(), prop::collection::btree_map(key(), any::<u8>(), 0..4)).prop_map(|(delete, puts)| {
        let puts = puts
            .into_iter()
            .filter(|(key, _)| !within(key, &delete.key, &delete.range_end))
            .map(|(key, value)| Request::Put(Put { key, value: vec![value].into(), ..Default::default() }));
        let puts: Vec<Request> = puts.collect();
        let requests = std::iter::once(Request::DeleteRange(delete)).chain(puts);
        Command::Txn(Txn { success: requests.map(|request| Op { request: Some(request) }).collect(), ..Default::default() })
    });
    prop_oneof![
        6 => put().prop_map(Command::Put),
        2 => delete().prop_map(Command::DeleteRange),
        2 => txn,
        1 => (1..60i64).prop_map(|revision| Command::Compact(Compact { revision })),
    ]
}

/// What happens between looks: a batch of commands, some scrubbing, maybe a crash after a sync.
#[derive(Clone, Debug)]
struct Step {
    commands: Vec<Command>,
    scrubs: usize,
    restart: bool,
}

fn step() -> impl Strategy<Value = Step> {
    (prop::collection::vec(command(), 1..6), 0..3usize, prop::bool::weighted(0.2)).prop_map(|(commands, scrubs, restart)| Step {
        commands,
        scrubs,
        restart,
    })
}

fn open(disk: &Arc<Memory>) -> Arc<State> {
    State::open(disk.clone(), Arc::new(|| Duration::ZERO)).unwrap()
}

fn check_ranges(state: &State, model: &Model, start: &Bytes, end: &Bytes) {
    for revision in 1..=model.current() + 1 {
        let request = Range { key: start.clone(), range_end: end.clone(), revision, ..Default::default() };
        let found = state.read(|read, revisions| range::range(read, revisions, &request)).unwrap();
        let known = model.states.range(..=revision).next_back().map(|(_, live)| live);
        match found {
            Ok(found) => {
                let live = known.into_iter().flatten();
                let expected: Vec<_> = live.filter(|(key, _)| within(key, start, end)).map(|(_, kv)| kv.clone()).collect();
                assert_eq!((found.count as usize, found.kvs), (expected.len(), expected), "at {revision}");
                assert!(revision >= model.compacted);
            }
            Err(store::mvcc::Failure::Refused(Refusal::Compacted)) => assert!(revision < model.compacted),
            Err(store::mvcc::Failure::Refused(Refusal::FutureRevision)) => assert!(revision > model.current()),
            Err(other) => panic!("{other}"),
        }
    }
}

fn check_history(state: &State, model: &Model) {
    let from = model.compacted.max(1);
    let budget = history::Budget { rows: 3, bytes: 1 << 20 };
    let (mut at, mut seen) = (from, BTreeMap::new());
    while at <= model.current() {
        let chunk = state.read(|read, _| history::read(read, at, model.current(), budget, &mut |_, _| true)).unwrap().unwrap();
        for (revision, events) in chunk.revisions {
            let events: Vec<_> = events.into_iter().map(|event| (event.kind, event.kv, event.prev_kv)).collect();
            assert!(seen.insert(revision, events).is_none(), "revision {revision} came twice");
        }
        at = chunk.seen + 1;
    }
    let mut expected: BTreeMap<i64, Vec<_>> = model.events.range(from..).map(|(at, events)| (*at, events.clone())).collect();
    if let Some(events) = expected.get_mut(&model.compacted) {
        // The pairs before the compacted revision may be gone from disk already.
        let seen = &seen[&model.compacted];
        events.iter_mut().zip(seen).for_each(|(event, seen)| event.2 = event.2.take().filter(|_| seen.2.is_some()));
    }
    assert_eq!(seen, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn versions_and_history_are_what_a_plain_model_says(
        steps in prop::collection::vec(step(), 1..12),
        start in key(),
        end in end(),
    ) {
        let disk = Arc::new(Memory::new());
        let (mut state, mut model) = (open(&disk), Model::new());
        for step in steps {
            state.apply(&step.commands, Batch::default()).unwrap();
            step.commands.iter().for_each(|command| model.apply(command));
            for _ in 0..step.scrubs {
                let before = state.read(|read, _| hash_kv(read, 0, std::env::temp_dir())).unwrap().unwrap();
                state.scrub(2).unwrap();
                let after = state.read(|read, _| hash_kv(read, 0, std::env::temp_dir())).unwrap().unwrap();
                prop_assert_eq!(before, after, "scrubbing shows");
            }
            if step.restart {
                disk.sync().unwrap();
                disk.crash(0);
                state = open(&disk);
            }
            prop_assert_eq!(state.revision(), model.current());
            check_ranges(&state, &model, &start, &end);
            check_ranges(&state, &model, &Bytes::from_static(&[0]), &Bytes::from_static(&[0]));
            check_history(&state, &model);
        }
    }
}
