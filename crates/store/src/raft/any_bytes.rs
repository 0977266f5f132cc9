//! Whatever bytes come from a peer or from the log, they are read as a message or refused, and what was read is applied or
//! refused: never a panic.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest, VoteRequest, VoteResponse};
use proptest::{prelude::*, sample::Index};
use prost::Message;

use super::{
    log_store::LogStore,
    membership,
    reconfigure::Change,
    types::{EntryPayload, SnapshotMeta, StoredMembership, TypeConfig},
    wire::{self, pb},
};
use crate::{
    command::{Command, Compact, DeleteRange, LeaseGrant, Op, Outcome, Put, Range, Request, Txn},
    disk::{Batch, Column, Database, columns::raft_meta, memory::Memory},
    state::State,
};

fn log_id(index: u64) -> pb::LogId {
    pb::LogId { leader: Some(pb::LeaderId { term: 3, member_id: 5 }), index }
}

fn commands() -> Vec<Command> {
    let op = |request| Op { request: Some(request) };
    let put = Put { key: "k".into(), value: "v".into(), lease: 7, ..Default::default() };
    let delete = DeleteRange { key: "a".into(), range_end: "z".into(), prev_kv: true };
    let nested = Txn { failure: vec![op(Request::Range(Range { key: "k".into(), ..Default::default() }))], ..Default::default() };
    vec![
        Command::LeaseGrant(LeaseGrant { id: 7, ttl: 60 }),
        Command::Put(put.clone()),
        Command::Txn(Txn {
            success: vec![op(Request::Put(put)), op(Request::DeleteRange(delete)), op(Request::Txn(nested))],
            ..Default::default()
        }),
        Command::Compact(Compact { revision: 2 }),
    ]
}

fn entries() -> Vec<pb::Entry> {
    use pb::entry::Payload;
    let proposals = commands().into_iter().enumerate();
    let proposals = proposals.map(|(id, command)| pb::Proposal { id: id as u64, command: command.into_bytes() }).collect();
    let member = |id| pb::Member { id, name: "m".into(), peer_urls: vec!["http://h:1".into()], learner: id == 6 };
    let membership =
        pb::Membership { voters: vec![pb::VoterSet { member_ids: vec![5, 7] }], members: vec![member(5), member(6), member(7)] };
    let payloads = [None, Some(Payload::Bundle(pb::Bundle { proposals })), Some(Payload::Membership(membership))];
    payloads.into_iter().zip(4..).map(|(payload, index)| pb::Entry { log_id: Some(log_id(index)), payload }).collect()
}

/// A message of each kind that peers send or that the log has, encoded.
fn messages() -> Vec<Vec<u8>> {
    let vote = Some(pb::Vote { leader: log_id(0).leader, committed: true });
    let append = pb::AppendRequest { vote, prev_log_id: Some(log_id(3)), entries: entries(), leader_commit: Some(log_id(3)) };
    let asked = pb::VoteRequest { vote, last_log_id: Some(log_id(9)), leadership_transfer: true };
    let answered = pb::AppendResponse { result: Some(pb::append_response::Result::Conflict(log_id(4))) };
    let pb::entry::Payload::Membership(membership) = entries().pop().unwrap().payload.unwrap() else { panic!("the last is one") };
    let stored = pb::StoredMembership { log_id: Some(log_id(6)), membership: Some(membership) };
    let meta = pb::SnapshotMeta { last_log_id: Some(log_id(6)), membership: Some(stored.clone()) };
    let outcome = Outcome { revision: 3, result: Err(crate::refusal::Refusal::Compacted) };
    let mut all =
        vec![append.encode_to_vec(), asked.encode_to_vec(), answered.encode_to_vec(), stored.encode_to_vec(), meta.encode_to_vec()];
    all.extend(entries().iter().map(Message::encode_to_vec));
    all.extend(commands().into_iter().map(|command| command.into_bytes().to_vec()));
    all.push(outcome.into_bytes().to_vec());
    all
}

