//! What a request must satisfy before anything is done for it.

use super::Limits;
use crate::{
    command::{DeleteRange, Put, Range, Request, SortOrder, SortTarget, Txn},
    mvcc::KeyRange,
    refusal::Refusal,
};
use bytes::Bytes;
use std::collections::BTreeSet;

type Result = std::result::Result<(), Refusal>;

/// Transactions within each other at most. Protobuf decoders stop at 100 messages within each other, a transaction is
/// two, and what passes here must still decode from the log and in the answer, each of which wraps it further.
const DEEPEST: usize = 32;

/// A read names a key and sorts by what there is.
pub fn range(range: &Range) -> Result {
    key(&range.key)?;
    SortOrder::try_from(range.sort_order).map_err(|_| Refusal::InvalidSortOption)?;
    SortTarget::try_from(range.sort_target).map_err(|_| Refusal::InvalidSortOption)?;
    Ok(())
}

/// A put names a key, and gives no value or lease it wants ignored.
pub fn put(put: &Put) -> Result {
    key(&put.key)?;
    if put.ignore_value && !put.value.is_empty() {
        return Err(Refusal::ValueProvided);
    }
    if put.ignore_lease && put.lease != 0 {
        return Err(Refusal::LeaseProvided);
    }
    Ok(())
}

/// A deletion names a key.
pub fn delete_range(delete: &DeleteRange) -> Result {
    key(&delete.key)
}

fn key(key: &Bytes) -> Result {
    if key.is_empty() { Err(Refusal::EmptyKey) } else { Ok(()) }
}

/// A transaction is neither too long nor too deep, its parts are sound, and no key is written twice.
pub fn txn(txn: &Txn, limits: &Limits) -> Result {
    operations(txn, limits.txn_ops, DEEPEST)?;
    writes(txn).map(drop)
}

fn operations(txn: &Txn, allowed: usize, levels: usize) -> Result {
    let longest = txn.compares.len().max(txn.success.len()).max(txn.failure.len());
    if longest > allowed || levels == 0 {
        return Err(Refusal::TooManyOps);
    }
    txn.compares.iter().try_for_each(|compare| key(&compare.key))?;
    for op in txn.success.iter().chain(&txn.failure) {
        match &op.request {
            Some(Request::Range(request)) => range(request)?,
            Some(Request::Put(request)) => put(request)?,
            Some(Request::DeleteRange(request)) => delete_range(request)?,
            // A nested one may only use what its parent leaves, as in etcd.
            Some(Request::Txn(nested)) => operations(nested, allowed - longest, levels - 1)?,
            None => return Err(Refusal::KeyNotFound),
        }
    }
    Ok(())
}

/// Keys put and ranges deleted by a branch.
#[derive(Default)]
struct Writes {
    puts: BTreeSet<Bytes>,
    deletes: Vec<KeyRange>,
}

fn writes(txn: &Txn) -> std::result::Result<Writes, Refusal> {
    let mut all = branch_writes(&txn.success)?;
    let other = branch_writes(&txn.failure)?;
    // Only one branch runs, so the two may write the same.
    all.puts.extend(other.puts);
    all.deletes.extend(other.deletes);
    Ok(all)
}

fn branch_writes(ops: &[crate::command::Op]) -> std::result::Result<Writes, Refusal> {
    let mut writes_of = Writes::default();
    for op in ops {
        if let Some(Request::DeleteRange(delete)) = &op.request {
            writes_of.deletes.push(KeyRange::new(&delete.key, &delete.range_end));
        }
    }
    for op in ops {
        let Some(Request::Txn(nested)) = &op.request else { continue };
        let nested = writes(nested)?;
        if nested.puts.iter().any(|key| writes_of.puts.contains(key) || deleted(&writes_of.deletes, key)) {
            return Err(Refusal::DuplicateKey);
        }
        writes_of.puts.extend(nested.puts);
        writes_of.deletes.extend(nested.deletes);
    }
    for op in ops {
        let Some(Request::Put(put)) = &op.request else { continue };
        if deleted(&writes_of.deletes, &put.key) || !writes_of.puts.insert(put.key.clone()) {
            return Err(Refusal::DuplicateKey);
        }
    }
    Ok(writes_of)
}

