//! What lies in the log: every change of the replicated state, as data.
//!
//! Logs and snapshots outlive binaries, so commands and outcomes are protobuf messages: append variants and
//! fields, never reorder or reuse a tag. Decoding from [`Bytes`] shares the buffer; values are not copied.

mod auth;
mod brief;

pub use auth::{Auth, Authenticate, By, Change, Named, RoleKeys, RolePermission, Token, UserAdd, UserPassword, UserRole};

use crate::{mvcc::KeyValue, refusal::Refusal};
use bytes::Bytes;
use prost::Message;

/// One replicated change.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Command {
    /// Sets a key.
    #[prost(message, tag = "1")]
    Put(Put),
    /// Deletes a range of keys.
    #[prost(message, tag = "2")]
    DeleteRange(DeleteRange),
    /// Compares, then one branch of operations, all at one revision.
    #[prost(message, tag = "3")]
    Txn(Txn),
    /// Gives up history below a revision.
    #[prost(message, tag = "4")]
    Compact(Compact),
    /// Creates a lease.
    #[prost(message, tag = "5")]
    LeaseGrant(LeaseGrant),
    /// Ends a lease (asked for, or expired on the leader) and deletes its keys at one revision.
    #[prost(message, tag = "6")]
    LeaseRevoke(LeaseRevoke),
    /// Notes how long leases have left, so that a new leader does not start them afresh.
    #[prost(message, tag = "7")]
    LeaseCheckpoint(LeaseCheckpoint),
    /// Raises or clears an alarm.
    #[prost(message, tag = "8")]
    Alarm(Alarm),
    /// A member publishes its name and client URLs.
    #[prost(message, tag = "9")]
    MemberAttributes(MemberAttributes),
    /// The version all members speak.
    #[prost(message, tag = "10")]
    ClusterVersion(ClusterVersion),
    /// Announces that the cluster goes back to an earlier version, or takes that back.
    #[prost(message, tag = "11")]
    Downgrade(Downgrade),
    /// Any of the others, with the name of whoever asks for it.
    #[prost(message, tag = "12")]
    By(Box<By>),
    /// Changes users or roles, or whether they are asked for.
    #[prost(message, tag = "13")]
    Auth(Auth),
}

/// See [`Command::Put`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Put {
    /// The key; not empty.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// The new value.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
    /// Lease to attach to; 0 for none.
    #[prost(int64, tag = "3")]
    pub lease: i64,
    /// Answer with the pair before the change.
    #[prost(bool, tag = "4")]
    pub prev_kv: bool,
    /// Keep the present value; the key must exist.
    #[prost(bool, tag = "5")]
    pub ignore_value: bool,
    /// Keep the present lease; the key must exist.
    #[prost(bool, tag = "6")]
    pub ignore_lease: bool,
}

/// See [`Command::DeleteRange`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeleteRange {
    /// First key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// End of the range, as in [`crate::mvcc::KeyRange`].
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    /// Answer with the deleted pairs.
    #[prost(bool, tag = "3")]
    pub prev_kv: bool,
}

/// A read, within a transaction or on its own.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Range {
    /// First key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// End of the range, as in [`crate::mvcc::KeyRange`].
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    /// Pairs at most; 0 or less for all.
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// State as of this revision; 0 or less for the newest.
    #[prost(int64, tag = "4")]
    pub revision: i64,
    /// Order of the answer.
    #[prost(enumeration = "SortOrder", tag = "5")]
    pub sort_order: i32,
    /// Field to sort by.
    #[prost(enumeration = "SortTarget", tag = "6")]
    pub sort_target: i32,
    /// Leave values out.
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
    /// Only count.
    #[prost(bool, tag = "9")]
    pub count_only: bool,
    /// Lowest mod revision; 0 for any.
    #[prost(int64, tag = "10")]
    pub min_mod_revision: i64,
    /// Highest mod revision; 0 for any.
    #[prost(int64, tag = "11")]
    pub max_mod_revision: i64,
    /// Lowest create revision; 0 for any.
    #[prost(int64, tag = "12")]
    pub min_create_revision: i64,
    /// Highest create revision; 0 for any.
    #[prost(int64, tag = "13")]
    pub max_create_revision: i64,
}

