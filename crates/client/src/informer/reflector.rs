//! List, then watch from there, and list anew when the version has expired.

use std::time::Duration;

use futures::StreamExt as _;
use kube::{
    api::{ListParams, VersionMatch, WatchEvent, WatchParams},
    core::{ObjectList, Status},
};
use rand::Rng as _;
use tokio::time::{Instant, timeout_at};

use super::{Informer, Object, store::Update};
use crate::retry;

/// First and longest pause after a failure, as client-go's reflector.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(30));
/// A connection that went well for this long starts over with the shortest pause.
const BACKOFF_RESET: Duration = Duration::from_secs(120);
/// The server ends a watch after this many seconds, spread so that not all come back at once.
const WATCH_SECONDS: std::ops::Range<u32> = 300..600;
/// How long after its announced end a silent watch is given up.
const WATCH_GRACE: Duration = Duration::from_secs(10);
/// A watch that ends sooner than this counts as failed.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// From where to go on.
enum Position {
    /// Any version will do that is not older than this; "0" is the server's cache as it is.
    ListAt(String),
    /// Only the latest state will do: an earlier version has expired.
    ListLatest,
    /// The cache shows this version; watch what comes after.
    WatchAfter(String),
}

enum Failure {
    /// The position cannot be resumed.
    Expired,
    /// Try the same again, later.
    Transient,
}

pub(super) async fn reflect<K: Object>(informer: &Informer<K>) {
    let mut position = Position::ListAt("0".into());
    let mut pause = BACKOFF.0;
    loop {
        let started = Instant::now();
        let failure;
        (position, failure) = step(informer, position).await;
        if started.elapsed() > BACKOFF_RESET {
            pause = BACKOFF.0;
        }
        if failure.is_some() {
            tokio::time::sleep(retry::jitter(pause, 1.0)).await;
            pause = (pause * 2).min(BACKOFF.1);
        }
    }
}

/// One list or one watch; where to go on afterwards, and whether it failed.
async fn step<K: Object>(informer: &Informer<K>, position: Position) -> (Position, Option<Failure>) {
    match position {
        Position::WatchAfter(version) => watch(informer, version).await,
        position => match list(informer, &position).await {
            Ok(version) => (Position::WatchAfter(version), None),
            Err(Failure::Expired) => (Position::ListLatest, Some(Failure::Expired)),
            Err(Failure::Transient) => (position, Some(Failure::Transient)),
        },
    }
}

async fn list<K: Object>(informer: &Informer<K>, position: &Position) -> Result<String, Failure> {
    let mut params = ListParams::default();
    if let Position::ListAt(version) = position {
        params.resource_version = Some(version.clone());
        params.version_match = (version != "0").then_some(VersionMatch::NotOlderThan);
    }
    let list = informer.shared.source.list(&params).await.map_err(|error| failed(informer, "list", &error))?;
    let ObjectList { metadata, items, .. } = list;
    informer.apply(Update::Replace(items));
    informer.shared.synced.send_replace(true);
    Ok(metadata.resource_version.unwrap_or_default())
}

async fn watch<K: Object>(informer: &Informer<K>, mut version: String) -> (Position, Option<Failure>) {
    let seconds = rand::rng().random_range(WATCH_SECONDS);
    let params = WatchParams::default().timeout(seconds);
    let started = Instant::now();
    let deadline = started + Duration::from_secs(u64::from(seconds)) + WATCH_GRACE;
    let opened = timeout_at(deadline, informer.shared.source.watch(&params, &version)).await;
    let mut events = match opened {
        Ok(Ok(events)) => events,
        Ok(Err(error)) => return after(failed(informer, "watch", &error), version),
        Err(_) => return (Position::WatchAfter(version), None),
    };
    while let Ok(Some(event)) = timeout_at(deadline, events.next()).await {
        let handled = match event {
            Ok(event) => handle(informer, event, &mut version),
            // One object this build cannot read must not keep all others from arriving.
            Err(error @ kube::Error::SerdeError(_)) => {
                failed(informer, "watch", &error);
                Ok(())
            }
            Err(error) => Err(failed(informer, "watch", &error)),
        };
        if let Err(failure) = handled {
            return after(failure, version);
        }
    }
    // A server that ends every watch at once must not be asked again without a pause.
    let short = started.elapsed() < SHORT_WATCH;
    (Position::WatchAfter(version), short.then_some(Failure::Transient))
}

fn handle<K: Object>(informer: &Informer<K>, event: WatchEvent<K>, version: &mut String) -> Result<(), Failure> {
    let update = match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => Update::Put(object),
        WatchEvent::Deleted(object) => Update::Remove(object),
        WatchEvent::Bookmark(bookmark) => {
            *version = bookmark.metadata.resource_version;
            return Ok(());
        }
        WatchEvent::Error(status) => return Err(failed(informer, "watch", &kube::Error::Api(status))),
    };
    if let Update::Put(object) | Update::Remove(object) = &update
        && let Some(at) = &object.meta().resource_version
    {
        version.clone_from(at);
    }
    informer.apply(update);
    Ok(())
}

fn after(failure: Failure, version: String) -> (Position, Option<Failure>) {
    let position = match failure {
        Failure::Expired => Position::ListLatest,
        Failure::Transient => Position::WatchAfter(version),
    };
    (position, Some(failure))
}

fn failed<K: Object>(informer: &Informer<K>, what: &str, error: &kube::Error) -> Failure {
    if matches!(error, kube::Error::Api(status) if is_expired(status)) {
        tracing::debug!(resource = informer.shared.name, "{what}: version expired, listing anew");
        return Failure::Expired;
    }
    tracing::warn!(resource = informer.shared.name, %error, "{what} failed");
    Failure::Transient
}

/// 410 in either of its forms, or a version the server has not reached yet after it lost its state.
fn is_expired(status: &Status) -> bool {
    status.code == 410 || matches!(status.reason.as_str(), "Expired" | "Gone") || status.message.contains("Too large resource version")
}
