//! The resources of group `events.k8s.io`.

mod event;
mod rules;

pub(crate) use event::Event;

use super::{Resource, Wiring, namespaced};

/// One line per resource.
pub(crate) fn table(wiring: &Wiring) -> Vec<Resource> {
    vec![
        namespaced("events.k8s.io", "v1", "Event", "events")
            .short(&["ev"])
            .strategy(Event { new_form: true, ttl: wiring.event_ttl })
            .stored_as("", "v1", event::Respell),
    ]
}
