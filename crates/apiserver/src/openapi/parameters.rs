//! Query and path parameters of operations.

use serde_json::{Map, Value, json};

use super::Version;

/// A query parameter: name, type, what it does.
type Query = (&'static str, &'static str, &'static str);

const PRETTY: Query = ("pretty", "string", "If true, the output is indented for reading.");
const DRY_RUN: Query = ("dryRun", "string", "If All, all stages of the request are run but nothing is stored.");
const FIELD_MANAGER: Query = ("fieldManager", "string", "Name of the actor making the change; at most 128 printable characters.");
const FIELD_VALIDATION: Query = (
    "fieldValidation",
    "string",
    "What to do with unknown or duplicate fields: Ignore drops them, Warn (the default) tells in a warning header, Strict refuses the request.",
);
const FORCE: Query = ("force", "boolean", "For apply: take over fields that other managers own.");

pub(super) const LIST: &[Query] = &[
    ("allowWatchBookmarks", "boolean", "Ask for bookmark events during a watch."),
    ("continue", "string", "Token of the page to go on from, out of the last page's metadata."),
    ("fieldSelector", "string", "Only objects whose fields match."),
    ("labelSelector", "string", "Only objects whose labels match."),
    ("limit", "integer", "Most objects in one page."),
    ("resourceVersion", "string", "Resource version to read at or to watch from."),
    ("resourceVersionMatch", "string", "How resourceVersion applies to a list: Exact or NotOlderThan."),
    ("sendInitialEvents", "boolean", "Begin a watch with the objects there are, then a bookmark."),
    ("shardSelector", "string", "Only objects of a shard."),
    ("timeoutSeconds", "integer", "End the call after this many seconds."),
    ("watch", "boolean", "Watch for changes instead of listing."),
];
pub(super) const WRITE: &[Query] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
pub(super) const PATCH: &[Query] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
pub(super) const DELETE: &[Query] = &[
    DRY_RUN,
    ("gracePeriodSeconds", "integer", "Seconds before the object is deleted; 0 means at once."),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Delete an object that cannot be read from the store, leaving behind what its deletion should have cleaned up.",
    ),
    ("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    ("propagationPolicy", "string", "What happens to dependents: Orphan, Background or Foreground."),
];
pub(super) const COMMON: &[Query] = &[PRETTY];

/// A query parameter as the version writes it.
pub(super) fn query((name, kind, description): &Query, version: Version) -> Value {
    located(name, "query", kind, description, version)
}

/// A path parameter, which is always required.
pub(super) fn path(name: &str, description: &str, version: Version) -> Value {
    let mut out = located(name, "path", "string", description, version);
    out["required"] = true.into();
    out
}

fn located(name: &str, place: &str, kind: &str, description: &str, version: Version) -> Value {
    let mut out = Map::from_iter([
        ("name".to_owned(), Value::from(name)),
        ("in".to_owned(), place.into()),
        ("description".to_owned(), description.into()),
        ("uniqueItems".to_owned(), true.into()),
    ]);
    match version {
        Version::V2 => _ = out.insert("type".into(), kind.into()),
        Version::V3 => {
            out.remove("uniqueItems");
            out.insert("schema".into(), json!({"type": kind, "uniqueItems": true}));
        }
    }
    Value::Object(out)
}
