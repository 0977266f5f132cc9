//! Whether somebody may have a command carried out.

use super::permissions::{Access, Caller, Policy};
use crate::{
    apply::lease,
    command::{Change, Command, Compare, DeleteRange, Op, Put, Request, Txn},
    disk::Read,
    mvcc::{KeyRange, Result},
    refusal::Refusal,
};
use bytes::Bytes;

/// Checks a command against the state it is about to change. What nobody asks for but the store itself is allowed.
pub fn permit(policy: &Policy, read: &dyn Read, by: Option<&Caller>, command: &Command) -> Result<()> {
    if !policy.enabled() {
        return Ok(());
    }
    let nobody = Caller::default();
    let check = Check { policy, read, caller: by.unwrap_or(&nobody) };
    match command {
        Command::Put(put) => check.put(put),
        Command::DeleteRange(delete) => check.delete(delete),
        Command::Txn(txn) => check.txn(txn),
        Command::LeaseGrant(_) => Ok(policy.named(check.caller)?),
        // Without a name it ended by itself.
        Command::LeaseRevoke(revoke) if by.is_some() => check.lease(revoke.id, Access::Write),
        Command::Auth(auth) if !matches!(auth.change, Some(Change::Authenticate(_))) => Ok(policy.root(check.caller)?),
        Command::By(_) => Err(Refusal::PermissionDenied.into()),
        _ => Ok(()),
    }
}

/// Checks a transaction that only reads.
pub fn permit_reading(policy: &Policy, read: &dyn Read, caller: &Caller, txn: &Txn) -> Result<()> {
    if policy.enabled() { Check { policy, read, caller }.txn(txn) } else { Ok(()) }
}

/// Checks all keys of a lease: who may not write one of them may not end it, nor bind another key's life to it.
pub fn permit_lease(policy: &Policy, read: &dyn Read, caller: &Caller, id: i64, access: Access) -> Result<()> {
    if policy.enabled() { Check { policy, read, caller }.lease(id, access) } else { Ok(()) }
}

struct Check<'a> {
    policy: &'a Policy,
    read: &'a dyn Read,
    caller: &'a Caller,
}

impl Check<'_> {
    fn keys(&self, access: Access, key: &Bytes, range_end: &Bytes) -> Result<()> {
        Ok(self.policy.may(self.caller, access, &KeyRange::new(key, range_end))?)
    }

    fn put(&self, put: &Put) -> Result<()> {
        self.keys(Access::Write, &put.key, &Bytes::new())?;
        if put.lease != 0 {
            self.lease(put.lease, Access::Write)?;
        }
        if put.prev_kv { self.keys(Access::Read, &put.key, &Bytes::new()) } else { Ok(()) }
    }

    fn delete(&self, delete: &DeleteRange) -> Result<()> {
        self.keys(Access::Write, &delete.key, &delete.range_end)?;
        if delete.prev_kv { self.keys(Access::Read, &delete.key, &delete.range_end) } else { Ok(()) }
    }

    /// Both branches: which one runs tells something about the keys compared.
    fn txn(&self, txn: &Txn) -> Result<()> {
        let compare = |compare: &Compare| self.keys(Access::Read, &compare.key, &compare.range_end);
        txn.compares.iter().try_for_each(compare)?;
        txn.success.iter().chain(&txn.failure).try_for_each(|op| self.op(op))
    }

    fn op(&self, op: &Op) -> Result<()> {
        match &op.request {
            Some(Request::Range(range)) => self.keys(Access::Read, &range.key, &range.range_end),
            Some(Request::Put(put)) => self.put(put),
            Some(Request::DeleteRange(delete)) => self.delete(delete),
            Some(Request::Txn(nested)) => self.txn(nested),
            None => Ok(()),
        }
    }

    fn lease(&self, id: i64, access: Access) -> Result<()> {
        self.policy.named(self.caller)?;
        if self.policy.root(self.caller).is_ok() {
            return Ok(());
        }
        lease::keys(self.read, id)?.iter().try_for_each(|key| self.keys(access, key, &Bytes::new()))
    }
}
