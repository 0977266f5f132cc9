//! ConfigMaps as pairs of the history: as a client is shown them, and as the store holds them.

use k8s_openapi::api::core::v1::ConfigMap;

use super::PREFIX;
use crate::history::{Event, Kind, Log, Pair};

/// Versions in the history of an object that was just created, and of one that has been changed: no more is told to clients.
pub(super) const CREATED: i64 = 1;
pub(super) const CHANGED: i64 = 2;

/// A ConfigMap as a client is shown it.
pub(super) fn pair(map: &ConfigMap) -> Pair {
    let metadata = &map.metadata;
    let modified = metadata.resource_version.as_deref().unwrap_or_default().parse().unwrap();
    Pair { key: key(metadata.name.as_deref().unwrap_or_default()), value: value(map), modified, ..Pair::default() }
}

/// Where the store has the ConfigMap of that name.
pub(super) fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// What tells one state of a ConfigMap from every other: its UID, and what was last written.
fn value(map: &ConfigMap) -> String {
    let number = map.data.as_ref().and_then(|data| data.get(super::writer::FIELD));
    format!("{} {}", uid(map), number.map_or("", String::as_str))
}

/// The UID of a ConfigMap.
pub(super) fn uid(map: &ConfigMap) -> &str {
    map.metadata.uid.as_deref().unwrap_or_default()
}

/// Whether a pair is a state of the ConfigMap of that UID.
pub(super) fn is_of(pair: &Pair, uid: &str) -> bool {
    pair.value.split_once(' ').is_some_and(|(found, _)| found == uid)
}

/// What clients of the API server have to be shown of what has happened in the store.
pub(super) fn log(stored: &Log) -> Log {
    let events = stored.revisions().flat_map(|(_, events)| events).map(|event| Event {
        kind: event.kind,
        pair: shown(&event.pair, event.kind),
        before: event.before.as_ref().map(|before| shown(before, Kind::Put)),
    });
    Log::new(stored.after(), stored.upto(), events)
}

fn shown(stored: &Pair, kind: Kind) -> Pair {
    let (value, version) = match kind {
        Kind::Put => (
            value(&serde_json::from_str(&stored.value).unwrap_or_else(|error| panic!("{error}: {stored:?}"))),
            if stored.version == 1 { CREATED } else { CHANGED },
        ),
        Kind::Delete => (String::new(), 0),
    };
    Pair { key: stored.key.clone(), value, modified: stored.modified, created: 0, version }
}
