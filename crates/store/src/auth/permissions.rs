//! Who may do what, decided from users and roles alone. Refusals are etcd's.

use super::{
    ranges::Ranges,
    records::{self, Kind, Permission, Role, User},
};
use crate::{
    disk::{self, Read},
    mvcc::KeyRange,
    refusal::Refusal,
};
use std::collections::BTreeMap;

/// Who asks, as a member found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The name they proved.
    pub user: String,
    /// Revision of users and roles at which they proved it; 0 when nobody proved anything.
    pub revision: u64,
}

/// What is to be done with keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Writing.
    Write,
}

/// The users and what each may do.
#[derive(Debug, Default)]
pub struct Policy {
    enabled: bool,
    revision: u64,
    users: BTreeMap<String, Rights>,
}

/// What a user may do, all roles together.
#[derive(Debug, Default)]
struct Rights {
    root: bool,
    read: Ranges,
    write: Ranges,
}

impl Policy {
    /// Puts together what lies on disk.
    pub fn read(read: &dyn Read) -> disk::Result<Self> {
        let (enabled, revision) = (records::enabled(read)?, records::revision(read)?);
        if !enabled {
            return Ok(Policy { enabled, revision, users: BTreeMap::new() });
        }
        let named = |role: Role| (role.name.clone(), role);
        let roles: BTreeMap<_, _> = records::roles(read)?.into_iter().map(named).collect();
        let rights = |user: User| {
            let granted = || user.roles.iter().filter_map(|name| roles.get(name.as_bytes())).flat_map(|role| &role.permissions);
            let ranges =
                |access| granted().filter(|permission| permission.is_sound() && permission.allows(access)).map(Permission::range).collect();
            let rights = Rights { root: user.is_root(), read: ranges(Access::Read), write: ranges(Access::Write) };
            // A name that is no text can be nobody's.
            Some((String::from_utf8(user.name.to_vec()).ok()?, rights))
        };
        Ok(Policy { enabled, revision, users: records::users(read)?.into_iter().filter_map(rights).collect() })
    }

    /// Requests are checked.
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    /// How often users and roles were changed.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Somebody proved who they are.
    pub fn named(&self, caller: &Caller) -> Result<(), Refusal> {
        if self.enabled && caller.revision == 0 { Err(Refusal::UserEmpty) } else { Ok(()) }
    }

    /// They may do everything.
    pub fn root(&self, caller: &Caller) -> Result<(), Refusal> {
        if !self.enabled {
            return Ok(());
        }
        if caller.user.is_empty() {
            return Err(Refusal::UserEmpty);
        }
        match self.users.get(&caller.user) {
            None => Err(Refusal::UserNotFound),
            Some(rights) if !rights.root => Err(Refusal::PermissionDenied),
            Some(_) => Ok(()),
        }
    }

    /// They may do this with all these keys.
    pub fn may(&self, caller: &Caller, access: Access, keys: &KeyRange) -> Result<(), Refusal> {
        if !self.enabled {
            return Ok(());
        }
        self.named(caller)?;
        if caller.revision < self.revision {
            return Err(Refusal::AuthOldRevision);
        }
        let rights = self.users.get(&caller.user).ok_or(Refusal::PermissionDenied)?;
        let ranges = if access == Access::Read { &rights.read } else { &rights.write };
        if rights.root || ranges.cover(keys) { Ok(()) } else { Err(Refusal::PermissionDenied) }
    }
}

impl Permission {
    fn allows(&self, access: Access) -> bool {
        let allowed = if access == Access::Read { Kind::Read } else { Kind::Write };
        self.kind == allowed as i32 || self.kind == Kind::ReadWrite as i32
    }

    /// The keys it is about.
    pub fn range(&self) -> KeyRange {
        KeyRange::new(&self.key, &self.range_end)
    }

    /// It names at least one key. An empty key is none: etcd has no first key but `\0`.
    pub fn is_sound(&self) -> bool {
        !self.key.is_empty() && !self.range().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        auth::records::UserOptions,
        disk::{
            Batch, Column, Database,
            columns::{AuthPart, auth_key},
            memory::Memory,
        },
    };
    use bytes::Bytes;
    use prost::Message;

    const REVISION: u64 = 7;

