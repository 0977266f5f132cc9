//! Fingerprints of the members' data, exchanged to find one that is corrupt.

use futures::future::join_all;
use tokio::time::timeout;

use super::{
    member::RaftNode,
    peers::Lane,
    types::Member,
    wire::pb::{HashKvRequest, HashKvResponse},
};
use crate::{
    backup::{self, hash},
    refusal::Refusal,
};

/// What a member's data is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Print {
    /// The fingerprint of the versions up to a revision that compaction left.
    pub(crate) hash: u32,
    /// That revision.
    pub(crate) revision: i64,
    /// The revision up to which that member had compacted.
    pub(crate) compacted: i64,
    /// That member's newest revision.
    pub(crate) current: i64,
}

impl RaftNode {
    /// This member's, at a revision or, for 0, the newest.
    pub(crate) async fn hash_here(&self, revision: i64) -> Result<Print, Refusal> {
        let _turn = self.inner.hashing.lock().await;
        let node = self.clone();
        let hash = move || {
            let start = std::time::Instant::now();
            let hashed = hash::hash_kv(&*node.state().database().snapshot(), revision, node.scratch());
            node.metrics().hash_rev.observe(start.elapsed().as_secs_f64());
            hashed
        };
        match self.state().database().offload().run(hash).await.map_err(|_| Refusal::Stopped)? {
            Ok(hash) => {
                let current = self.state().revision().max(hash.revision);
                Ok(Print { hash: hash.hash, revision: hash.revision, compacted: hash.compacted, current })
            }
            Err(backup::Error::Refused(refusal)) => Err(refusal),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "hash the state");
                Err(Refusal::Unknown)
            }
        }
    }

    /// The other members', by number; one that does not answer is [`Refusal::Timeout`].
    pub(crate) async fn hashes_of_others(&self, revision: i64) -> Vec<(u64, Result<Print, Refusal>)> {
        let me = self.identity().member_id;
        let others = self.members().into_iter().filter(|(id, ..)| *id != me);
        let ask = |(id, member, _): (u64, Member, bool)| async move {
            let answer = self.hash_there(id, &member, revision).await;
            (id, answer)
        };
        join_all(others.map(ask)).await
    }

    async fn hash_there(&self, id: u64, member: &Member, revision: i64) -> Result<Print, Refusal> {
        let ask = async {
            let mut client = self.peers().client(id, member, Lane::Snapshot).await.map_err(|error| error.to_string())?;
            client.hash_kv(HashKvRequest { revision }).await.map_err(|status| status.to_string())
        };
        match timeout(self.patience(), ask).await {
            Ok(Ok(response)) => response.into_inner().into(),
            Ok(Err(error)) => {
                tracing::warn!(peer = format!("{id:x}"), revision, error, "failed hash kv request");
                Err(Refusal::Timeout)
            }
            Err(_) => {
                tracing::warn!(peer = format!("{id:x}"), revision, "no answer to a hash kv request");
                Err(Refusal::Timeout)
            }
        }
    }
}

impl From<Result<Print, Refusal>> for HashKvResponse {
    fn from(result: Result<Print, Refusal>) -> Self {
        match result {
            Ok(print) => Self {
                hash: print.hash,
                revision: print.revision,
                compact_revision: print.compacted,
                current_revision: print.current,
                refusal: None,
            },
            Err(refusal) => Self { refusal: Some(refusal as i32), ..Default::default() },
        }
    }
}

impl From<HashKvResponse> for Result<Print, Refusal> {
    fn from(response: HashKvResponse) -> Self {
        match response.refusal {
            Some(number) => Err(Refusal::try_from(number).unwrap_or(Refusal::Unknown)),
            None => Ok(Print {
                hash: response.hash,
                revision: response.revision,
                compacted: response.compact_revision,
                current: response.current_revision,
            }),
        }
    }
}
