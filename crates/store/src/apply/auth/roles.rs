//! Changes of roles.

use super::{keep_root, new_revision, put, remove, users::take_role};
use crate::{
    apply::write::Writer,
    auth::records::{self, ROOT, Role},
    command::{RoleKeys, RolePermission},
    disk::columns::AuthPart,
    mvcc::Result,
    refusal::Refusal,
};

pub(super) fn add(writer: &mut Writer<'_, '_>, name: &str) -> Result<bool> {
    if name.is_empty() {
        return Err(Refusal::RoleEmpty.into());
    }
    if records::role(writer.view(), name)?.is_some() {
        return Err(Refusal::RoleExists.into());
    }
    write(writer, &Role { name: name.to_owned().into(), permissions: Vec::new() });
    new_revision(writer)
}

fn write(writer: &mut Writer<'_, '_>, role: &Role) {
    put(writer, AuthPart::Roles, &role.name, role);
}

fn find(writer: &Writer<'_, '_>, name: &str) -> Result<Role> {
    Ok(records::role(writer.view(), name)?.ok_or(Refusal::RoleNotFound)?)
}

pub(super) fn delete(writer: &mut Writer<'_, '_>, name: &str) -> Result<bool> {
    keep_root(writer.view(), name == ROOT)?;
    find(writer, name)?;
    remove(writer, AuthPart::Roles, name);
    for user in records::users(writer.view())? {
        take_role(writer, user, name);
    }
    new_revision(writer)
}

pub(super) fn grant_permission(writer: &mut Writer<'_, '_>, grant: &RolePermission) -> Result<bool> {
    let permission = grant.permission.as_ref().ok_or(Refusal::PermissionNotGiven)?;
    if !permission.is_sound() {
        return Err(Refusal::InvalidAuthManagement.into());
    }
    let mut role = find(writer, &grant.role)?;
    let same = |granted: &&mut records::Permission| (&granted.key, &granted.range_end) == (&permission.key, &permission.range_end);
    match role.permissions.iter_mut().find(same) {
        Some(granted) => granted.kind = permission.kind,
        None => {
            role.permissions.push(permission.clone());
            role.permissions.sort_by(|a, b| a.key.cmp(&b.key));
        }
    }
    write(writer, &role);
    new_revision(writer)
}

pub(super) fn revoke_permission(writer: &mut Writer<'_, '_>, revoke: &RoleKeys) -> Result<bool> {
    let mut role = find(writer, &revoke.role)?;
    let had = role.permissions.len();
    role.permissions.retain(|granted| granted.key != revoke.key || granted.range_end != revoke.range_end);
    if role.permissions.len() == had {
        return Err(Refusal::PermissionNotGranted.into());
    }
    write(writer, &role);
    new_revision(writer)
}
