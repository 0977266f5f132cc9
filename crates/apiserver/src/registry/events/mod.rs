//! The resources of group `events.k8s.io`.

mod event;

pub(crate) use event::Event;

use super::{Resource, namespaced};

/// One line per resource.
pub(crate) fn table() -> Vec<Resource> {
    vec![
        namespaced("events.k8s.io", "v1", "Event", "events").short(&["ev"]).strategy(Event { new_form: true }).stored_as("", "v1", event::Respell),
    ]
}
