//! Changes of users and roles, and whether requests are checked.

mod roles;
#[cfg(test)]
mod tests;
mod users;

use super::write::Writer;
use crate::{
    auth::{
        Policy,
        records::{self, ENABLED, REVISION, ROOT},
    },
    command::{Auth, Change, Done, Response, Token},
    disk::{
        Column, Read,
        columns::{AuthPart, auth_key},
    },
    mvcc::Result,
    refusal::Refusal,
};
use bytes::Bytes;
use prost::Message;
use std::sync::Arc;

/// What the tokens given out must know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenChange {
    /// There is a new one.
    Given {
        /// Whose it is.
        user: String,
        /// The token.
        token: String,
    },
    /// Those of a user are no longer good.
    Withdrawn {
        /// The user.
        user: String,
    },
    /// None is good any longer.
    AllWithdrawn,
}

pub(super) fn change(writer: &mut Writer<'_, '_>, auth: &Auth) -> Result<Response> {
    let changed = match auth.change.as_ref().ok_or(Refusal::Unknown)? {
        Change::Authenticate(proof) => return users::authenticate(writer, proof).map(|token| Response::Token(Token { token })),
        Change::Enable(_) => enable(writer)?,
        Change::Disable(_) => disable(writer)?,
        Change::UserAdd(add) => users::add(writer, add)?,
        Change::UserDelete(user) => users::delete(writer, &user.name)?,
        Change::UserPassword(password) => users::password(writer, password)?,
        Change::UserGrantRole(grant) => users::grant_role(writer, grant)?,
        Change::UserRevokeRole(revoke) => users::revoke_role(writer, revoke)?,
        Change::RoleAdd(role) => roles::add(writer, &role.name)?,
        Change::RoleDelete(role) => roles::delete(writer, &role.name)?,
        Change::RoleGrantPermission(grant) => roles::grant_permission(writer, grant)?,
        Change::RoleRevokePermission(revoke) => roles::revoke_permission(writer, revoke)?,
    };
    if changed {
        let policy = Policy::read(writer.view())?;
        writer.view_mut().policy = Arc::new(policy);
    }
    Ok(Response::Done(Done {}))
}

/// As in etcd, that alone is no new revision. All of these tell whether anything changed.
fn enable(writer: &mut Writer<'_, '_>) -> Result<bool> {
    if records::enabled(writer.view())? {
        return Ok(false);
    }
    let root = records::user(writer.view(), ROOT)?.ok_or(Refusal::RootUserNotExist)?;
    if !root.is_root() {
        return Err(Refusal::RootRoleNotExist.into());
    }
    set(writer, ENABLED, &[1]);
    Ok(true)
}

fn disable(writer: &mut Writer<'_, '_>) -> Result<bool> {
    if !records::enabled(writer.view())? {
        return Ok(false);
    }
    set(writer, ENABLED, &[0]);
    writer.tokens_changed(TokenChange::AllWithdrawn);
    new_revision(writer)
}

fn set(writer: &mut Writer<'_, '_>, name: &[u8], value: &[u8]) {
    writer.view_mut().put(Column::Auth, auth_key(AuthPart::Settings, name), Bytes::copy_from_slice(value));
}

/// What was proved before is proved no longer.
fn new_revision(writer: &mut Writer<'_, '_>) -> Result<bool> {
    let revision = records::revision(writer.view())? + 1;
    set(writer, REVISION, &revision.to_be_bytes());
    Ok(true)
}

fn put(writer: &mut Writer<'_, '_>, part: AuthPart, name: &[u8], record: &impl Message) {
    writer.view_mut().put(Column::Auth, auth_key(part, name), record.encode_to_vec());
}

fn remove(writer: &mut Writer<'_, '_>, part: AuthPart, name: &str) {
    writer.view_mut().delete(Column::Auth, auth_key(part, name.as_bytes()));
}

/// Refuses what would leave nobody who may do everything.
fn keep_root(read: &dyn Read, endangers: bool) -> Result<()> {
    if endangers && records::enabled(read)? { Err(Refusal::InvalidAuthManagement.into()) } else { Ok(()) }
}
