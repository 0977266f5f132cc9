//! One watch, and whether what it was sent can be.

use std::time::Duration;

use futures::StreamExt as _;

use super::super::super::*;
use super::model::{Model, Told, Wanted};
use crate::storage::event::EventKind;

/// What a watch was sent.
#[derive(Debug)]
enum Sent {
    Event(Told),
    Bookmark { revision: Revision, initial_events_end: bool },
}

/// A watch that remembers all it was sent.
pub(super) struct Follower {
    wanted: Wanted,
    options: WatchOptions,
    stream: WatchStream,
    sent: Vec<Sent>,
    /// The states it may have begun with, as far as what it was sent tells.
    beginnings: Vec<Revision>,
    pub(super) ended: bool,
}

impl Follower {
    pub(super) fn new(wanted: Wanted, options: WatchOptions, stream: WatchStream, now: Revision) -> Self {
        let beginnings = match options.start {
            WatchStart::Latest => now..=now,
            WatchStart::Any => 0..=now,
            WatchStart::After(revision) if options.initial_events == Some(true) => revision..=now,
            WatchStart::After(revision) => revision..=revision,
        };
        let beginnings = beginnings.collect();
        Self { wanted, options, stream, sent: Vec::new(), beginnings, ended: false }
    }

    /// Takes up to `most` items, while there are any.
    pub(super) async fn read(&mut self, most: u64, model: &Model, shaky: bool) {
        for _ in 0..most {
            let Ok(item) = tokio::time::timeout(Duration::from_millis(1), self.stream.next()).await else { return };
            match item {
                Some(Ok(WatchItem::Event(event))) => {
                    let entry = event.entry();
                    assert_eq!(entry.object().resource_version(), entry.revision().to_string());
                    self.sent.push(Sent::Event((event.kind, entry.key().clone(), entry.revision())));
                }
                Some(Ok(WatchItem::Bookmark { revision, initial_events_end })) => {
                    assert!(self.options.bookmarks, "a bookmark nobody asked for");
                    self.sent.push(Sent::Bookmark { revision, initial_events_end });
                }
                Some(Err(error)) => {
                    refusal(&self.options, &error, model, shaky);
                    self.ended = true;
                }
                None => self.ended = true,
            }
            if self.ended {
                return;
            }
        }
    }

    fn wants_state(&self) -> bool {
        self.options.initial_events.unwrap_or(!matches!(self.options.start, WatchStart::After(_)))
    }

    /// Whether what was sent can be.
    pub(super) fn is_right(&mut self, model: &Model) -> bool {
        let beginnings = std::mem::take(&mut self.beginnings);
        self.beginnings = beginnings.into_iter().filter(|beginning| self.fits(model, *beginning, false)).collect();
        !self.beginnings.is_empty()
    }

    /// Whether all was sent that there is to say.
    pub(super) fn is_at_the_end(&self, model: &Model) -> bool {
        !self.ended && self.beginnings.iter().any(|beginning| self.fits(model, *beginning, true))
    }

    fn fits(&self, model: &Model, beginning: Revision, all: bool) -> bool {
        let state = if self.wants_state() { model.state(beginning, &self.wanted) } else { Default::default() };
        let initial: Vec<Told> = state.into_iter().map(|(key, revision)| (EventKind::Added, key, revision)).collect();
        let changes = model.told(beginning, &self.wanted);
        let (mut next, mut marked) = (0, 0);
        let due = |next: usize| initial.get(next).or_else(|| changes.get(next - initial.len()));
        for sent in &self.sent {
            let right = match sent {
                Sent::Event(told) => {
                    next += 1;
                    due(next - 1) == Some(told)
                }
                Sent::Bookmark { revision, initial_events_end: true } => next == initial.len() && *revision == beginning,
                Sent::Bookmark { revision, .. } => {
                    let behind = next >= initial.len() && due(next).is_none_or(|(.., due)| due > revision);
                    let forth = *revision >= marked && *revision <= model.revision().max(beginning);
                    marked = *revision;
                    behind && forth
                }
            };
            if !right {
                return false;
            }
        }
        let opened = !(self.wants_state() && self.options.initial_events == Some(true) && self.options.bookmarks)
            || self.sent.iter().any(|sent| matches!(sent, Sent::Bookmark { initial_events_end: true, .. }));
        !all || (opened && next == initial.len() + changes.len())
    }

    /// How to go on after the end without a gap: from the last revision known to be told whole, else anew.
    pub(super) fn resume(&self) -> (Wanted, WatchOptions) {
        let mut whole = !self.wants_state();
        let mut last = match self.options.start {
            WatchStart::After(revision) if whole => Some(revision),
            _ => None,
        };
        for sent in &self.sent {
            match sent {
                Sent::Bookmark { revision, .. } => (whole, last) = (true, Some(last.map_or(*revision, |last| last.max(*revision)))),
                Sent::Event((.., revision)) if whole => last = Some(*revision),
                Sent::Event(_) => {}
            }
        }
        let options = match last {
            Some(revision) => WatchOptions { start: WatchStart::After(revision), initial_events: None, ..self.options.clone() },
            None => self.options.clone(),
        };
        (self.wanted.clone(), options)
    }

    pub(super) fn describe(&self) -> String {
        let Self { wanted, options, sent, beginnings, .. } = self;
        let WatchOptions { start, initial_events, bookmarks, .. } = options;
        format!("{wanted:?} {start:?} initial={initial_events:?} bookmarks={bookmarks} from {beginnings:?} was sent {sent:?}")
    }
}

/// Only what the store has forgotten may be refused; where the source was broken just now (`shaky`), also what may be too new.
pub(super) fn refusal(options: &WatchOptions, error: &Error, model: &Model, shaky: bool) {
    match (error, options.start) {
        (Error::Timeout(_), _) => {}
        (Error::Compacted { .. }, WatchStart::After(revision)) => {
            assert!(revision < model.compacted, "{revision} was refused, of which everything is known after {}", model.compacted);
        }
        // The store's own watch, where the cache was not ready: its history went before it was read.
        (Error::Compacted { .. }, _) => assert!(model.compacted > 0),
        (Error::FutureRevision { .. }, WatchStart::After(revision)) => assert!(shaky || revision > model.revision()),
        (error, start) => panic!("a watch from {start:?} failed: {error:?}"),
    }
}
