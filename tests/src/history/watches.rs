//! What watchers were shown, and whether it was the log: all of it, once, in order, whole revisions at a time.

use super::{
    Violation,
    log::{Event, Log, Range},
};

/// A watcher over its whole life.
#[derive(Clone, Debug)]
pub struct Watch {
    /// For complaints.
    pub name: String,
    /// The keys it asked for.
    pub range: Range,
    /// Whether it asked for the pairs before.
    pub with_before: bool,
    /// One after the other; a broken one is followed by one that begins after the last revision shown.
    pub streams: Vec<Stream>,
}

/// One stream of a watcher.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// First revision it asked for.
    pub start: i64,
    /// What it was told.
    pub responses: Vec<Response>,
}

/// One answer: events, or, without any, that everything up to `revision` has been shown.
#[derive(Clone, Debug)]
pub struct Response {
    /// The store's revision at that time.
    pub revision: i64,
    /// What happened.
    pub events: Vec<Event>,
    /// The last revision in it goes on in the next answer.
    pub fragment: bool,
}

impl Stream {
    /// The first revision it has not been shown: where its successor has to begin.
    pub fn next(&self) -> i64 {
        let mut next = self.start;
        for response in self.responses.iter().filter(|response| !response.fragment) {
            let reached = response.events.last().map_or(response.revision, |event| event.pair.modified);
            next = next.max(reached + 1);
        }
        next
    }
}

/// Whether a watcher was shown the log from where it began up to the end.
///
/// # Errors
/// It was not.
pub fn check(log: &Log, watch: &Watch) -> Result<(), Violation> {
    let Some(first) = watch.streams.first() else { return Ok(()) };
    let mut place = Place { log, watch, next: first.start };
    for stream in &watch.streams {
        if stream.start != place.next {
            return Err(Violation::ResumedElsewhere { watcher: watch.name.clone(), expected: place.next, found: stream.start });
        }
        place.follow(stream)?;
    }
    match place.due(log.upto()) {
        Some(missing) => Err(Violation::NeverShown { watcher: watch.name.clone(), missing }),
        None => Ok(()),
    }
}

/// How far a watcher has come.
struct Place<'a> {
    log: &'a Log,
    watch: &'a Watch,
    /// First revision it has not been shown.
    next: i64,
}

impl Place<'_> {
    fn follow(&mut self, stream: &Stream) -> Result<(), Violation> {
        let mut pieces = Vec::new();
        for response in &stream.responses {
            self.header(response)?;
            pieces.extend(response.events.iter().cloned());
            // What a broken stream leaves unfinished is shown again by the next one.
            if response.fragment {
                continue;
            }
            if pieces.is_empty() {
                self.bookmark(response.revision)?;
            }
            for revision in std::mem::take(&mut pieces).chunk_by(|a, b| a.pair.modified == b.pair.modified) {
                self.shown(revision)?;
            }
        }
        Ok(())
    }

    fn header(&self, response: &Response) -> Result<(), Violation> {
        let (header, newest) = (response.revision, response.events.iter().map(|event| event.pair.modified).max());
        match newest {
            Some(event) if event > header => Err(Violation::HeaderBehind { watcher: self.watch.name.clone(), header, event }),
            _ => Ok(()),
        }
    }

    /// The next revision it has to be shown, if that is not after `upto`.
    fn due(&self, upto: i64) -> Option<i64> {
        let concerned = |events: &[Event]| events.iter().any(|event| self.watch.range.contains(&event.pair.key));
        let due = self.log.since(self.next).find(|(_, events)| concerned(events));
        due.map(|(revision, _)| revision).filter(|revision| *revision <= upto)
    }

    fn expected(&self, revision: i64, found: &[Event]) -> Vec<Event> {
        let events = self.log.at(revision).iter().filter(|event| self.watch.range.contains(&event.pair.key));
        let untold = |number: usize| self.log.may_lack_before(revision) && found.get(number).is_some_and(|found| found.before.is_none());
        let before = |number, event: &Event| event.before.clone().filter(|_| self.watch.with_before && !untold(number));
        events.enumerate().map(|(number, event)| Event { before: before(number, event), ..event.clone() }).collect()
    }

    fn shown(&mut self, events: &[Event]) -> Result<(), Violation> {
        let watcher = self.watch.name.clone();
        let Some(found) = events.first().map(|event| event.pair.modified) else { return Ok(()) };
        if found < self.next {
            return Err(Violation::Repeated { watcher, found, next: self.next });
        }
        if let Some(expected) = self.due((found - 1).min(self.log.upto())) {
            return Err(Violation::Missed { watcher, expected, found });
        }
        let expected = self.expected(found, events);
        // The log ends somewhere; the store went on.
        if found <= self.log.upto() && expected != events {
            return Err(Violation::Differs { watcher, revision: found, found: events.to_vec(), expected });
        }
        self.next = found + 1;
        Ok(())
    }

    fn bookmark(&mut self, bookmark: i64) -> Result<(), Violation> {
        if let Some(missing) = self.due(bookmark) {
            return Err(Violation::BookmarkAhead { watcher: self.watch.name.clone(), bookmark, missing });
        }
        self.next = self.next.max(bookmark + 1);
        Ok(())
    }
}
