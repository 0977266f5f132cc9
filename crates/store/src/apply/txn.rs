//! Transactions: compares, then one of two branches.

use super::{delete_range, put, write::Writer};
use crate::{
    command::{Compare, Op, OpResponse, Operand, Relation, Request, Response, Txn, TxnResponse},
    disk::Read,
    mvcc::{KeyRange, Result, range, record::Header},
    refusal::Refusal,
};
use std::{cmp::Ordering, ops::ControlFlow};

pub(super) fn txn(writer: &mut Writer<'_, '_>, request: &Txn) -> Result<TxnResponse> {
    let succeeded = holds(writer.view(), &request.compares)?;
    let branch = if succeeded { &request.success } else { &request.failure };
    let responses = branch.iter().map(|op| run(writer, op)).collect::<Result<_>>()?;
    Ok(TxnResponse { succeeded, responses })
}

fn run(writer: &mut Writer<'_, '_>, op: &Op) -> Result<OpResponse> {
    let response = match op.request.as_ref().ok_or(Refusal::KeyNotFound)? {
        Request::Range(read) => Response::Range(range::range(writer.view(), writer.revisions(), read)?),
        Request::Put(write) => Response::Put(put::put(writer, write)?),
        Request::DeleteRange(delete) => Response::DeleteRange(delete_range::delete_range(writer, delete)?),
        Request::Txn(nested) => Response::Txn(txn(writer, nested)?),
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
pub fn read_only(read: &dyn Read, revisions: crate::mvcc::Revisions, request: &Txn) -> Result<TxnResponse> {
    let succeeded = holds(read, &request.compares)?;
    let branch = if succeeded { &request.success } else { &request.failure };
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

/// Every key of the range satisfies it; with none, an absent key must, which has no value to compare.
fn holds_everywhere(read: &dyn Read, compare: &Compare) -> Result<bool> {
    let Some(operand) = &compare.operand else { return Ok(false) };
    let relation = Relation::try_from(compare.relation).unwrap_or(Relation::Equal);
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
    Ok(!matches!(operand, Operand::Value(_)) && related(relation, order(operand, &absent, &[])))
}

/// The stored field against the operand.
fn order(operand: &Operand, header: &Header, value: &[u8]) -> Ordering {
    match operand {
        Operand::Version(number) => header.version.cmp(number),
        Operand::CreateRevision(number) => header.create_revision.cmp(number),
        Operand::ModRevision(number) => header.mod_revision.cmp(number),
        Operand::Lease(number) => header.lease.cmp(number),
        Operand::Value(bytes) => value.cmp(&bytes[..]),
    }
}

fn related(relation: Relation, order: Ordering) -> bool {
    match relation {
        Relation::Equal => order.is_eq(),
        Relation::NotEqual => order.is_ne(),
        Relation::Greater => order.is_gt(),
        Relation::Less => order.is_lt(),
    }
}
