//! Events as upstream's scheduler writes them: events.k8s.io/v1, with `action` and `reportingController`.

use std::collections::HashMap;
use std::time::Duration;

use component::Shutdown;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource as _};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Events beyond this many wait for nobody: they are dropped, since they only inform.
const BOUND: usize = 1000;
/// Like events this close together become one series; upstream's.
const SERIES: Duration = Duration::from_secs(6 * 60);
/// Series remembered at most.
const REMEMBERED: usize = 4096;
/// One write may take so long.
const DEADLINE: Duration = Duration::from_secs(10);

/// What happened to a pod.
#[derive(Clone, Debug)]
struct Happening {
    pod: ObjectReference,
    kind: &'static str,
    reason: &'static str,
    action: &'static str,
    note: String,
}

/// Writes events in the background; clones share the queue.
#[derive(Clone)]
pub(crate) struct Recorder(mpsc::Sender<Happening>);

impl Recorder {
    pub(crate) fn start(client: Client, reporter: String, shutdown: Shutdown) -> Self {
        let (sender, receiver) = mpsc::channel(BOUND);
        let writer = Writer { client, instance: format!("{reporter}-{}", hostname()), reporter, series: HashMap::new() };
        tokio::spawn(async move { shutdown.run_until_cancelled(writer.run(receiver)).await });
        Self(sender)
    }

    pub(crate) fn scheduled(&self, pod: &Pod, node: &str) {
        let name = |text: &Option<String>| text.clone().unwrap_or_default();
        let note = format!("Successfully assigned {}/{} to {node}", name(&pod.metadata.namespace), name(&pod.metadata.name));
        self.record(pod, "Normal", "Scheduled", "Binding", note);
    }

    pub(crate) fn failed(&self, pod: &Pod, note: String) {
        self.record(pod, "Warning", "FailedScheduling", "Scheduling", note);
    }

    fn record(&self, pod: &Pod, kind: &'static str, reason: &'static str, action: &'static str, mut note: String) {
        // The API's limit on notes, in bytes.
        note.truncate(note.floor_char_boundary(1024));
        if self.0.try_send(Happening { pod: pod.object_ref(&()), kind, reason, action, note }).is_err() {
            tracing::warn!(reason, "too many events waiting, dropped one");
        }
    }
}

fn hostname() -> String {
    client::leader::hostname()
}

type SeriesKey = (String, &'static str, String);

struct Writer {
    client: Client,
    reporter: String,
    instance: String,
    series: HashMap<SeriesKey, (String, i32, Instant)>,
}

impl Writer {
    async fn run(mut self, mut happenings: mpsc::Receiver<Happening>) {
        while let Some(happening) = happenings.recv().await {
            match tokio::time::timeout(DEADLINE, self.write(&happening)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, reason = happening.reason, "write event"),
                Err(_) => tracing::warn!(reason = happening.reason, "write event: no answer within {DEADLINE:?}"),
            }
        }
    }

    async fn write(&mut self, happening: &Happening) -> kube::Result<()> {
        let now = Instant::now();
        if self.series.len() >= REMEMBERED {
            self.series.retain(|_, (_, _, last)| now - *last < SERIES);
        }
        let namespace = happening.pod.namespace.as_deref().unwrap_or("default");
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let key = (happening.pod.uid.clone().unwrap_or_default(), happening.reason, happening.note.clone());
        if let Some((name, count, last)) = self.series.get_mut(&key)
            && now - *last < SERIES
        {
            (*count, *last) = (*count + 1, now);
            let series = EventSeries { count: *count, last_observed_time: MicroTime(component::clock::now()) };
            let patch = Patch::Strategic(serde_json::json!({"series": series}));
            return events.patch(name, &PatchParams::default(), &patch).await.map(drop);
        }
        let event = self.event(happening);
        let created = events.create(&PostParams::default(), &event).await?;
        if self.series.len() < REMEMBERED {
            self.series.insert(key, (created.metadata.name.unwrap_or_default(), 1, now));
        }
        Ok(())
    }

    fn event(&self, happening: &Happening) -> Event {
        let now = component::clock::now();
        let mut event = Event {
            event_time: Some(MicroTime(now)),
            action: Some(happening.action.to_owned()),
            reason: Some(happening.reason.to_owned()),
            note: Some(happening.note.clone()),
            type_: Some(happening.kind.to_owned()),
            reporting_controller: Some(self.reporter.clone()),
            reporting_instance: Some(self.instance.clone()),
            regarding: Some(happening.pod.clone()),
            ..Event::default()
        };
        // Upstream's form: the object's name and the time, which makes it unique.
        event.metadata.name = Some(format!("{}.{:x}", happening.pod.name.as_deref().unwrap_or_default(), now.as_nanosecond()));
        event.metadata.namespace.clone_from(&happening.pod.namespace);
        event
    }
}
