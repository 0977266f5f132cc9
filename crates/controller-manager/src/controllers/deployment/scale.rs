//! Following a change of `spec.replicas` while several ReplicaSets hold pods. Pure.

use super::{limits, plan::Plan, sets};

impl Plan {
    /// Spreads the change over the active ReplicaSets in proportion to their sizes, so that a rollout under way (or
    /// paused half-way) keeps its mixture.
    pub(super) fn scale_proportionally(&mut self) {
        let wanted = limits::replicas(&self.deployment);
        if let Some(only) = self.active_or_latest() {
            if sets::replicas(&self.sets[only]) != wanted {
                self.scale(only, wanted);
            }
            return;
        }
        if self.is_saturated() {
            for index in self.old_active() {
                self.scale(index, 0);
            }
        } else if limits::is_rolling(&self.deployment) {
            self.spread(wanted);
        }
    }

    /// The one ReplicaSet that holds pods; without any, the new one or the latest. `None` when several hold pods.
    fn active_or_latest(&self) -> Option<usize> {
        let mut active = self.old_active();
        let new_active = self.new.filter(|new| sets::replicas(&self.sets[*new]) > 0);
        active.extend(new_active);
        match active[..] {
            [] => self.new.or_else(|| self.old().last().copied()),
            [only] => Some(only),
            _ => None,
        }
    }

    /// Whether the new ReplicaSet has all the pods the Deployment wants, and they are available.
    fn is_saturated(&self) -> bool {
        let wanted = limits::replicas(&self.deployment);
        self.new.is_some_and(|new| {
            let set = &self.sets[new];
            sets::replicas(set) == wanted && sets::desired(set) == Some(wanted) && sets::available(set) == wanted
        })
    }

    fn spread(&mut self, wanted: i32) {
        let mut active = self.old_active();
        active.extend(self.new.filter(|new| sets::replicas(&self.sets[*new]) > 0));
        let allowed = if wanted > 0 { wanted.saturating_add(limits::max_surge(&self.deployment)) } else { 0 };
        let change = allowed - self.total(&active);
        // Bigger sets first; among equals the newer one when growing, the older one when shrinking.
        active.sort_by_key(|index| {
            let age = i64::try_from(*index).unwrap_or(i64::MAX);
            (-i64::from(sets::replicas(&self.sets[*index])), if change > 0 { -age } else { age })
        });
        let mut spread = 0;
        let mut sizes: Vec<i32> = active.iter().map(|index| sets::replicas(&self.sets[*index])).collect();
        for (size, index) in sizes.iter_mut().zip(&active) {
            let share = self.proportion(*index, change, spread);
            *size += share;
            spread += share;
        }
        if let Some(biggest) = sizes.first_mut().filter(|_| change != 0) {
            *biggest = (*biggest + change - spread).max(0);
        }
        for (size, index) in sizes.into_iter().zip(active) {
            self.scale(index, size);
        }
    }

    /// The part of `change` that falls to the set at `index`, of which `spread` is given out already.
    fn proportion(&self, index: usize, change: i32, spread: i32) -> i32 {
        let set = &self.sets[index];
        if sets::replicas(set) == 0 || change == 0 || change == spread {
            return 0;
        }
        let (share, left) = (self.fraction(index), change - spread);
        if change > 0 { share.min(left) } else { share.max(left) }
    }

    fn fraction(&self, index: usize) -> i32 {
        let set = &self.sets[index];
        let (size, wanted) = (sets::replicas(set), limits::replicas(&self.deployment));
        if wanted == 0 {
            return -size;
        }
        let target = wanted.saturating_add(limits::max_surge(&self.deployment));
        // The limit at the last scaling: by it the set's size was its share.
        let before = sets::max(set).filter(|max| *max != 0);
        let before = before.unwrap_or_else(|| self.deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or(0));
        if before == 0 {
            return 0;
        }
        let share = f64::from(size) * f64::from(target) / f64::from(before);
        // Within i32: a size times the quotient of two sizes of the same Deployment.
        #[allow(clippy::cast_possible_truncation)]
        let rounded = share.round() as i32;
        rounded - size
    }
}
