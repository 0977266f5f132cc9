//! Changes of users.

use super::{TokenChange, keep_root, new_revision, put, remove};
use crate::{
    apply::write::Writer,
    auth::records::{self, ROOT, User, UserOptions},
    command::{Authenticate, UserAdd, UserPassword, UserRole},
    disk::columns::AuthPart,
    mvcc::Result,
    refusal::Refusal,
};

/// The token, which is given only if nothing changed since the password was looked at.
pub(super) fn authenticate(writer: &mut Writer<'_, '_>, proof: &Authenticate) -> Result<String> {
    if !records::enabled(writer.view())? {
        return Err(Refusal::AuthNotEnabled.into());
    }
    if records::revision(writer.view())? != proof.revision {
        return Err(Refusal::AuthOldRevision.into());
    }
    let user = records::user(writer.view(), &proof.user)?.filter(|user| !user.has_no_password());
    user.ok_or(Refusal::AuthFailed)?;
    let token = format!("{}.{}", proof.token, writer.revisions().current);
    writer.tokens_changed(TokenChange::Given { user: proof.user.clone(), token: token.clone() });
    Ok(token)
}

pub(super) fn add(writer: &mut Writer<'_, '_>, add: &UserAdd) -> Result<bool> {
    if add.name.is_empty() {
        return Err(Refusal::UserEmpty.into());
    }
    if records::user(writer.view(), &add.name)?.is_some() {
        return Err(Refusal::UserExists.into());
    }
    let options = Some(UserOptions { no_password: add.no_password });
    let password = if add.no_password { Default::default() } else { add.password.clone() };
    write(writer, &User { name: add.name.clone().into(), password, roles: Vec::new(), options });
    new_revision(writer)
}

fn write(writer: &mut Writer<'_, '_>, user: &User) {
    put(writer, AuthPart::Users, &user.name, user);
}

fn find(writer: &Writer<'_, '_>, name: &str) -> Result<User> {
    Ok(records::user(writer.view(), name)?.ok_or(Refusal::UserNotFound)?)
}

pub(super) fn delete(writer: &mut Writer<'_, '_>, name: &str) -> Result<bool> {
    keep_root(writer.view(), name == ROOT)?;
    find(writer, name)?;
    remove(writer, AuthPart::Users, name);
    writer.tokens_changed(TokenChange::Withdrawn { user: name.to_owned() });
    new_revision(writer)
}

pub(super) fn password(writer: &mut Writer<'_, '_>, change: &UserPassword) -> Result<bool> {
    let user = find(writer, &change.name)?;
    let password = if user.has_no_password() { Default::default() } else { change.password.clone() };
    write(writer, &User { password, ..user });
    writer.tokens_changed(TokenChange::Withdrawn { user: change.name.clone() });
    new_revision(writer)
}

/// The role of root need not be there.
pub(super) fn grant_role(writer: &mut Writer<'_, '_>, grant: &UserRole) -> Result<bool> {
    let mut user = find(writer, &grant.user)?;
    if grant.role != ROOT {
        records::role(writer.view(), &grant.role)?.ok_or(Refusal::RoleNotFound)?;
    }
    if user.roles.contains(&grant.role) {
        return Ok(false);
    }
    user.roles.push(grant.role.clone());
    user.roles.sort();
    write(writer, &user);
    new_revision(writer)
}

pub(super) fn revoke_role(writer: &mut Writer<'_, '_>, revoke: &UserRole) -> Result<bool> {
    keep_root(writer.view(), revoke.user == ROOT && revoke.role == ROOT)?;
    let user = find(writer, &revoke.user)?;
    if !take_role(writer, user, &revoke.role) {
        return Err(Refusal::RoleNotGranted.into());
    }
    new_revision(writer)
}

/// Takes a role from a user; whether they had it.
pub(super) fn take_role(writer: &mut Writer<'_, '_>, mut user: User, role: &str) -> bool {
    let had = user.roles.len();
    user.roles.retain(|granted| granted != role);
    let taken = user.roles.len() < had;
    if taken {
        write(writer, &user);
    }
    taken
}
