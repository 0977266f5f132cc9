//! Who asks for a change, and changes of users and roles, as they lie in the log.

use super::{Command, Done};
use crate::auth::{Caller, records::Permission};
use bytes::Bytes;

/// See [`Command::By`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct By {
    /// What is asked for; tags below 100 are its.
    #[prost(oneof = "Command", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13")]
    pub command: Option<Command>,
    /// The name proved.
    #[prost(string, tag = "101")]
    pub user: String,
    /// Revision of users and roles at which it was proved; 0 when nobody proved anything.
    #[prost(uint64, tag = "102")]
    pub revision: u64,
}

impl By {
    /// Who asks.
    pub fn caller(&self) -> Caller {
        Caller { user: self.user.clone(), revision: self.revision }
    }
}

impl Command {
    /// The form in which it says who asks for it. Keys, users and roles are changed on request only: without a name it
    /// is nobody's who proved one. What the store also does by itself says so even then.
    pub fn by(self, caller: &Caller) -> Self {
        let tells = matches!(self, Command::Put(_) | Command::DeleteRange(_) | Command::Txn(_) | Command::LeaseGrant(_) | Command::Auth(_));
        if tells && *caller == Caller::default() {
            return self;
        }
        Command::By(Box::new(By { command: Some(self), user: caller.user.clone(), revision: caller.revision }))
    }

    /// What is asked for, whoever asks.
    pub fn asked(&self) -> &Self {
        match self {
            Command::By(by) => by.command.as_ref().unwrap_or(self),
            command => command,
        }
    }

    /// Every part of it is known to this version.
    pub(super) fn is_known(&self) -> bool {
        match self {
            Command::By(by) => by.command.as_ref().is_some_and(Self::is_known),
            Command::Auth(auth) => auth.change.is_some(),
            _ => true,
        }
    }
}

/// See [`Command::Auth`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Auth {
    /// What to change; never absent in a command that was decoded.
    #[prost(oneof = "Change", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub change: Option<Change>,
}

/// A change of users or roles.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Change {
    /// Requests are checked from now on.
    #[prost(message, tag = "1")]
    Enable(Done),
    /// Requests are no longer checked.
    #[prost(message, tag = "2")]
    Disable(Done),
    /// A user proved their name by a password, and gets a token for it that every member knows.
    #[prost(message, tag = "3")]
    Authenticate(Authenticate),
    /// Adds a user.
    #[prost(message, tag = "4")]
    UserAdd(UserAdd),
    /// Removes a user.
    #[prost(message, tag = "5")]
    UserDelete(Named),
    /// Gives a user another password.
    #[prost(message, tag = "6")]
    UserPassword(UserPassword),
    /// Gives a user a role.
    #[prost(message, tag = "7")]
    UserGrantRole(UserRole),
    /// Takes a role from a user.
    #[prost(message, tag = "8")]
    UserRevokeRole(UserRole),
    /// Adds a role that allows nothing yet.
    #[prost(message, tag = "9")]
    RoleAdd(Named),
    /// Removes a role, from its users too.
    #[prost(message, tag = "10")]
    RoleDelete(Named),
    /// Has a role allow more.
    #[prost(message, tag = "11")]
    RoleGrantPermission(RolePermission),
    /// Has a role allow less.
    #[prost(message, tag = "12")]
    RoleRevokePermission(RoleKeys),
}

/// See [`Change::Authenticate`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Authenticate {
    /// The user.
    #[prost(string, tag = "1")]
    pub user: String,
    /// The token but for its end; chosen by the member asked, at random.
    #[prost(string, tag = "2")]
    pub token: String,
    /// Revision of users and roles at which the password was looked at; it counts only if that is still the newest.
    #[prost(uint64, tag = "3")]
    pub revision: u64,
}

/// See [`Change::UserAdd`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct UserAdd {
    /// The user.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The password's hash, made by the member asked.
    #[prost(bytes = "bytes", tag = "2")]
    pub password: Bytes,
    /// No password leads in.
    #[prost(bool, tag = "3")]
    pub no_password: bool,
}

/// See [`Change::UserPassword`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct UserPassword {
    /// The user.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The password's hash, made by the member asked.
    #[prost(bytes = "bytes", tag = "2")]
    pub password: Bytes,
}

/// Names a user or a role.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Named {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Names a user and a role.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UserRole {
    /// The user.
    #[prost(string, tag = "1")]
    pub user: String,
    /// The role.
    #[prost(string, tag = "2")]
    pub role: String,
}

/// See [`Change::RoleGrantPermission`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct RolePermission {
    /// The role.
    #[prost(string, tag = "1")]
    pub role: String,
    /// What it is to allow.
    #[prost(message, optional, tag = "2")]
    pub permission: Option<Permission>,
}

/// See [`Change::RoleRevokePermission`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct RoleKeys {
    /// The role.
    #[prost(string, tag = "1")]
    pub role: String,
    /// First key of a permission.
    #[prost(bytes = "bytes", tag = "2")]
    pub key: Bytes,
    /// End of its range.
    #[prost(bytes = "bytes", tag = "3")]
    pub range_end: Bytes,
}

/// See [`super::Response::Token`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Token {
    /// To be sent with every request.
    #[prost(string, tag = "1")]
    pub token: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{DecodeError, LeaseRevoke, Put};

    fn alice() -> Caller {
        Caller { user: "alice".into(), revision: 5 }
    }

    #[test]
    fn a_command_says_who_asks_for_it() {
        let put = Command::Put(Put { key: "k".into(), ..Default::default() });
        let read = Command::from_bytes(put.clone().by(&alice()).into_bytes()).unwrap();
        let Command::By(by) = read else { panic!("nobody's") };
        assert_eq!((by.caller(), by.command), (alice(), Some(put)));
    }

    #[test]
    fn only_what_the_store_does_by_itself_must_say_that_nobody_proved_a_name() {
        let (put, revoke) = (Command::Put(Put::default()), Command::LeaseRevoke(LeaseRevoke { id: 1, expired_in: 0 }));
        assert_eq!(put.clone().by(&Caller::default()), put);
        assert!(matches!(revoke.by(&Caller::default()), Command::By(by) if by.caller() == Caller::default()));
    }

    #[test]
    fn parts_of_a_newer_version_are_an_error_not_a_guess() {
        let nothing = Command::Auth(Auth { change: None });
        let empty = Command::By(Box::new(By { command: None, user: "alice".into(), revision: 5 }));
        for unknown in [nothing.clone(), nothing.by(&alice()), empty] {
            assert!(matches!(Command::from_bytes(unknown.into_bytes()), Err(DecodeError::UnknownKind)));
        }
    }
}