/// Any bytes, and such as nearly are a message.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<Index>(), prop_oneof![any::<u8>(), Just(0xff), Just(0)]);
    let near = (any::<Index>(), prop::collection::vec(change, 1..4), any::<Option<Index>>()).prop_map(|(which, changes, cut)| {
        let messages = messages();
        let mut message = messages[which.index(messages.len())].clone();
        for (at, with) in changes {
            let at = at.index(message.len());
            message[at] = with;
        }
        message.truncate(cut.map_or(message.len(), |cut| cut.index(message.len())));
        message
    });
    prop_oneof![1 => prop::collection::vec(any::<u8>(), 0..200), 4 => near]
}

/// Reads bytes as everything that a peer sends; the commands in them.
fn read_all(bytes: &[u8]) -> Vec<Command> {
    let _ = pb::VoteRequest::decode(bytes).map(VoteRequest::<TypeConfig>::try_from);
    let _ = pb::VoteResponse::decode(bytes).map(VoteResponse::<TypeConfig>::try_from);
    let _ = pb::AppendResponse::decode(bytes).map(wire::append_result);
    let _ = pb::TransferLeaderRequest::decode(bytes).map(TransferLeaderRequest::<TypeConfig>::try_from);
    let _ = pb::SnapshotMeta::decode(bytes).map(SnapshotMeta::try_from);
    let _ = pb::StoredMembership::decode(bytes).map(StoredMembership::try_from);
    let _ = pb::ReconfigureRequest::decode(bytes).map(Change::try_from);
    let _ = (pb::SnapshotMessage::decode(bytes), pb::ProposeRequest::decode(bytes), Outcome::from_bytes(Bytes::copy_from_slice(bytes)));
    let one = pb::Entry::decode(bytes).ok().and_then(|entry| wire::entry(entry).ok());
    let many = pb::AppendRequest::decode(bytes).ok().and_then(|request| AppendEntriesRequest::<TypeConfig>::try_from(request).ok());
    let entries = one.into_iter().chain(many.into_iter().flat_map(|request| request.entries));
    let proposals = entries.flat_map(|entry| match entry.payload {
        EntryPayload::Normal(bundle) => bundle.0.to_vec(),
        _ => Vec::new(),
    });
    let within = proposals.map(|proposal| proposal.command).chain([Bytes::copy_from_slice(bytes)]);
    within.filter_map(|bytes| Command::from_bytes(bytes).ok()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_of_a_peer_are_read_and_applied_without_a_panic(bytes in bytes()) {
        let state = State::open(Arc::new(Memory::new()), Arc::new(|| Duration::ZERO)).unwrap();
        for command in read_all(&bytes) {
            let outcomes = state.apply(&[command.in_term(3)], Batch::default()).unwrap();
            let _ = outcomes.into_iter().map(Outcome::into_bytes).count();
        }
    }

    #[test]
    fn any_bytes_in_the_log_are_an_error_or_a_log_without_a_panic(name in 0..4usize, row in bytes(), entry in bytes(), index in any::<u64>()) {
        let name = [raft_meta::VOTE, raft_meta::COMMITTED, raft_meta::PURGED, raft_meta::IDENTITY][name];
        let disk = Memory::new();
        let mut batch = Batch::default();
        batch.put(Column::RaftMeta, name, row);
        batch.put(Column::RaftLog, index.to_be_bytes().to_vec(), entry);
        disk.write(batch).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let Ok(mut log) = LogStore::open(Arc::new(disk), |_| ()) else { return };
            let _ = log.identity();
            let _ = openraft::storage::RaftLogStorage::get_log_state(&mut log).await;
            let _ = openraft::storage::RaftLogReader::try_get_log_entries(&mut log, 0..=u64::MAX).await;
        });
    }

    #[test]
    fn any_list_of_members_is_read_without_a_panic(text in "[a-z0-9=,:/.\\[\\]%-]{0,60}") {
        if let Ok(listed) = membership::parse_initial_cluster(&text) {
            prop_assert!(listed.keys().all(|name| text.contains(name.as_str())));
        }
    }
}

#[test]
fn the_messages_are_read_as_what_they_are() {
    let commands = commands().len();
    let read: Vec<_> = messages().iter().map(|message| read_all(message).len()).collect();
    // Those of the request to append, of the entry with a bundle, and each command for itself.
    assert!(read.iter().filter(|read| **read >= commands).count() >= 2, "{read:?}");
    assert!(read.iter().filter(|read| **read >= 1).count() >= 2 + commands, "{read:?}");
}
