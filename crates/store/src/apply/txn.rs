//! Transactions: compares, then one of two branches.

use super::{delete_range, put, write::Writer};
use crate::{
    command::{Compare, Op, OpResponse, Operand, Relation, Request, Response, Txn, TxnResponse},
    disk::Read,
    mvcc::{KeyRange, Result, Revisions, range, record::Header},
    refusal::Refusal,
};
use std::{cmp::Ordering, ops::ControlFlow};

pub(super) fn txn(writer: &mut Writer<'_, '_>, request: &Txn) -> Result<TxnResponse> {
    let mut path = Vec::new();
    decide(writer.view(), writer.revisions(), request, &mut path)?;
    perform(writer, request, &mut path.into_iter())
}

/// Finds out which branches run, one after the other as they are mentioned. As in etcd, all compares, those of nested
/// transactions too, see the state before the first write; so do the revisions that reads ask for.
fn decide(read: &dyn Read, revisions: Revisions, request: &Txn, path: &mut Vec<bool>) -> Result<()> {
    let succeeded = holds(read, &request.compares)?;
    path.push(succeeded);
    for op in branch(request, succeeded) {
        match &op.request {
            Some(Request::Range(request)) => drop(range::resolve(revisions, request.revision)?),
            Some(Request::Txn(nested)) => decide(read, revisions, nested, path)?,
            _ => {}
        }
    }
    Ok(())
}

fn branch(request: &Txn, succeeded: bool) -> &[Op] {
    if succeeded { &request.success } else { &request.failure }
}

/// Runs the branches that were decided on.
fn perform(writer: &mut Writer<'_, '_>, request: &Txn, path: &mut std::vec::IntoIter<bool>) -> Result<TxnResponse> {
    let succeeded = path.next().unwrap_or_default();
    let responses = branch(request, succeeded).iter().map(|op| run(writer, op, path)).collect::<Result<_>>()?;
    Ok(TxnResponse { succeeded, responses })
}

fn run(writer: &mut Writer<'_, '_>, op: &Op, path: &mut std::vec::IntoIter<bool>) -> Result<OpResponse> {
    let response = match op.request.as_ref().ok_or(Refusal::KeyNotFound)? {
        Request::Range(read) => Response::Range(range::range(writer.view(), writer.revisions(), read)?),
        Request::Put(write) => Response::Put(put::put(writer, write)?),
        Request::DeleteRange(delete) => Response::DeleteRange(delete_range::delete_range(writer, delete)?),
        Request::Txn(nested) => Response::Txn(perform(writer, nested, path)?),
    };
    Ok(OpResponse { response: Some(response) })
}

/// Some branch, however deep, puts.
pub(super) fn puts(txn: &Txn) -> bool {
    txn.success.iter().chain(&txn.failure).any(|op| match &op.request {
        Some(Request::Put(_)) => true,
        Some(Request::Txn(nested)) => puts(nested),
        _ => false,
    })
}

/// Answers a transaction that only reads, as [`super::apply`] would.
pub fn read_only(read: &dyn Read, revisions: Revisions, request: &Txn) -> Result<TxnResponse> {
    let succeeded = holds(read, &request.compares)?;
    let branch = branch(request, succeeded);
    let mut responses = Vec::with_capacity(branch.len());
    for op in branch {
        let response = match op.request.as_ref() {
            Some(Request::Range(request)) => Response::Range(range::range(read, revisions, request)?),
            Some(Request::Txn(nested)) => Response::Txn(read_only(read, revisions, nested)?),
            _ => return Err(Refusal::KeyNotFound.into()),
        };
        responses.push(OpResponse { response: Some(response) });
    }
    Ok(TxnResponse { succeeded, responses })
}

fn holds(read: &dyn Read, compares: &[Compare]) -> Result<bool> {
    for compare in compares {
        if !holds_everywhere(read, compare)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Every key of the range satisfies it; with none, an absent key must, which has no value to compare. As in etcd, a field
/// that is not known counts as equal, and a relation that is not known as satisfied.
fn holds_everywhere(read: &dyn Read, compare: &Compare) -> Result<bool> {
    let operand = compare.operand.as_ref();
    let relation = Relation::try_from(compare.relation).ok();
    let (mut found, mut all) = (false, true);
    range::visit(read, &KeyRange::new(&compare.key, &compare.range_end), None, &mut |_, header, value| {
        found = true;
        all = related(relation, order(operand, &header, value));
        if all { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    if found {
        return Ok(all);
    }
    let absent = Header { create_revision: 0, mod_revision: 0, version: 0, lease: 0, sub: 0 };
    Ok(!matches!(operand, Some(Operand::Value(_))) && related(relation, order(operand, &absent, &[])))
}

/// The stored field against the operand.
fn order(operand: Option<&Operand>, header: &Header, value: &[u8]) -> Ordering {
    let Some(operand) = operand else { return Ordering::Equal };
    match operand {
        Operand::Version(number) => header.version.cmp(number),
        Operand::CreateRevision(number) => header.create_revision.cmp(number),
        Operand::ModRevision(number) => header.mod_revision.cmp(number),
        Operand::Lease(number) => header.lease.cmp(number),
        Operand::Value(bytes) => value.cmp(&bytes[..]),
    }
}

fn related(relation: Option<Relation>, order: Ordering) -> bool {
    match relation {
        Some(Relation::Equal) => order.is_eq(),
        Some(Relation::NotEqual) => order.is_ne(),
        Some(Relation::Greater) => order.is_gt(),
        Some(Relation::Less) => order.is_lt(),
        None => true,
    }
}
