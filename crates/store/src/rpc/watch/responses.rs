//! Events of whole revisions cut into answers.

use super::super::convert;
use crate::{
    mvcc::Event,
    watch::{Watch, ring::Revision},
};
use bytes::Bytes;
use std::sync::Arc;

/// A part of the events for one watcher.
#[derive(Debug, PartialEq)]
pub(super) struct Part {
    pub(super) events: Vec<Bytes>,
    /// More of the same revision follows.
    pub(super) fragment: bool,
}

/// Bytes after which an answer is full; a revision is only split where the watcher allows it.
pub(super) const FULL: usize = 1 << 20;

/// Cuts the events a watcher wants into answers that keep each revision together, unless it takes fragments. Events after
/// the revision `prev_after` carry the pair before.
pub(super) fn parts(revisions: &[Arc<Revision>], watch: &Watch, prev_after: i64, fragments: bool, full: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    let (mut events, mut size) = (Vec::new(), 0);
    for revision in revisions {
        let encode = encode(revision.revision > prev_after);
        let wanted: Vec<Bytes> = revision.events.iter().filter(|event| watch.wants_event(event)).map(encode).collect();
        let bytes: usize = wanted.iter().map(Bytes::len).sum();
        if !events.is_empty() && size + bytes > full {
            parts.push(Part { events: std::mem::take(&mut events), fragment: false });
            size = 0;
        }
        if fragments && bytes > full {
            split(wanted, full, &mut parts);
            continue;
        }
        events.extend(wanted);
        size += bytes;
    }
    if !events.is_empty() {
        parts.push(Part { events, fragment: false });
    }
    parts
}

fn encode(with_prev: bool) -> impl Fn(&Event) -> Bytes {
    move |event| convert::encode_event(event, with_prev)
}

/// Splits one revision; all parts but the last say that more follows.
fn split(wanted: Vec<Bytes>, full: usize, parts: &mut Vec<Part>) {
    let (mut events, mut size) = (Vec::new(), 0);
    for event in wanted {
        if !events.is_empty() && size + event.len() > full {
            parts.push(Part { events: std::mem::take(&mut events), fragment: true });
            size = 0;
        }
        size += event.len();
        events.push(event);
    }
    parts.push(Part { events, fragment: false });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        mvcc::{EventKind, KeyRange, KeyValue},
        watch::Filter,
    };

    fn revision(number: i64, keys: &[&'static str]) -> Arc<Revision> {
        let event = |key: &&'static str| {
            let kv = KeyValue { key: Bytes::from(*key), mod_revision: number, value: vec![0; 100].into(), ..Default::default() };
            Event::new(EventKind::Put, kv, None)
        };
        Arc::new(Revision { revision: number, events: keys.iter().map(event).collect() })
    }

    fn cut(revisions: &[Arc<Revision>], fragments: bool, full: usize) -> Vec<(usize, bool)> {
        let range = KeyRange::new(&"a".into(), &"b".into());
        let watch = Watch { range, filter: Filter::default(), start: 1 };
        parts(revisions, &watch, i64::MAX, fragments, full).iter().map(|part| (part.events.len(), part.fragment)).collect()
    }

    #[test]
    fn a_revision_stays_together() {
        let revisions = [revision(2, &["a1", "b", "a2"]), revision(3, &["b"]), revision(4, &["a1", "a2", "a3"])];
        assert_eq!(cut(&revisions, false, 1 << 20), [(5, false)]);
        assert_eq!(cut(&revisions, false, 300), [(2, false), (3, false)]);
        assert_eq!(cut(&revisions, false, 1), [(2, false), (3, false)]);
    }

    #[test]
    fn a_large_revision_is_split_for_who_takes_fragments() {
        let revisions = [revision(2, &["a1"]), revision(3, &["a1", "a2", "a3"]), revision(4, &["a1"])];
        assert_eq!(cut(&revisions, true, 250), [(1, false), (2, true), (1, false), (1, false)]);
    }
}
