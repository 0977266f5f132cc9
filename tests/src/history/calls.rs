//! Calls of clients, and whether the answers can all be true.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use super::{
    Violation,
    log::{Event, Kind, Log, Pair, Range},
    model::Model,
};

/// One call as its client saw it. Times are counted from the start of the run.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who called whom.
    pub client: String,
    /// When it was sent.
    pub start: Duration,
    /// When the answer came, or the client gave up.
    pub end: Duration,
    /// What was asked.
    pub request: Request,
    /// What came of it.
    pub outcome: Outcome,
}

/// A transaction; a plain put, deletion or read is one without a condition. No two requests write the same value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// It may be answered with an older state.
    pub serializable: bool,
    /// All must hold.
    pub compare: Vec<Compare>,
    /// What is done when they do.
    pub then: Vec<Op>,
    /// What is done when they do not.
    pub otherwise: Vec<Op>,
}

/// A key's latest change was at this revision; 0: the key is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Compare {
    pub key: String,
    pub modified: i64,
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    Put { key: String, value: String },
    Delete { key: String },
    Get(Range),
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered.
    Done(Answer),
    /// It surely did nothing.
    Refused,
    /// It may have taken effect, once, at any time after its start.
    Unknown,
}

/// What the store answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The store's revision: the one it made, or the one it read at.
    pub revision: i64,
    /// Whether the conditions held.
    pub succeeded: bool,
    /// Of each step.
    pub results: Vec<Found>,
}

/// What a step found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was put.
    Put,
    /// So many keys were deleted.
    Deleted(i64),
    /// These are there.
    Pairs(Vec<Pair>),
}

impl Call {
    fn answer(&self) -> Option<&Answer> {
        match &self.outcome {
            Outcome::Done(answer) => Some(answer),
            Outcome::Refused | Outcome::Unknown => None,
        }
    }

    /// It was acknowledged to have changed something.
    pub fn wrote(&self) -> bool {
        let changed = |found: &Found| matches!(found, Found::Put) || matches!(found, Found::Deleted(keys) if *keys > 0);
        self.answer().is_some_and(|answer| answer.results.iter().any(changed))
    }

    fn told(&self) -> String {
        format!("{self:?}")
    }
}

impl Request {
    fn ops(&self) -> impl Iterator<Item = &Op> {
        self.then.iter().chain(&self.otherwise)
    }

    fn values(&self) -> impl Iterator<Item = &str> {
        self.ops().filter_map(|op| match op {
            Op::Put { value, .. } => Some(&value[..]),
            Op::Delete { .. } | Op::Get(_) => None,
        })
    }

    fn deletes(&self) -> bool {
        self.ops().any(|op| matches!(op, Op::Delete { .. }))
    }
}

/// Whether the answers of all calls, and the log, can be the work of one store that does everything one after the other.
///
/// # Errors
/// They cannot.
pub fn check(log: &Log, calls: &[Call]) -> Result<(), Violation> {
    let authors = Authors::new(log, calls)?;
    let made = replay(log, calls, &authors)?;
    in_time(log, calls, &made)
}

/// The longest time within `from..to` without an acknowledged write.
pub fn longest_pause<'a>(calls: impl IntoIterator<Item = &'a Call>, from: Duration, to: Duration) -> Duration {
    let mut ends: Vec<_> = calls.into_iter().filter(|call| call.wrote()).map(|call| call.end).collect();
    ends.retain(|end| (from..to).contains(end));
    ends.push(to);
    ends.sort();
    let starts = std::iter::once(from).chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, end)| end.saturating_sub(start)).max().unwrap_or_default()
}

/// Which call may have made a revision.
struct Authors<'a> {
    calls: &'a [Call],
    acknowledged: BTreeMap<i64, usize>,
    by_value: HashMap<&'a str, usize>,
    /// Deletions whose outcome nobody knows. Those with a condition come first: they fit fewer revisions.
    deletions: Vec<usize>,
}

impl<'a> Authors<'a> {
    fn new(log: &Log, calls: &'a [Call]) -> Result<Self, Violation> {
        let mut authors = Authors { calls, acknowledged: BTreeMap::new(), by_value: HashMap::new(), deletions: Vec::new() };
        for (number, call) in calls.iter().enumerate() {
            authors.by_value.extend(call.request.values().map(|value| (value, number)));
            if let Some(answer) = call.answer().filter(|_| call.wrote()) {
                let revision = answer.revision;
                if log.at(revision).is_empty() {
                    return Err(Violation::Lost { revision, call: call.told() });
                }
                if let Some(first) = authors.acknowledged.insert(revision, number) {
                    return Err(Violation::AcknowledgedTwice { revision, first: calls[first].told(), second: call.told() });
                }
            }
            if call.outcome == Outcome::Unknown && call.request.deletes() {
                authors.deletions.push(number);
            }
        }
        authors.deletions.sort_by_key(|number| calls[*number].request.compare.is_empty());
        Ok(authors)
    }

