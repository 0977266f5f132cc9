//! Which events reach the API server, and as what (upstream: `events_cache.go`). Pure.
//!
//! In this order: more than ten different messages of one kind within ten minutes become one combined event; an event
//! seen before raises the count of the first; a source that tells more about one object than its allowance is cut off.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use super::bounded::Bounded;

/// Entries remembered by each stage.
const CAPACITY: usize = 4096;
/// Different messages of one kind before they are combined, and the seconds of silence after which counting starts over.
const MAX_SIMILAR: usize = 10;
const SIMILAR_SECONDS: f64 = 600.0;
/// Events per object and source at once, and how many come back per second.
const SPAM_BURST: f64 = 25.0;
const SPAM_RATE: f64 = 1.0 / 300.0;

/// What is to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// A new event.
    Create(Box<Event>),
    /// A higher count, last time and message for an event written before.
    Count(Box<Event>),
}

impl Write {
    /// The event as it is to be.
    pub fn event(&self) -> &Event {
        match self {
            Self::Create(event) | Self::Count(event) => event,
        }
    }
}

struct Similar {
    messages: BTreeSet<String>,
    last: Timestamp,
}

struct Seen {
    name: Option<String>,
    first: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
    count: i32,
}

struct Allowance {
    tokens: f64,
    at: Timestamp,
}

/// The memory behind one recorder.
pub struct Correlator {
    similar: Bounded<String, Similar>,
    seen: Bounded<String, Seen>,
    allowances: Bounded<String, Allowance>,
}

impl Default for Correlator {
    fn default() -> Self {
        Self::new()
    }
}

impl Correlator {
    /// Remembers nothing yet.
    pub fn new() -> Self {
        Self { similar: Bounded::new(CAPACITY), seen: Bounded::new(CAPACITY), allowances: Bounded::new(CAPACITY) }
    }

    /// What to write for `event` at `now`, or nothing if its source is over its allowance.
    pub fn correlate(&mut self, mut event: Event, now: Timestamp) -> Option<Write> {
        let key = self.aggregate(&mut event, now);
        let write = self.count(event, key);
        self.allowed(write.event(), now).then_some(write)
    }

    /// The key under which the event is counted; a message too many becomes the combined event.
    fn aggregate(&mut self, event: &mut Event, now: Timestamp) -> String {
        let group = group_key(event);
        let message = event.message.clone().unwrap_or_default();
        let similar = self.similar.get_or_insert_with(group.clone(), || Similar { messages: BTreeSet::new(), last: now });
        if now.duration_since(similar.last).as_secs_f64() > SIMILAR_SECONDS {
            similar.messages.clear();
        }
        similar.last = now;
        similar.messages.insert(message.clone());
        if similar.messages.len() < MAX_SIMILAR {
            return format!("{group}\u{0}{message}");
        }
        similar.messages.pop_first();
        event.message = Some(format!("(combined from similar events): {message}"));
        group
    }

    fn count(&mut self, mut event: Event, key: String) -> Write {
        let seen = self.seen.get_or_insert_with(key, || Seen { name: None, first: None, count: 0 });
        seen.count = seen.count.saturating_add(1);
        event.count = Some(seen.count);
        if seen.name.is_none() {
            seen.name.clone_from(&event.metadata.name);
            seen.first.clone_from(&event.first_timestamp);
            return Write::Create(Box::new(event));
        }
        event.metadata.name.clone_from(&seen.name);
        event.first_timestamp.clone_from(&seen.first);
        Write::Count(Box::new(event))
    }

    fn allowed(&mut self, event: &Event, now: Timestamp) -> bool {
        let key = source_key(event);
        let allowance = self.allowances.get_or_insert_with(key, || Allowance { tokens: SPAM_BURST, at: now });
        let elapsed = now.duration_since(allowance.at).as_secs_f64().max(0.0);
        allowance.tokens = (allowance.tokens + elapsed * SPAM_RATE).min(SPAM_BURST);
        allowance.at = now;
        let allowed = allowance.tokens >= 1.0;
        if allowed {
            allowance.tokens -= 1.0;
        }
        allowed
    }
}

/// Source and object.
fn source_key(event: &Event) -> String {
    let source = event.source.clone().unwrap_or_default();
    let object = &event.involved_object;
    let parts = [source.component.as_ref(), source.host.as_ref(), object.kind.as_ref(), object.namespace.as_ref()];
    let more = [object.name.as_ref(), object.uid.as_ref(), object.api_version.as_ref(), object.field_path.as_ref()];
    join(parts.into_iter().chain(more))
}

/// Source, object, type and reason: everything but the message.
fn group_key(event: &Event) -> String {
    let reporter = [event.type_.as_ref(), event.reason.as_ref(), event.reporting_component.as_ref(), event.reporting_instance.as_ref()];
    format!("{}\u{0}{}", source_key(event), join(reporter))
}

fn join<'a>(parts: impl IntoIterator<Item = Option<&'a String>>) -> String {
    let parts: Vec<&str> = parts.into_iter().map(|part| part.map_or("", String::as_str)).collect();
    parts.join("\u{0}")
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use k8s_openapi::api::core::v1::{Event, ObjectReference};

    use super::{Correlator, Write};

    fn event(object: &str, message: &str, second: i64) -> Event {
        Event {
            involved_object: ObjectReference { name: Some(object.into()), ..ObjectReference::default() },
            metadata: kube::api::ObjectMeta { name: Some(format!("{object}.{second}")), ..Default::default() },
            message: Some(message.into()),
            reason: Some("Failed".into()),
            count: Some(1),
            ..Event::default()
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    fn tell(correlator: &mut Correlator, message: &str, second: i64) -> Option<Write> {
        correlator.correlate(event("web", message, second), at(second))
    }

    #[test]
    fn the_same_event_again_raises_the_count_of_the_first() {
        let mut correlator = Correlator::new();
        assert!(matches!(tell(&mut correlator, "no", 1), Some(Write::Create(_))));
        let Some(Write::Count(event)) = tell(&mut correlator, "no", 2) else { panic!("not counted") };
        assert_eq!((event.count, event.metadata.name.as_deref()), (Some(2), Some("web.1")));
    }

    #[test]
    fn many_different_messages_become_one_combined_event() {
        let mut correlator = Correlator::new();
        for message in 0..9 {
            assert!(matches!(tell(&mut correlator, &message.to_string(), 1), Some(Write::Create(_))));
        }
        let Some(Write::Create(event)) = tell(&mut correlator, "tenth", 2) else { panic!("not created") };
        assert_eq!(event.message.as_deref(), Some("(combined from similar events): tenth"));
        let Some(Write::Count(event)) = tell(&mut correlator, "eleventh", 3) else { panic!("not counted") };
        assert_eq!(event.message.as_deref(), Some("(combined from similar events): eleventh"));
    }

    #[test]
    fn a_noisy_source_is_cut_off_and_comes_back_slowly() {
        let mut correlator = Correlator::new();
        let written = (0..40).filter_map(|_| tell(&mut correlator, "no", 1)).count();
        assert_eq!(written, 25);
        assert!(tell(&mut correlator, "no", 200).is_none());
        assert!(tell(&mut correlator, "no", 302).is_some());
    }

    #[test]
    fn one_noisy_object_does_not_silence_another() {
        let mut correlator = Correlator::new();
        for _ in 0..40 {
            tell(&mut correlator, "no", 1);
        }
        assert!(correlator.correlate(event("other", "no", 1), at(1)).is_some());
    }
}
