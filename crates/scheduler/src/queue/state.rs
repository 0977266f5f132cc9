//! The queue without clock and waiting: three places, and the rules by which pods move between them.
//!
//! Upstream's: *active* pods are tried in order; a refused pod is *unschedulable* until something changes that may help it,
//! then *backs off* for a time that doubles with every attempt. No pod stays unschedulable longer than five minutes.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use client::Key;
use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;

const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// Longest stay among the unschedulable.
const FLUSH_AFTER: Duration = Duration::from_secs(5 * 60);

/// A pod being tried.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) key: Key,
    pub(crate) pod: Arc<Pod>,
    /// How often it was tried, this time included.
    pub(crate) number: u32,
    /// When it first came.
    pub(crate) since: Instant,
}

/// Sizes of the three places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) active: usize,
    pub(crate) backoff: usize,
    pub(crate) unschedulable: usize,
    pub(crate) gated: usize,
}

/// Sorts by priority, then by age; the number tells equals apart.
type Rank = (Reverse<i32>, u64);

enum Place {
    Active(Rank),
    Backoff(Instant),
    Unschedulable {
        since: Instant,
        refused_by: Vec<&'static str>,
    },
    Gated,
    /// Being tried. Remembers what woke up meanwhile, and a newer version of the pod.
    InFlight {
        woken_for: BTreeSet<&'static str>,
        moved: bool,
    },
}

struct Entry {
    pod: Arc<Pod>,
    place: Place,
    attempts: u32,
    since: Instant,
    number: u64,
}

impl Entry {
    /// Whether it is about this very pod: a name may be used again, a UID never.
    fn is(&self, pod: &Pod) -> bool {
        self.pod.metadata.uid == pod.metadata.uid
    }
}

/// All waiting pods.
#[derive(Default)]
pub(crate) struct State {
    entries: HashMap<Key, Entry>,
    active: BTreeSet<(Rank, Key)>,
    numbers: u64,
}

fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}

fn backoff(attempts: u32) -> Duration {
    FIRST_BACKOFF.saturating_mul(1 << attempts.saturating_sub(1).min(8)).min(LONGEST_BACKOFF)
}

impl State {
    pub(crate) fn set(&mut self, pod: &Arc<Pod>, gated: Option<&'static str>, now: Instant) {
        let key = Key::of(&pod.metadata);
        if self.entries.get(&key).is_some_and(|entry| !entry.is(pod)) {
            self.take(&key);
        }
        self.numbers += 1;
        let number = self.numbers;
        let fresh = || Entry { pod: Arc::clone(pod), place: Place::Gated, attempts: 0, since: now, number };
        let entry = self.entries.entry(key.clone()).or_insert_with(fresh);
        let same = entry.pod.spec == pod.spec && entry.pod.metadata.labels == pod.metadata.labels;
        entry.pod = Arc::clone(pod);
        match &mut entry.place {
            Place::InFlight { moved, .. } => *moved |= !same,
            Place::Active(_) | Place::Backoff(_) => {}
            // The status that this scheduler wrote itself is no reason to try again.
            Place::Unschedulable { .. } if same => {}
            Place::Unschedulable { .. } | Place::Gated if gated.is_none() => self.activate(&key),
            Place::Unschedulable { .. } | Place::Gated => entry.place = Place::Gated,
        }
    }

    fn activate(&mut self, key: &Key) {
        if let Some(entry) = self.entries.get_mut(key) {
            let rank = (Reverse(priority(&entry.pod)), entry.number);
            entry.place = Place::Active(rank);
            self.active.insert((rank, key.clone()));
        }
    }

    /// Takes out this very pod, not one of the same name that came later.
    pub(crate) fn remove(&mut self, pod: &Pod) {
        let key = Key::of(&pod.metadata);
        if self.entries.get(&key).is_some_and(|entry| entry.is(pod)) {
            self.take(&key);
        }
    }

    fn take(&mut self, key: &Key) {
        if let Some(Entry { place: Place::Active(rank), .. }) = self.entries.remove(key) {
            self.active.remove(&(rank, key.clone()));
        }
    }

    pub(crate) fn done(&mut self, attempt: &Attempt) {
        if self.tried(attempt).is_some() {
            self.take(&attempt.key);
        }
    }