/// Order of a [`Range`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum SortOrder {
    /// As stored: by key.
    None = 0,
    /// Lowest first.
    Ascend = 1,
    /// Highest first.
    Descend = 2,
}

/// Field a [`Range`] is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum SortTarget {
    /// The key.
    Key = 0,
    /// The version.
    Version = 1,
    /// The create revision.
    Create = 2,
    /// The mod revision.
    Mod = 3,
    /// The value.
    Value = 4,
}

/// See [`Command::Txn`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Txn {
    /// All must hold for `success` to run.
    #[prost(message, repeated, tag = "1")]
    pub compares: Vec<Compare>,
    /// Run when all compares hold.
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<Op>,
    /// Run otherwise.
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<Op>,
}

/// One operation of a transaction.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Op {
    /// What to do; never absent in a checked request.
    #[prost(oneof = "Request", tags = "1, 2, 3, 4")]
    pub request: Option<Request>,
}

/// What an [`Op`] does.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Request {
    /// Reads.
    #[prost(message, tag = "1")]
    Range(Range),
    /// Writes.
    #[prost(message, tag = "2")]
    Put(Put),
    /// Deletes.
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRange),
    /// Nests.
    #[prost(message, tag = "4")]
    Txn(Txn),
}

/// A condition on every key of a range.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Compare {
    /// How the stored field must relate to the operand.
    #[prost(enumeration = "Relation", tag = "1")]
    pub relation: i32,
    /// First key.
    #[prost(bytes = "bytes", tag = "3")]
    pub key: Bytes,
    /// End of the range, as in [`crate::mvcc::KeyRange`].
    #[prost(bytes = "bytes", tag = "64")]
    pub range_end: Bytes,
    /// The field and what to compare it with.
    #[prost(oneof = "Operand", tags = "4, 5, 6, 7, 8")]
    pub operand: Option<Operand>,
}

/// Relation of a [`Compare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Relation {
    /// Same.
    Equal = 0,
    /// The stored one is greater.
    Greater = 1,
    /// The stored one is less.
    Less = 2,
    /// Differs.
    NotEqual = 3,
}

/// Field and operand of a [`Compare`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Operand {
    /// The version; 0 means absent.
    #[prost(int64, tag = "4")]
    Version(i64),
    /// The create revision; 0 means absent.
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    /// The mod revision; 0 means absent.
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    /// The value; never holds for an absent key.
    #[prost(bytes = "bytes", tag = "7")]
    Value(Bytes),
    /// The lease; 0 means none.
    #[prost(int64, tag = "8")]
    Lease(i64),
}

/// See [`Command::Compact`].
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Compact {
    /// The oldest revision that stays readable.
    #[prost(int64, tag = "1")]
    pub revision: i64,
}

/// See [`Command::LeaseGrant`].
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct LeaseGrant {
    /// Chosen by the client or, before proposing, by the member asked.
    #[prost(int64, tag = "1")]
    pub id: i64,
    /// Seconds.
    #[prost(int64, tag = "2")]
    pub ttl: i64,
}

/// A number no lease has.
const NO_LEASE: i64 = 0;

/// See [`Command::LeaseRevoke`].
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct LeaseRevoke {
    /// The lease.
    #[prost(int64, tag = "1")]
    pub id: i64,
    /// The term whose leader found that its time is up; 0 when somebody asked for it.
    #[prost(uint64, tag = "2")]
    pub expired_in: u64,
}

/// See [`Command::LeaseCheckpoint`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct LeaseCheckpoint {
    /// Leases and what they have left.
    #[prost(message, repeated, tag = "1")]
    pub leases: Vec<Remaining>,
}

/// What a lease has left.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Remaining {
    /// The lease.
    #[prost(int64, tag = "1")]
    pub id: i64,
    /// Seconds; 0 for the full time.
    #[prost(int64, tag = "2")]
    pub ttl: i64,
}

/// See [`Command::Alarm`].
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Alarm {
    /// The member concerned.
    #[prost(uint64, tag = "1")]
    pub member: u64,
    /// Which alarm.
    #[prost(enumeration = "AlarmKind", tag = "2")]
    pub kind: i32,
    /// Raise it, or clear it.
    #[prost(bool, tag = "3")]
    pub raised: bool,
}

