//! The event recorder: what a component tells users about an object.
//!
//! Recording never waits and never fails: events go through a bounded queue to one task that correlates them (see
//! [`correlate`]) and writes core/v1 Events; when the queue is full, they are dropped and counted in the log.

mod bounded;
mod correlate;

use std::time::Duration;

use component::Shutdown;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use tokio::sync::mpsc;

pub use correlate::{Correlator, Write};

use crate::retry;

/// Events waiting to be written; more are dropped (upstream: `maxQueuedEvents`).
const QUEUE: usize = 1000;
/// Attempts per event, and the pause between them.
const ATTEMPTS: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);

/// Records events on behalf of one component; clones share the queue.
#[derive(Clone, Debug)]
pub struct Recorder {
    component: String,
    host: String,
    queue: mpsc::Sender<Event>,
}

impl Recorder {
    /// Starts a recorder that writes with `client` until `shutdown`. Must be called within a runtime.
    ///
    /// `component` and `host` become the events' source; `host` may be empty, as it is for upstream's controllers.
    pub fn start(client: Client, component: &str, host: &str, shutdown: Shutdown) -> Self {
        let (queue, events) = mpsc::channel(QUEUE);
        tokio::spawn(async move { shutdown.run_until_cancelled(write_all(client, events)).await });
        Self { component: component.into(), host: host.into(), queue }
    }

    /// A recorder whose events come out of the returned receiver, for tests.
    pub fn fake() -> (Self, mpsc::Receiver<Event>) {
        let (queue, events) = mpsc::channel(QUEUE);
        (Self { component: "fake".into(), host: String::new(), queue }, events)
    }

    /// The same queue under another component's name.
    #[must_use]
    pub fn named(&self, component: &str) -> Self {
        Self { component: component.into(), ..self.clone() }
    }

    /// Tells of something expected.
    pub fn normal(&self, object: &ObjectReference, reason: &str, message: impl Into<String>) {
        self.record(object, "Normal", reason, message.into());
    }

    /// Tells of something a user should look at.
    pub fn warning(&self, object: &ObjectReference, reason: &str, message: impl Into<String>) {
        self.record(object, "Warning", reason, message.into());
    }

    fn record(&self, object: &ObjectReference, kind: &str, reason: &str, message: String) {
        let event = self.event(object, kind, reason, message, component::clock::now());
        if self.queue.try_send(event).is_err() {
            tracing::warn!(reason, "event queue is full or closed, event dropped");
        }
    }

    fn event(&self, object: &ObjectReference, kind: &str, reason: &str, message: String, now: jiff::Timestamp) -> Event {
        let name = object.name.as_deref().unwrap_or_default();
        let namespace = object.namespace.clone().filter(|namespace| !namespace.is_empty());
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: Some(namespace.unwrap_or_else(|| "default".into())),
                ..ObjectMeta::default()
            },
            involved_object: object.clone(),
            reason: Some(reason.into()),
            message: Some(message),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            type_: Some(kind.into()),
            source: Some(EventSource {
                component: Some(self.component.clone()),
                host: Some(self.host.clone()).filter(|host| !host.is_empty()),
            }),
            reporting_component: Some(self.component.clone()),
            reporting_instance: Some(self.host.clone()),
            ..Event::default()
        }
    }
}

async fn write_all(client: Client, mut events: mpsc::Receiver<Event>) {
    let mut correlator = Correlator::new();
    while let Some(event) = events.recv().await {
        let Some(write) = correlator.correlate(event, component::clock::now()) else { continue };
        for attempt in 1..=ATTEMPTS {
            match write_once(&client, &write).await {
                Ok(()) => break,
                Err(error) if refused(&error) || attempt == ATTEMPTS => {
                    tracing::debug!(%error, "event not written");
                    break;
                }
                Err(error) => {
                    tracing::debug!(%error, "event not written, retrying");
                    tokio::time::sleep(retry::jitter(PAUSE / 2, 1.0)).await;
                }
            }
        }
    }
}

async fn write_once(client: &Client, write: &Write) -> kube::Result<()> {
    let event = write.event();
    let namespace = event.metadata.namespace.clone().unwrap_or_default();
    let name = event.metadata.name.clone().unwrap_or_default();
    let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
    if let Write::Count(event) = write {
        let patch = serde_json::json!({
            "count": event.count,
            "lastTimestamp": event.last_timestamp,
            "message": event.message,
        });
        match events.patch(&name, &PatchParams::default(), &Patch::Strategic(patch)).await {
            // It has expired meanwhile; it is written anew with its history.
            Err(error) if retry::is_not_found(&error) => {}
            result => return result.map(drop),
        }
    }
    events.create(&PostParams::default(), event).await.map(drop)
}

/// Whether the server understood the event and does not want it; trying again cannot help.
fn refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429)
}
