//! Finds a member whose data differs from the others': at its start, from time to time, and at compacted revisions.

use std::{collections::BTreeMap, time::Duration};

use component::Shutdown;

use crate::{
    command::{Alarm, AlarmKind, Command},
    raft::{Print, RaftNode},
    refusal::Refusal,
};

/// What the other members answered, by number.
type Answers = [(u64, Result<Print, Refusal>)];

/// A member that must not start: its data differs from a peer's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{member:x} found data inconsistency with peers")]
    Inconsistent { member: u64 },
    #[error("{member:x} failed to fetch hash ({refusal})")]
    Hash { member: u64, refusal: Refusal },
}

/// Compares this member's data with that of the peers that answer, before anything is served.
///
/// # Errors
/// A peer that compacted up to the same revision has something else.
pub(crate) async fn check_at_start(raft: &RaftNode) -> Result<(), Error> {
    let member = raft.identity().member_id;
    tracing::info!(local_member_id = format!("{member:x}"), "starting initial corruption check");
    let own = raft.hash_here(0).await.map_err(|refusal| Error::Hash { member, refusal })?;
    let answers = raft.hashes_of_others(own.revision).await;
    for (peer, answer) in &answers {
        if let Err(refusal) = answer {
            tracing::warn!(remote_peer_id = format!("{peer:x}"), %refusal, ?own, "cannot fetch hash from remote peer");
        }
    }
    let different = different(own, &answers);
    for (peer, theirs) in &different {
        tracing::warn!(remote_peer_id = format!("{peer:x}"), ?own, ?theirs, "found different hash values from remote peer");
    }
    if !different.is_empty() {
        return Err(Error::Inconsistent { member });
    }
    tracing::info!(local_member_id = format!("{member:x}"), "initial corruption checking passed; no corruption");
    Ok(())
}

/// Those whose data differs although they compacted up to the same revision.
fn different(own: Print, answers: &Answers) -> Vec<(u64, Print)> {
    let answered = answers.iter().filter_map(|(id, answer)| Some((*id, answer.ok()?)));
    answered.filter(|(_, print)| print.compacted == own.compacted && print.hash != own.hash).collect()
}

/// Compares all members' data from time to time while this one leads; runs until shutdown.
pub(crate) async fn run_periodic(raft: RaftNode, interval: Duration, stop: Shutdown) {
    tracing::info!(?interval, "enabled corruption checking");
    while wait(interval, &stop).await {
        if !raft.progress().leads {
            continue;
        }
        if let Err(refusal) = check_now(&raft).await {
            tracing::warn!(%refusal, "failed to check hash KV");
        }
    }
}

async fn wait(interval: Duration, stop: &Shutdown) -> bool {
    tokio::select! {
        biased;
        () = stop.cancelled() => false,
        () = tokio::time::sleep(interval) => true,
    }
}

async fn check_now(raft: &RaftNode) -> Result<(), Refusal> {
    let before = raft.hash_here(0).await?;
    let answers = raft.hashes_of_others(before.revision).await;
    raft.read_barrier().await?;
    let after = raft.hash_here(0).await?;
    if let Some(id) = suspect(raft.identity().member_id, before, after, &answers) {
        raise(raft, id).await;
    }
    let checked = answers.iter().filter(|(_, answer)| answer.is_ok()).count();
    tracing::info!(number_of_peers_checked = checked, "finished peer corruption check");
    Ok(())
}

/// The first member found to be wrong, as a leader sees it that hashed its data `before` and `after` it asked.
fn suspect(me: u64, before: Print, after: Print, answers: &Answers) -> Option<u64> {
    if after.hash != before.hash && after.revision == before.revision && after.compacted == before.compacted {
        tracing::warn!(?before, ?after, "found hash mismatch");
        return Some(me);
    }
    let answered = answers.iter().filter_map(|(id, answer)| Some((*id, answer.ok()?)));
    let wrong = |theirs: &Print| match () {
        () if theirs.current > after.current => Some("revision from follower must be less than or equal to leader's"),
        () if theirs.compacted > after.compacted => Some("compact revision from follower must be less than or equal to leader's"),
        () if theirs.compacted == before.compacted && theirs.hash != before.hash => Some("same compact revision then hashes must match"),
        () => None,
    };
    answered.into_iter().find_map(|(id, theirs)| {
        let reason = wrong(&theirs)?;
        tracing::warn!(follower_peer_id = format!("{id:x}"), ?before, ?after, ?theirs, "{reason}");
        Some(id)
    })
}

/// Compares all members' data at compacted revisions while this one leads; runs until shutdown.
pub(crate) async fn run_at_compactions(raft: RaftNode, interval: Duration, stop: Shutdown) {
    let mut checked = 0;
    while wait(interval, &stop).await {
        let compacted = raft.state().read(|_, revisions| revisions.compacted).unwrap_or_default();
        if !raft.progress().leads || compacted <= checked {
            continue;
        }
        match check_compacted(&raft, compacted).await {
            Ok(true) => checked = compacted,
            Ok(false) => {}
            Err(refusal) => tracing::warn!(%refusal, "failed to check the hash at a compaction"),
        }
    }
}

