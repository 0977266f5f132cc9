//! What a store must not do.

use std::time::Duration;

use super::{Event, Pair};

/// Something a store that keeps its word does not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Violation {
    #[error("revision {revision} is missing in the log")]
    Gap { revision: i64 },
    #[error("acknowledged at revision {revision}, and lost: {call}")]
    Lost { revision: i64, call: String },
    #[error("revision {revision} was acknowledged twice: {first} and {second}")]
    AcknowledgedTwice { revision: i64, first: String, second: String },
    #[error("revision {revision} comes from no call: {events:?}")]
    FromNowhere { revision: i64, events: Vec<Event> },
    #[error("took effect at revisions {first} and {second}: {call}")]
    TookEffectTwice { first: i64, second: i64, call: String },
    #[error("was refused, and took effect at revision {revision}: {call}")]
    RefusedButDone { revision: i64, call: String },
    #[error("the log has other events at revision {revision} than {call} makes: {found:?} instead of {expected:?}")]
    OtherEffect { revision: i64, call: String, found: Vec<Event>, expected: Vec<Event> },
    #[error("a wrong answer at revision {revision} to {call}: {expected} would be right")]
    WrongAnswer { revision: i64, call: String, expected: String },
    #[error("revision {seen} was there before the call began, but it was answered at {revision}: {call}")]
    BackInTime { revision: i64, seen: i64, call: String },
    #[error("answered at revision {revision}, whose write began only afterwards: {call}")]
    FromTheFuture { revision: i64, call: String },
    #[error("{watcher}: resumed at revision {found}, after it had everything before {expected}")]
    ResumedElsewhere { watcher: String, expected: i64, found: i64 },
    #[error("{watcher}: shown revision {found} when {expected} was due")]
    Missed { watcher: String, expected: i64, found: i64 },
    #[error("{watcher}: shown revision {found} again, or before its time: {next} was the first it had not seen")]
    Repeated { watcher: String, found: i64, next: i64 },
    #[error("{watcher}: revision {revision} came in pieces, or differs: {found:?} instead of {expected:?}")]
    Differs { watcher: String, revision: i64, found: Vec<Event>, expected: Vec<Event> },
    #[error("{watcher}: told that revision {bookmark} is reached, but {missing} was still to come")]
    BookmarkAhead { watcher: String, bookmark: i64, missing: i64 },
    #[error("{watcher}: the answer says revision {header}, its events are of {event}")]
    HeaderBehind { watcher: String, header: i64, event: i64 },
    #[error("{watcher}: listed revision {found}, after it had been shown {shown}")]
    SteppedBack { watcher: String, shown: i64, found: i64 },
    #[error("{watcher}: the list of revision {revision} is another: {found:?} instead of {expected:?}")]
    OtherList { watcher: String, revision: i64, found: Vec<Pair>, expected: Vec<Pair> },
    #[error("{watcher}: never shown revision {missing}")]
    NeverShown { watcher: String, missing: i64 },
    #[error("lease {lease} was to live until {promised:?}, and was gone at {gone:?}")]
    LeaseEndedEarly { lease: String, promised: Duration, gone: Duration },
    #[error("lease {lease} was gone at {gone:?}, and there again at {renewed:?}")]
    LeaseCameBack { lease: String, gone: Duration, renewed: Duration },
    #[error("lease {lease} was let go of, and never ended")]
    LeaseNeverEnded { lease: String },
}
