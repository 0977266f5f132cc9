//! What a watch begins with.

use super::super::{Event, Predicate, Scope};
use super::state::Objects;

/// What is sent before what happens next.
pub(super) enum Initial {
    /// Nothing.
    Nothing,
    /// The objects there are.
    State(Objects),
    /// What changed since the revision asked for.
    Changes(Vec<Event>),
}

impl Initial {
    /// What a watch sees of it. An object's event is made when it is sent: there may be many of them.
    pub(super) fn seen_by(self, scope: &Scope, predicate: &Predicate) -> impl Iterator<Item = Event> + Send + use<> {
        let (objects, changes) = match self {
            Self::Nothing => (Vec::new(), Vec::new()),
            Self::State(objects) => {
                let matching = objects.values().filter(|entry| scope.covers(entry.key()) && predicate.matches(entry));
                (matching.cloned().collect(), Vec::new())
            }
            Self::Changes(changes) => (Vec::new(), changes),
        };
        objects.into_iter().map(Event::initial).chain(changes)
    }
}