/// True when nothing is left to be checked at this revision.
async fn check_compacted(raft: &RaftNode, revision: i64) -> Result<bool, Refusal> {
    let own = raft.hash_here(revision).await?;
    let answers = raft.hashes_of_others(revision).await;
    let verdict = judge(raft.identity().member_id, own, &answers);
    match &verdict {
        Verdict::Same => tracing::info!(revision, "successfully checked hash on whole cluster"),
        Verdict::Incomplete => {
            tracing::warn!(revision, ?answers, "skipped revision in compaction hash check; was not able to check all peers")
        }
        Verdict::Corrupt(members) => {
            tracing::error!(revision, ?own, ?answers, "detected compaction hash mismatch");
            for id in members {
                raise(raft, *id).await;
            }
        }
    }
    Ok(verdict != Verdict::Incomplete)
}

/// What comparing all members' data at a compacted revision came to.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// All have the same.
    Same,
    /// Some did not answer, or compacted up to another revision; the others have the same.
    Incomplete,
    /// These differ from the majority. Number 0, nobody's: there is no majority.
    Corrupt(Vec<u64>),
}

fn judge(me: u64, own: Print, answers: &Answers) -> Verdict {
    let mut by_hash = BTreeMap::from([(own.hash, vec![me])]);
    let comparable = answers.iter().filter_map(|(id, answer)| Some((*id, answer.ok()?)));
    let mut compared = 0;
    for (id, print) in comparable.filter(|(_, print)| print.compacted == own.compacted) {
        compared += 1;
        by_hash.entry(print.hash).or_default().push(id);
    }
    if by_hash.len() == 1 {
        return if compared == answers.len() { Verdict::Same } else { Verdict::Incomplete };
    }
    let members = answers.len() + 1;
    let quorum = members / 2 + 1;
    match by_hash.iter().find(|(_, members)| members.len() >= quorum).map(|(hash, _)| *hash) {
        Some(majority) => Verdict::Corrupt(by_hash.into_iter().filter(|(hash, _)| *hash != majority).flat_map(|(_, ids)| ids).collect()),
        None => Verdict::Corrupt(vec![0]),
    }
}

async fn raise(raft: &RaftNode, member: u64) {
    tracing::error!(member = format!("{member:x}"), "a member's data is corrupt: raising the alarm");
    let alarm = Alarm { member, kind: AlarmKind::Corrupt as i32, raised: true };
    if let Err(refusal) = raft.propose(Command::Alarm(alarm)).await {
        tracing::warn!(%refusal, "raise the corruption alarm; the next check will try again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(hash: u32, compacted: i64) -> Print {
        Print { hash, revision: 100, compacted, current: 110 }
    }

    fn say(answers: &[(u64, u32, i64)]) -> Vec<(u64, Result<Print, Refusal>)> {
        answers.iter().map(|(id, hash, compacted)| (*id, Ok(print(*hash, *compacted)))).collect()
    }

    #[test]
    fn a_member_does_not_start_on_data_that_differs_at_the_same_compaction() {
        let own = print(7, 50);
        assert!(different(own, &say(&[(2, 7, 50), (3, 8, 60)])).is_empty(), "another compaction has another hash");
        assert!(different(own, &[(2, Err(Refusal::FutureRevision)), (3, Err(Refusal::Timeout))]).is_empty());
        let ids: Vec<_> = different(own, &say(&[(2, 7, 50), (3, 8, 50)])).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, [3]);
    }

    #[test]
    fn the_leader_suspects_whom_it_can_prove_wrong() {
        let own = print(7, 50);
        let suspect = |after, answers: &[_]| suspect(1, own, after, answers);
        assert_eq!(suspect(own, &say(&[(2, 7, 50), (3, 7, 50)])), None);
        assert_eq!(suspect(own, &say(&[(2, 7, 50), (3, 8, 50)])), Some(3));
        assert_eq!(suspect(own, &say(&[(3, 8, 40)])), None, "it has not compacted yet");
        assert_eq!(suspect(own, &say(&[(3, 8, 60)])), Some(3), "it compacted what nobody asked it to");
        assert_eq!(suspect(print(7, 60), &say(&[(3, 8, 60)])), None, "compacted meanwhile");
        assert_eq!(suspect(print(8, 50), &[]), Some(1), "its own data changes under it");
        let ahead = Print { current: 111, ..own };
        assert_eq!(suspect(own, &[(2, Ok(ahead))]), Some(2));
    }

    #[test]
    fn at_a_compaction_the_minority_is_corrupt() {
        let own = print(7, 50);
        assert_eq!(judge(1, own, &say(&[(2, 7, 50), (3, 7, 50)])), Verdict::Same);
        assert_eq!(judge(1, own, &say(&[(2, 7, 50), (3, 7, 40)])), Verdict::Incomplete);
        assert_eq!(judge(1, own, &[(2, Ok(own)), (3, Err(Refusal::Timeout))]), Verdict::Incomplete);
        assert_eq!(judge(1, own, &say(&[(2, 7, 50), (3, 8, 50)])), Verdict::Corrupt(vec![3]));
        assert_eq!(judge(1, own, &say(&[(2, 8, 50), (3, 8, 50)])), Verdict::Corrupt(vec![1]));
        assert_eq!(judge(1, own, &say(&[(2, 8, 50), (3, 9, 50)])), Verdict::Corrupt(vec![0]));
        assert_eq!(judge(1, own, &say(&[(2, 8, 50)])), Verdict::Corrupt(vec![0]), "of two, neither is a majority");
    }
}
