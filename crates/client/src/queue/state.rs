//! The queue without waiting: what is due, in work, delayed and backing off at a given instant.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet, VecDeque},
    hash::Hash,
    time::Duration,
};

use tokio::time::Instant;

use super::limiter::Limiter;

pub(super) struct State<T> {
    due: VecDeque<(T, Instant)>,
    /// Asked for and not yet handed out; what is asked for while in work waits here alone.
    dirty: HashSet<T>,
    in_work: HashMap<T, Instant>,
    delayed: BinaryHeap<Reverse<(Instant, u64)>>,
    delayed_items: HashMap<u64, T>,
    ready_at: HashMap<T, Instant>,
    sequence: u64,
    limiter: Limiter<T>,
    shut_down: bool,
}

impl<T: Clone + Eq + Hash> State<T> {
    pub(super) fn new() -> Self {
        Self {
            due: VecDeque::new(),
            dirty: HashSet::new(),
            in_work: HashMap::new(),
            delayed: BinaryHeap::new(),
            delayed_items: HashMap::new(),
            ready_at: HashMap::new(),
            sequence: 0,
            limiter: Limiter::new(),
            shut_down: false,
        }
    }

    /// Whether `item` was not asked for already.
    pub(super) fn add(&mut self, item: T, now: Instant) -> bool {
        if self.shut_down || !self.dirty.insert(item.clone()) {
            return false;
        }
        if !self.in_work.contains_key(&item) {
            self.due.push_back((item, now));
        }
        true
    }

    /// Never grows what is due; an earlier time for the same item stands.
    pub(super) fn add_at(&mut self, item: T, at: Instant) -> bool {
        if self.shut_down || self.ready_at.get(&item).is_some_and(|ready| *ready <= at) {
            return false;
        }
        self.ready_at.insert(item.clone(), at);
        self.delayed_items.insert(self.sequence, item);
        self.delayed.push(Reverse((at, self.sequence)));
        self.sequence += 1;
        false
    }

    pub(super) fn add_rate_limited(&mut self, item: T, now: Instant) -> bool {
        let delay = self.limiter.delay(&item, now);
        self.add_at(item, now + delay)
    }

    pub(super) fn forget(&mut self, item: &T) {
        self.limiter.forget(item);
    }

    pub(super) fn num_requeues(&self, item: &T) -> u32 {
        self.limiter.failures(item)
    }

    /// Moves delayed items whose time has come to what is due; how many that added.
    pub(super) fn promote(&mut self, now: Instant) -> u64 {
        let mut added = 0;
        while let Some(&Reverse((at, sequence))) = self.delayed.peek()
            && at <= now
        {
            self.delayed.pop();
            let Some(item) = self.delayed_items.remove(&sequence) else { continue };
            // An entry that an earlier one overtook is spent.
            if self.ready_at.get(&item) == Some(&at) {
                self.ready_at.remove(&item);
                added += u64::from(self.add(item, now));
            }
        }
        added
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.delayed.peek().map(|Reverse((at, _))| *at)
    }

    /// The next due item and how long it waited.
    pub(super) fn take(&mut self, now: Instant) -> Option<(T, Duration)> {
        let (item, since) = self.due.pop_front()?;
        self.dirty.remove(&item);
        self.in_work.insert(item.clone(), now);
        Some((item, now.saturating_duration_since(since)))
    }

    /// How long `item` was in work, and whether it is due again.
    pub(super) fn done(&mut self, item: &T, now: Instant) -> (Option<Duration>, bool) {
        let since = self.in_work.remove(item);
        let again = self.dirty.contains(item) && !self.shut_down;
        if again {
            self.due.push_back((item.clone(), now));
        }
        // It was counted as added when it was asked for.
        (since.map(|since| now.saturating_duration_since(since)), false)
    }

    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    pub(super) fn shut_down(&mut self) {
        self.shut_down = true;
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.shut_down
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::State;

    fn take(state: &mut State<&'static str>, now: Instant) -> Option<&'static str> {
        state.promote(now);
        state.take(now).map(|(item, _)| item)
    }

    #[test]
    fn hands_out_in_order_and_once() {
        let (mut state, now) = (State::new(), Instant::now());
        for item in ["a", "b", "a"] {
            state.add(item, now);
        }
        assert_eq!([take(&mut state, now), take(&mut state, now), take(&mut state, now)], [Some("a"), Some("b"), None]);
    }

    #[test]
    fn what_is_added_while_in_work_comes_back_after() {
        let (mut state, now) = (State::new(), Instant::now());
        state.add("a", now);
        take(&mut state, now);
        state.add("a", now);
        assert_eq!(take(&mut state, now), None);
        state.done(&"a", now);
        assert_eq!(take(&mut state, now), Some("a"));
    }

    #[test]
    fn the_earliest_of_several_delays_counts_once() {
        let (mut state, now) = (State::new(), Instant::now());
        let second = Duration::from_secs(1);
        state.add_at("a", now + second * 10);
        state.add_at("a", now + second);
        state.add_at("a", now + second * 5);
        assert_eq!(take(&mut state, now), None);
        assert_eq!(take(&mut state, now + second), Some("a"));
        state.done(&"a", now + second);
        assert_eq!(take(&mut state, now + second * 20), None);
    }

    #[test]
    fn failures_back_off_and_success_forgets() {
        let (mut state, now) = (State::new(), Instant::now());
        let millis = Duration::from_millis;
        state.add_rate_limited("a", now);
        assert_eq!(state.next_wake(), Some(now + millis(5)));
        take(&mut state, now + millis(5));
        state.done(&"a", now);
        state.add_rate_limited("a", now);
        assert_eq!(state.next_wake(), Some(now + millis(10)));
        state.forget(&"a");
        assert_eq!(state.num_requeues(&"a"), 0);
    }
}