    /// `root`; `alice`, who reads a..c and writes b; `bob`, whose one role does not exist.
    fn policy(enabled: bool) -> Policy {
        let permission =
            |kind: Kind, key: &'static str, end: &'static str| Permission { kind: kind as i32, key: key.into(), range_end: end.into() };
        let reader = vec![permission(Kind::Read, "a", "b"), permission(Kind::Read, "", "\0")];
        let roles = [("reader", reader), ("writer", vec![permission(Kind::ReadWrite, "b", "c"), permission(Kind::Write, "x", "\0")])];
        let users = [("root", vec!["root"]), ("alice", vec!["reader", "writer"]), ("bob", vec!["gone"])];
        let mut batch = Batch::default();
        for (name, permissions) in roles {
            let role = Role { name: name.into(), permissions };
            batch.put(Column::Auth, auth_key(AuthPart::Roles, name.as_bytes()), role.encode_to_vec());
        }
        for (name, roles) in users {
            let roles = roles.into_iter().map(str::to_owned).collect();
            let user = User { name: name.into(), password: "".into(), roles, options: Some(UserOptions::default()) };
            batch.put(Column::Auth, auth_key(AuthPart::Users, name.as_bytes()), user.encode_to_vec());
        }
        batch.put(Column::Auth, auth_key(AuthPart::Settings, records::ENABLED), Bytes::copy_from_slice(&[u8::from(enabled)]));
        batch.put(Column::Auth, auth_key(AuthPart::Settings, records::REVISION), Bytes::copy_from_slice(&REVISION.to_be_bytes()));
        let memory = Memory::new();
        memory.write(batch).unwrap();
        Policy::read(&memory).unwrap()
    }

    fn at(user: &str, revision: u64) -> Caller {
        Caller { user: user.to_owned(), revision }
    }

    fn keys(key: &'static str, end: &'static str) -> KeyRange {
        KeyRange::new(&key.into(), &end.into())
    }

    #[test]
    fn a_user_may_what_their_roles_allow_together() {
        let policy = policy(true);
        let may = |access, key, end| policy.may(&at("alice", REVISION), access, &keys(key, end));
        let denied = Err(Refusal::PermissionDenied);
        assert_eq!(may(Access::Read, "a", "c"), Ok(()), "two roles that touch");
        assert_eq!(may(Access::Write, "b", ""), Ok(()));
        assert_eq!(may(Access::Write, "a", ""), denied);
        assert_eq!(may(Access::Read, "x", ""), denied, "writing is not reading");
        assert_eq!(may(Access::Write, "y", "\0"), Ok(()));
        assert_eq!(may(Access::Read, "a", "\0"), denied, "an empty key allows nothing");
    }

    #[test]
    fn root_may_everything_and_others_not_what_is_roots() {
        let policy = policy(true);
        assert_eq!(policy.may(&at("root", REVISION), Access::Write, &keys("\0", "\0")), Ok(()));
        assert_eq!(policy.root(&at("root", 1)), Ok(()), "as in etcd, whatever the revision");
        assert_eq!(policy.root(&at("alice", REVISION)), Err(Refusal::PermissionDenied));
        assert_eq!(policy.root(&at("nobody", REVISION)), Err(Refusal::UserNotFound));
        assert_eq!(policy.root(&Caller::default()), Err(Refusal::UserEmpty));
    }

    #[test]
    fn strangers_and_those_who_proved_themselves_too_long_ago_are_told_apart() {
        let policy = policy(true);
        let may = |caller: &Caller| policy.may(caller, Access::Read, &keys("a", ""));
        assert_eq!(may(&Caller::default()), Err(Refusal::UserEmpty));
        assert_eq!(may(&at("alice", REVISION - 1)), Err(Refusal::AuthOldRevision));
        assert_eq!(may(&at("alice", REVISION + 1)), Ok(()), "this member is behind");
        assert_eq!(may(&at("stranger", REVISION)), Err(Refusal::PermissionDenied));
        assert_eq!(may(&at("bob", REVISION)), Err(Refusal::PermissionDenied));
        assert_eq!(policy.named(&Caller::default()), Err(Refusal::UserEmpty));
        assert_eq!(policy.named(&at("stranger", 1)), Ok(()));
    }

    #[test]
    fn nothing_is_checked_while_it_is_switched_off() {
        let policy = policy(false);
        assert_eq!(policy.may(&Caller::default(), Access::Write, &keys("a", "\0")), Ok(()));
        assert_eq!((policy.root(&Caller::default()), policy.named(&Caller::default())), (Ok(()), Ok(())));
        assert_eq!(policy.revision(), REVISION);
    }

    #[test]
    fn a_sound_permission_names_a_key() {
        let sound = |key: &'static str, end: &'static str| Permission { kind: 0, key: key.into(), range_end: end.into() }.is_sound();
        assert!(sound("a", "") && sound("a", "b") && sound("a", "\0") && sound("\0", "\0"));
        assert!(!sound("", "") && !sound("", "b") && !sound("b", "a") && !sound("b", "b"));
    }
}
