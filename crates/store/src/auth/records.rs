//! The rows of [`Column::Auth`]: etcd's messages `authpb.User` and `authpb.Role`, and two settings.

use crate::disk::{
    Column, Error, Read, Result,
    columns::{AuthPart, auth_key, read_auth_key},
};
use bytes::Bytes;
use prost::Message;

/// The user and the role that may do everything.
pub const ROOT: &str = "root";

/// Revision of users and roles nobody changed yet.
pub const FIRST_REVISION: u64 = 1;

/// Setting: whether requests are checked, one byte.
pub const ENABLED: &[u8] = b"authEnabled";

/// Setting: how often users and roles were changed, u64.
pub const REVISION: &[u8] = b"authRevision";

/// A user; field numbers are `authpb.User`'s.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct User {
    /// The name.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// The password's hash; empty for none.
    #[prost(bytes = "bytes", tag = "2")]
    pub password: Bytes,
    /// Names of the roles granted, in order.
    #[prost(string, repeated, tag = "3")]
    pub roles: Vec<String>,
    /// Absent in rows of old versions of etcd.
    #[prost(message, optional, tag = "4")]
    pub options: Option<UserOptions>,
}

/// See [`User::options`].
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct UserOptions {
    /// The user proves who they are by a certificate.
    #[prost(bool, tag = "1")]
    pub no_password: bool,
}

impl User {
    /// No password leads in.
    pub fn has_no_password(&self) -> bool {
        self.options.is_some_and(|options| options.no_password)
    }

    /// May do everything.
    pub fn is_root(&self) -> bool {
        self.roles.iter().any(|role| role == ROOT)
    }
}

/// A role; field numbers are `authpb.Role`'s.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Role {
    /// The name.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// What it allows, in order of keys.
    #[prost(message, repeated, tag = "2")]
    pub permissions: Vec<Permission>,
}

/// What a role allows; field numbers are `authpb.Permission`'s.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Permission {
    /// To read, to write, or both.
    #[prost(enumeration = "Kind", tag = "1")]
    pub kind: i32,
    /// First key.
    #[prost(bytes = "bytes", tag = "2")]
    pub key: Bytes,
    /// End of the range, as in [`crate::mvcc::KeyRange`].
    #[prost(bytes = "bytes", tag = "3")]
    pub range_end: Bytes,
}

/// What a [`Permission`] is for; numbers are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Kind {
    /// To read.
    Read = 0,
    /// To write.
    Write = 1,
    /// Both.
    ReadWrite = 2,
}

fn decode<M: Message + Default>(row: &[u8], what: &'static str) -> Result<M> {
    M::decode(row).map_err(|_| Error::Corrupt { column: Column::Auth, what })
}

const NO_USER: &str = "a user is a message";
const NO_ROLE: &str = "a role is a message";

/// The user of a name.
pub fn user(read: &dyn Read, name: &str) -> Result<Option<User>> {
    let row = read.get(Column::Auth, &auth_key(AuthPart::Users, name.as_bytes()))?;
    row.map(|row| decode(&row, NO_USER)).transpose()
}

/// The role of a name.
pub fn role(read: &dyn Read, name: &str) -> Result<Option<Role>> {
    let row = read.get(Column::Auth, &auth_key(AuthPart::Roles, name.as_bytes()))?;
    row.map(|row| decode(&row, NO_ROLE)).transpose()
}

/// All users, by name.
pub fn users(read: &dyn Read) -> Result<Vec<User>> {
    list(read, AuthPart::Users, NO_USER)
}

/// All roles, by name.
pub fn roles(read: &dyn Read) -> Result<Vec<Role>> {
    list(read, AuthPart::Roles, NO_ROLE)
}

fn list<M: Message + Default>(read: &dyn Read, part: AuthPart, what: &'static str) -> Result<Vec<M>> {
    let mut cursor = read.scan(Column::Auth, &auth_key(part, b""), None)?;
    let mut found = Vec::new();
    while let Some((key, row)) = cursor.row() {
        if read_auth_key(key)?.0 != part {
            break;
        }
        found.push(decode(row, what)?);
        cursor.advance()?;
    }
    Ok(found)
}

/// Requests are checked.
pub fn enabled(read: &dyn Read) -> Result<bool> {
    let row = read.get(Column::Auth, &auth_key(AuthPart::Settings, ENABLED))?;
    Ok(row.is_some_and(|row| row[..] == [1]))
}

/// How often users and roles were changed.
pub fn revision(read: &dyn Read) -> Result<u64> {
    let Some(row) = read.get(Column::Auth, &auth_key(AuthPart::Settings, REVISION))? else { return Ok(FIRST_REVISION) };
    let corrupt = |what| Error::Corrupt { column: Column::Auth, what };
    match row[..].try_into().map(u64::from_be_bytes) {
        Ok(u64::MAX) => Err(corrupt("there is a next revision")),
        Ok(revision) => Ok(revision),
        Err(_) => Err(corrupt("a revision is 8 bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As its generated code encodes them: options are there even when they say nothing.
    #[test]
    fn rows_are_etcds() {
        let user =
            User { name: "al".into(), password: "pw".into(), roles: vec!["r".into()], options: Some(UserOptions { no_password: false }) };
        assert_eq!(user.encode_to_vec(), b"\x0a\x02al\x12\x02pw\x1a\x01r\x22\x00");
        assert_eq!(User::decode(&b"\x0a\x02al\x12\x02pw\x1a\x01r\x22\x00"[..]).unwrap(), user);
        let permission = Permission { kind: Kind::ReadWrite as i32, key: "a".into(), range_end: "b".into() };
        let role = Role { name: "r".into(), permissions: vec![permission] };
        assert_eq!(role.encode_to_vec(), b"\x0a\x01r\x12\x08\x08\x02\x12\x01a\x1a\x01b");
    }
}