    /// What the attempt is about, while it still is.
    fn tried(&mut self, attempt: &Attempt) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&attempt.key)?;
        (entry.is(&attempt.pod) && matches!(entry.place, Place::InFlight { .. })).then_some(entry)
    }

    pub(crate) fn pop(&mut self, now: Instant) -> Option<Attempt> {
        self.promote(now);
        let (_, key) = self.active.pop_first()?;
        let entry = self.entries.get_mut(&key)?;
        entry.attempts += 1;
        entry.place = Place::InFlight { woken_for: BTreeSet::new(), moved: false };
        Some(Attempt { pod: Arc::clone(&entry.pod), number: entry.attempts, since: entry.since, key })
    }

    /// Moves those whose time has come to the active ones.
    fn promote(&mut self, now: Instant) {
        let due = |entry: &Entry| match entry.place {
            Place::Backoff(until) => until <= now,
            Place::Unschedulable { since, .. } => since + FLUSH_AFTER <= now,
            _ => false,
        };
        let ready: Vec<_> = self.entries.iter().filter(|(_, entry)| due(entry)).map(|(key, _)| key.clone()).collect();
        ready.iter().for_each(|key| self.activate(key));
    }

    /// How long until [`State::pop`] may find something by time alone.
    pub(crate) fn next_change(&self, now: Instant) -> Option<Duration> {
        let due = self.entries.values().filter_map(|entry| match entry.place {
            Place::Backoff(until) => Some(until),
            Place::Unschedulable { since, .. } => Some(since + FLUSH_AFTER),
            _ => None,
        });
        due.min().map(|at| at.saturating_duration_since(now).max(Duration::from_millis(1)))
    }

    /// Lets pods back off that were refused by a plugin which this change may satisfy.
    pub(crate) fn wake(&mut self, now: Instant, helps: impl Fn(&'static str) -> bool) {
        for entry in self.entries.values_mut() {
            match &mut entry.place {
                Place::Unschedulable { since, refused_by } if refused_by.iter().any(|plugin| helps(plugin)) => {
                    entry.place = Place::Backoff((*since + backoff(entry.attempts)).max(now));
                }
                Place::InFlight { woken_for, .. } => woken_for.extend(PLUGINS.iter().copied().filter(|plugin| helps(plugin))),
                _ => {}
            }
        }
    }

    pub(crate) fn give_back(&mut self, attempt: &Attempt, refused_by: Vec<&'static str>, now: Instant) {
        let Some(entry) = self.tried(attempt) else { return };
        let Place::InFlight { woken_for, moved } = &entry.place else { return };
        let helped = *moved || refused_by.is_empty() || refused_by.iter().any(|plugin| woken_for.contains(plugin));
        entry.place = if helped { Place::Backoff(now + backoff(entry.attempts)) } else { Place::Unschedulable { since: now, refused_by } };
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for entry in self.entries.values() {
            match entry.place {
                Place::Active(_) => counts.active += 1,
                Place::Backoff(_) => counts.backoff += 1,
                Place::Unschedulable { .. } => counts.unschedulable += 1,
                Place::Gated => counts.gated += 1,
                Place::InFlight { .. } => {}
            }
        }
        counts
    }
}

/// Names of the filters, for changes that come while a pod is being tried.
static PLUGINS: std::sync::LazyLock<Vec<&'static str>> =
    std::sync::LazyLock::new(|| crate::plugins::all().iter().map(|(plugin, _)| plugin.name()).collect());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::named_pod;
    use serde_json::json;

    fn pod(name: &str, priority: i32) -> Arc<Pod> {
        Arc::new(named_pod(name, json!({"priority": priority})))
    }

    fn names(state: &mut State, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| state.pop(now)).map(|attempt| attempt.key.name).collect()
    }

    fn queue(pods: &[(&str, i32)], now: Instant) -> State {
        let mut state = State::default();
        pods.iter().for_each(|(name, priority)| state.set(&pod(name, *priority), None, now));
        state
    }

    #[test]
    fn higher_priority_goes_first_then_the_longer_waiting() {
        let now = Instant::now();
        let mut state = queue(&[("late", 0), ("later", 0), ("high", 9)], now);
        assert_eq!(names(&mut state, now), ["high", "late", "later"]);
    }

    #[test]
    fn a_refused_pod_waits_for_a_change_that_helps_and_then_backs_off() {
        let now = Instant::now();
        let mut state = queue(&[("p", 0)], now);
        let attempt = state.pop(now).unwrap();
        state.give_back(&attempt, vec!["NodeResourcesFit"], now);
        state.wake(now, |plugin| plugin == "NodeName");
        assert_eq!(state.counts().unschedulable, 1);
        state.wake(now, |plugin| plugin == "NodeResourcesFit");
        assert!(state.pop(now).is_none());
        assert_eq!(names(&mut state, now + Duration::from_secs(1)), ["p"]);
    }

    #[test]
    fn a_change_during_the_attempt_is_not_missed() {
        let now = Instant::now();
        let mut state = queue(&[("p", 0)], now);
        let attempt = state.pop(now).unwrap();
        state.wake(now, |plugin| plugin == "NodeResourcesFit");
        state.give_back(&attempt, vec!["NodeResourcesFit"], now);
        assert_eq!(state.counts().backoff, 1);
    }

    #[test]
    fn a_gated_pod_is_tried_once_its_gates_are_gone() {
        let now = Instant::now();
        let mut state = State::default();
        state.set(&pod("p", 0), Some("SchedulingGates"), now);
        assert!(state.pop(now).is_none());
        state.set(&pod("p", 0), None, now);
        assert_eq!(names(&mut state, now), ["p"]);
    }

    #[test]
    fn backoff_doubles_up_to_ten_seconds() {
        let seconds: Vec<_> = (1..7).map(|attempts| backoff(attempts).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn a_removed_pod_is_never_tried() {
        let now = Instant::now();
        let mut state = queue(&[("p", 0)], now);
        state.remove(&pod("p", 0));
        assert!(state.pop(now).is_none());
    }

    #[test]
    fn an_old_attempt_does_not_touch_a_new_pod_of_its_name() {
        let now = Instant::now();
        let mut state = queue(&[("p", 0)], now);
        let (old, attempt) = (pod("p", 0), state.pop(now).unwrap());
        let mut new = named_pod("p", json!({}));
        new.metadata.uid = Some("another".into());
        state.set(&Arc::new(new), None, now);
        state.done(&attempt);
        state.give_back(&attempt, vec!["NodeName"], now);
        state.remove(&old);
        assert_eq!(state.counts(), Counts { active: 1, ..Counts::default() });
        let again = state.pop(now).unwrap();
        assert_eq!((again.pod.metadata.uid.as_deref(), again.number), (Some("another"), 1));
        state.done(&attempt);
        state.give_back(&again, Vec::new(), now);
        assert_eq!(state.counts().backoff, 1);
    }
}
