//! The types openraft is instantiated with, under short names.

// Implementations of foreign traits for foreign types (`wire`) show these types; the module itself is private.
#![allow(unreachable_pub)]

use std::{fmt, sync::Arc};

use bytes::Bytes;
use openraft::{declare_raft_types, impls::leader_id_adv, type_config::alias};

use super::{runtime::Runtime, state_machine::StateMachine};

/// An encoded command, encoded once by its proposer and decoded where it is applied.
#[derive(Clone, PartialEq, Eq)]
pub struct Proposal {
    /// Unique over members and restarts; whoever proposed it waits for this ID to be applied.
    pub(crate) id: u64,
    /// What the state machine applies.
    pub(crate) command: Bytes,
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}({} bytes)", self.id, self.command.len())
    }
}

/// What a log entry carries: the proposals that waited together. What an entry costs (its way through consensus, its row
/// on disk, its message to each follower) they share. Clones share the proposals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle(pub(crate) Arc<[Proposal]>);

impl Bundle {
    /// Of proposals, in order.
    pub(crate) fn new(proposals: impl Into<Arc<[Proposal]>>) -> Self {
        Self(proposals.into())
    }
}

impl fmt::Display for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

/// A member as the replicated membership knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The operator's name for it (`--name`).
    pub(crate) name: String,
    /// Where its peers reach it.
    pub(crate) peer_urls: Vec<String>,
    /// It was added to learn only; another one that has no vote yet gets it once it has caught up.
    pub(crate) learner: bool,
}

declare_raft_types!(
    /// The consensus configuration. A response is empty: each member answers its own clients from what it applies itself.
    pub TypeConfig:
        D = Bundle,
        R = (),
        NodeId = u64,
        Node = Member,
        AsyncRuntime = Runtime,
);

pub(crate) type Raft = openraft::Raft<TypeConfig, StateMachine>;
pub(crate) type Fatal = openraft::errors::Fatal<TypeConfig>;
pub(crate) type LeaderId = leader_id_adv::LeaderId<u64, u64>;
pub(crate) type LogId = alias::LogIdOf<TypeConfig>;
pub(crate) type Vote = alias::VoteOf<TypeConfig>;
pub(crate) type Entry = alias::EntryOf<TypeConfig>;
pub(crate) type EntryPayload = alias::PayloadOf<TypeConfig>;
pub(crate) type Membership = openraft::Membership<u64, Member>;
pub(crate) type StoredMembership = alias::StoredMembershipOf<TypeConfig>;
pub(crate) type SnapshotMeta = alias::SnapshotMetaOf<TypeConfig>;
/// Tells the first index that is not applied yet.
pub(crate) type AppliedSender = alias::WatchSenderOf<TypeConfig, u64>;
/// Follows it.
pub(crate) type AppliedReceiver = alias::WatchReceiverOf<TypeConfig, u64>;