    /// The call that made a revision; `made` says which calls made an earlier one, `floor` what was known at a call's start.
    fn of(&self, revision: i64, events: &[Event], model: &Model, made: &HashMap<usize, i64>, floor: &Floor) -> Result<usize, Violation> {
        if let Some(number) = self.acknowledged.get(&revision) {
            return Ok(*number);
        }
        let values = events.iter().filter(|event| event.kind == Kind::Put).map(|event| &event.pair.value[..]);
        let fits = |number: &&usize| {
            let call = &self.calls[**number];
            !made.contains_key(*number) && floor.at(call.start) < revision && model.run(&call.request, revision).1 == events
        };
        let found = values.into_iter().find_map(|value| self.by_value.get(value));
        let found = found.or_else(|| self.deletions.iter().find(fits));
        let number = *found.ok_or_else(|| Violation::FromNowhere { revision, events: events.to_vec() })?;
        let call = &self.calls[number];
        let before = made.get(&number).copied().or_else(|| call.answer().map(|answer| answer.revision));
        match (&call.outcome, before) {
            (_, Some(first)) => Err(Violation::TookEffectTwice { first, second: revision, call: call.told() }),
            (Outcome::Refused, None) => Err(Violation::RefusedButDone { revision, call: call.told() }),
            (_, None) => Ok(number),
        }
    }
}

/// Goes through the log once: each revision must be what its author makes of the state before it, and everything that
/// was read must be what was there. Returns which call made which revision.
fn replay(log: &Log, calls: &[Call], authors: &Authors<'_>) -> Result<HashMap<usize, i64>, Violation> {
    let floor = Floor::new(calls);
    let mut reads: Vec<_> = calls.iter().filter_map(|call| Some((call.answer()?, call))).filter(|(_, call)| !call.wrote()).collect();
    reads.sort_by_key(|(answer, _)| answer.revision);
    let mut reads = reads.into_iter().peekable();
    let (mut model, mut made) = (Model::default(), HashMap::new());
    let mut read_before = |model: &Model, revision: i64| {
        while let Some((answer, call)) = reads.next_if(|(answer, _)| answer.revision < revision) {
            right(model, call, answer)?;
        }
        Ok(())
    };
    for (revision, events) in log.revisions() {
        read_before(&model, revision)?;
        let number = authors.of(revision, events, &model, &made, &floor)?;
        let call = &calls[number];
        if let Some(answer) = call.answer() {
            right(&model, call, answer)?;
        }
        let (_, expected) = model.run(&call.request, revision);
        if expected != events {
            return Err(Violation::OtherEffect { revision, call: call.told(), found: events.to_vec(), expected });
        }
        made.insert(number, revision);
        model.replay(events);
    }
    read_before(&model, i64::MAX)?;
    Ok(made)
}

fn right(model: &Model, call: &Call, answer: &Answer) -> Result<(), Violation> {
    let (expected, _) = model.run(&call.request, answer.revision);
    if expected == *answer {
        return Ok(());
    }
    Err(Violation::WrongAnswer { revision: answer.revision, call: call.told(), expected: format!("{expected:?}") })
}

/// The highest revision that some client knew of at a time: whoever begins later must not be shown less.
struct Floor(Vec<(Duration, i64)>);

impl Floor {
    fn new(calls: &[Call]) -> Self {
        let mut known: Vec<_> = calls.iter().filter_map(|call| Some((call.end, call.answer()?.revision))).collect();
        known.sort();
        let mut highest = 0;
        for (_, revision) in &mut known {
            highest = highest.max(*revision);
            *revision = highest;
        }
        Self(known)
    }

    /// What was known before `time`.
    fn at(&self, time: Duration) -> i64 {
        let before = self.0.partition_point(|(end, _)| *end < time);
        before.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}

/// Whether every call's place in the order of revisions agrees with the clock on the wall.
fn in_time(log: &Log, calls: &[Call], made: &HashMap<usize, i64>) -> Result<(), Violation> {
    let floor = Floor::new(calls);
    for (number, call) in calls.iter().enumerate() {
        let seen = floor.at(call.start);
        let wrote = made.get(&number).copied();
        let revision = match (wrote, call.answer()) {
            // A write makes a revision that nobody knew before.
            (Some(revision), _) if revision <= seen => return Err(Violation::BackInTime { revision, seen, call: call.told() }),
            (Some(_), _) | (None, None) => continue,
            (None, Some(answer)) => answer.revision,
        };
        if !call.request.serializable && revision < seen {
            return Err(Violation::BackInTime { revision, seen, call: call.told() });
        }
    }
    not_from_the_future(log, calls, made)
}

/// Whoever saw a revision saw it after the call that made it had begun.
fn not_from_the_future(log: &Log, calls: &[Call], made: &HashMap<usize, i64>) -> Result<(), Violation> {
    let began: HashMap<_, _> = made.iter().map(|(number, revision)| (*revision, calls[*number].start)).collect();
    let mut latest = Duration::ZERO;
    // The latest start among the makers of all revisions up to one.
    let starts: Vec<_> = log
        .revisions()
        .map(|(revision, _)| {
            latest = latest.max(began.get(&revision).copied().unwrap_or_default());
            (revision, latest)
        })
        .collect();
    for call in calls {
        let Some(answer) = call.answer() else { continue };
        let before = starts.partition_point(|(revision, _)| *revision <= answer.revision);
        let start = before.checked_sub(1).map_or(Duration::ZERO, |last| starts[last].1);
        if start > call.end {
            return Err(Violation::FromTheFuture { revision: answer.revision, call: call.told() });
        }
    }
    Ok(())
}