/// The alarms there are; numbers are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum AlarmKind {
    /// None; in a request: any.
    None = 0,
    /// The database outgrew its quota: writes that need space are refused.
    NoSpace = 1,
    /// A member's data differs from the others'.
    Corrupt = 2,
}

/// See [`Command::MemberAttributes`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct MemberAttributes {
    /// The member.
    #[prost(uint64, tag = "1")]
    pub member: u64,
    /// Its name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Where clients reach it.
    #[prost(string, repeated, tag = "3")]
    pub client_urls: Vec<String>,
}

/// See [`Command::ClusterVersion`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct ClusterVersion {
    /// For example `3.6.0`.
    #[prost(string, tag = "1")]
    pub version: String,
}

/// See [`Command::Downgrade`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Downgrade {
    /// The version to go back to, for example `3.5.0`; empty for none.
    #[prost(string, tag = "1")]
    pub target: String,
}

/// What applying a command came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Revision of the store after it.
    pub revision: i64,
    /// The answer, or why there is none.
    pub result: Result<Response, Refusal>,
}

/// The answer to a [`Command`] or a [`Request`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Response {
    /// To a put.
    #[prost(message, tag = "1")]
    Put(PutResponse),
    /// To a range deletion.
    #[prost(message, tag = "2")]
    DeleteRange(DeleteRangeResponse),
    /// To a transaction.
    #[prost(message, tag = "3")]
    Txn(TxnResponse),
    /// To a read.
    #[prost(message, tag = "4")]
    Range(RangeResponse),
    /// To a lease grant.
    #[prost(message, tag = "5")]
    LeaseGrant(LeaseGrant),
    /// Done, nothing more to tell.
    #[prost(message, tag = "6")]
    Done(Done),
    /// To a proof of who somebody is.
    #[prost(message, tag = "7")]
    Token(Token),
}

/// Nothing to tell.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Done {}

/// See [`Response::Put`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct PutResponse {
    /// The pair before, when asked for and present.
    #[prost(message, optional, tag = "1")]
    pub prev_kv: Option<KeyValue>,
}

/// See [`Response::DeleteRange`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct DeleteRangeResponse {
    /// Number of deleted keys.
    #[prost(int64, tag = "1")]
    pub deleted: i64,
    /// The deleted pairs, when asked for.
    #[prost(message, repeated, tag = "2")]
    pub prev_kvs: Vec<KeyValue>,
}

/// See [`Response::Range`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct RangeResponse {
    /// The pairs, in the order asked for.
    #[prost(message, repeated, tag = "1")]
    pub kvs: Vec<KeyValue>,
    /// The limit cut the answer short.
    #[prost(bool, tag = "2")]
    pub more: bool,
    /// Keys in the range, whatever limit and filters.
    #[prost(int64, tag = "3")]
    pub count: i64,
}

/// See [`Response::Txn`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct TxnResponse {
    /// All compares held.
    #[prost(bool, tag = "1")]
    pub succeeded: bool,
    /// One per operation of the branch taken.
    #[prost(message, repeated, tag = "2")]
    pub responses: Vec<OpResponse>,
}

/// Answer to one [`Op`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct OpResponse {
    /// The answer.
    #[prost(oneof = "Response", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub response: Option<Response>,
}