/// Some deletion takes the key. As in etcd, one of everything from a key on is not looked at: there that range has no end,
/// and counts as empty.
fn deleted(deletes: &[KeyRange], key: &Bytes) -> bool {
    deletes.iter().any(|range| range.end.is_some() && range.contains(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        command::{Command, Compare, Op},
        rpc::convert,
    };
    use prost::Message;

    fn op(request: Request) -> Op {
        Op { request: Some(request) }
    }

    fn put_op(key: &'static str) -> Op {
        op(Request::Put(Put { key: key.into(), ..Default::default() }))
    }

    fn delete_op(key: &'static str, end: &'static str) -> Op {
        op(Request::DeleteRange(DeleteRange { key: key.into(), range_end: end.into(), prev_kv: false }))
    }

    fn nested(success: Vec<Op>, failure: Vec<Op>) -> Op {
        op(Request::Txn(Txn { compares: vec![], success, failure }))
    }

    fn check(success: Vec<Op>, failure: Vec<Op>) -> Result {
        txn(&Txn { compares: vec![], success, failure }, &Limits::default())
    }

    #[test]
    fn a_key_is_written_once() {
        let twice = Err(Refusal::DuplicateKey);
        assert_eq!(check(vec![put_op("a"), put_op("a")], vec![]), twice);
        assert_eq!(check(vec![put_op("b"), delete_op("a", "c")], vec![]), twice);
        assert_eq!(check(vec![put_op("a"), nested(vec![], vec![put_op("a")])], vec![]), twice);
        assert_eq!(check(vec![delete_op("a", ""), nested(vec![put_op("a")], vec![])], vec![]), twice);
        assert_eq!(check(vec![nested(vec![put_op("a")], vec![]), nested(vec![put_op("a")], vec![])], vec![]), twice);
    }

    #[test]
    fn branches_may_write_the_same_and_deletions_may_overlap() {
        assert_eq!(check(vec![put_op("a")], vec![put_op("a"), delete_op("b", "")]), Ok(()));
        assert_eq!(check(vec![delete_op("a", "c"), delete_op("b", "d"), put_op("x")], vec![]), Ok(()));
        assert_eq!(check(vec![nested(vec![put_op("a")], vec![put_op("a")])], vec![]), Ok(()));
    }

    #[test]
    fn a_transaction_has_a_longest_length() {
        let ops = |count: usize| (0..count).map(|_| delete_op("a", "")).collect::<Vec<_>>();
        assert_eq!(check(ops(128), vec![]), Ok(()));
        assert_eq!(check(vec![], ops(129)), Err(Refusal::TooManyOps));
        assert_eq!(check(vec![nested(ops(127), vec![])], vec![]), Ok(()));
        assert_eq!(check(vec![nested(ops(128), vec![])], vec![]), Err(Refusal::TooManyOps));
    }

    /// A transaction of so many levels, as it comes off the wire.
    fn of_depth(levels: usize) -> Txn {
        use etcd::etcdserverpb::{RequestOp, TxnRequest, request_op};
        let wrap = |inner, _| {
            let op = RequestOp { request: Some(request_op::Request::RequestTxn(inner)) };
            TxnRequest { success: vec![op], ..Default::default() }
        };
        let request = (1..levels).fold(TxnRequest::default(), wrap);
        convert::txn(TxnRequest::decode(&*request.encode_to_vec()).unwrap())
    }

    #[test]
    fn a_transaction_too_deep_for_the_log_is_refused() {
        let deepest = of_depth(DEEPEST);
        assert_eq!(txn(&deepest, &Limits::default()), Ok(()));
        let command = Command::Txn(deepest);
        assert_eq!(Command::from_bytes(command.clone().into_bytes()).unwrap(), command);
        for levels in [DEEPEST + 1, 49, 50] {
            assert_eq!(txn(&of_depth(levels), &Limits::default()), Err(Refusal::TooManyOps));
        }
    }

    #[test]
    fn keys_are_given() {
        let compares = vec![Compare::default()];
        let request = Txn { compares, ..Default::default() };
        assert_eq!(txn(&request, &Limits::default()), Err(Refusal::EmptyKey));
        assert_eq!(check(vec![put_op("")], vec![]), Err(Refusal::EmptyKey));
        assert_eq!(put(&Put { key: "k".into(), value: "v".into(), ignore_value: true, ..Default::default() }), Err(Refusal::ValueProvided));
    }
}