/// A protobuf message that is nothing but the oneof around a [`Command`].
#[derive(Clone, PartialEq, prost::Message)]
struct Envelope {
    #[prost(oneof = "Command", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13")]
    command: Option<Command>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OutcomeMessage {
    #[prost(int64, tag = "15")]
    revision: i64,
    #[prost(enumeration = "Refusal", optional, tag = "16")]
    refusal: Option<i32>,
    #[prost(oneof = "Response", tags = "1, 2, 3, 4, 5, 6, 7")]
    response: Option<Response>,
}

/// Bytes that are no command or outcome this binary knows.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not protobuf of the expected shape.
    #[error("malformed replicated message")]
    Malformed(#[from] prost::DecodeError),
    /// A variant of a newer version.
    #[error("replicated message of an unknown kind (written by a newer version?)")]
    UnknownKind,
}

impl Command {
    /// What metrics and logs call it; etcd's names.
    pub fn name(&self) -> &'static str {
        match self {
            Command::By(by) => by.command.as_ref().map_or("unknown", Command::name),
            Command::Put(_) => "Put",
            Command::DeleteRange(_) => "DeleteRange",
            Command::Txn(_) => "Txn",
            Command::Compact(_) => "Compaction",
            Command::LeaseGrant(_) => "LeaseGrant",
            Command::LeaseRevoke(_) => "LeaseRevoke",
            Command::LeaseCheckpoint(_) => "LeaseCheckpoint",
            Command::Alarm(_) => "Alarm",
            Command::MemberAttributes(_) => "ClusterMemberAttrSet",
            _ => "unknown",
        }
    }

    /// What it comes to in the log of a term. A lease that a leader found expired in another term is left alone: who
    /// leads now counts its time anew, and has perhaps renewed it.
    pub fn in_term(self, term: u64) -> Self {
        match self {
            Command::LeaseRevoke(LeaseRevoke { expired_in, .. }) if expired_in != 0 && expired_in != term => {
                Command::LeaseRevoke(LeaseRevoke { id: NO_LEASE, expired_in })
            }
            command => command,
        }
    }

    /// The form it has in the log and between members.
    pub fn into_bytes(self) -> Bytes {
        Envelope { command: Some(self) }.encode_to_vec().into()
    }

    /// Reads [`Command::into_bytes`]'s form, sharing `bytes`.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, DecodeError> {
        Envelope::decode(bytes)?.command.filter(Self::is_known).ok_or(DecodeError::UnknownKind)
    }
}

impl Outcome {
    /// The form it has between members.
    pub fn into_bytes(self) -> Bytes {
        let (response, refusal) = match self.result {
            Ok(response) => (Some(response), None),
            Err(refusal) => (None, Some(refusal as i32)),
        };
        OutcomeMessage { revision: self.revision, refusal, response }.encode_to_vec().into()
    }

    /// Reads [`Outcome::into_bytes`]'s form, sharing `bytes`.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, DecodeError> {
        let message = OutcomeMessage::decode(bytes)?;
        let result = match (message.response, message.refusal) {
            (Some(response), None) => Ok(response),
            (_, Some(number)) => Err(Refusal::try_from(number).unwrap_or(Refusal::Unknown)),
            (None, None) => return Err(DecodeError::UnknownKind),
        };
        Ok(Outcome { revision: message.revision, result })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_read_back_as_written() {
        let op = Op { request: Some(Request::Range(Range { key: "a".into(), ..Default::default() })) };
        let txn = Txn { success: vec![op], ..Default::default() };
        for command in [
            Command::Put(Put { key: "k".into(), value: "v".into(), lease: 9, ..Default::default() }),
            Command::Txn(txn),
            Command::Compact(Compact { revision: 5 }),
        ] {
            assert_eq!(Command::from_bytes(command.clone().into_bytes()).unwrap(), command);
        }
    }

    #[test]
    fn a_lease_that_an_earlier_leader_found_expired_is_left_alone() {
        let revoke = |id, expired_in| Command::LeaseRevoke(LeaseRevoke { id, expired_in });
        assert_eq!(revoke(7, 3).in_term(3), revoke(7, 3));
        assert_eq!(revoke(7, 3).in_term(4), revoke(NO_LEASE, 3));
        assert_eq!(revoke(7, 0).in_term(4), revoke(7, 0));
    }

    #[test]
    fn outcomes_read_back_as_written() {
        for result in [Ok(Response::Done(Done {})), Err(Refusal::Compacted)] {
            let outcome = Outcome { revision: 3, result };
            assert_eq!(Outcome::from_bytes(outcome.clone().into_bytes()).unwrap(), outcome);
        }
    }

    #[test]
    fn a_command_of_a_newer_version_is_an_error_not_a_guess() {
        let unknown = Bytes::from_static(&[0xfa, 0x7, 0x0]);
        assert!(matches!(Command::from_bytes(unknown), Err(DecodeError::UnknownKind)));
    }
}
