//! What clients that list and then watch were shown: the state at some revision and every change since. Whoever is told that
//! the history it needs is gone lists again.

use super::{
    Violation,
    log::{Log, Pair},
    watches::{self, Watch},
};

/// A client over its whole life.
#[derive(Clone, Debug)]
pub struct Follower {
    /// For complaints.
    pub name: String,
    /// One after the other, each but the first because history was gone.
    pub lives: Vec<Life>,
}

/// A list, and the watch that goes on from it.
#[derive(Clone, Debug)]
pub struct Life {
    /// The revision of the list.
    pub listed: i64,
    /// What was in it, in the order of keys.
    pub items: Vec<Pair>,
    /// What came after it.
    pub watch: Watch,
}

impl Life {
    /// The last revision up to which everything has been shown.
    pub fn reached(&self) -> i64 {
        self.watch.streams.last().map_or(self.listed, |stream| stream.next() - 1)
    }

    fn check(&self, log: &Log) -> Result<(), Violation> {
        // A list does not tell how often something was changed.
        let told = |pair: &Pair| Pair { created: 0, version: 0, ..pair.clone() };
        let expected: Vec<_> = log.state(&self.watch.range, self.listed).into_values().map(told).collect();
        let found: Vec<_> = self.items.iter().map(told).collect();
        if found != expected {
            return Err(Violation::OtherList { watcher: self.watch.name.clone(), revision: self.listed, found, expected });
        }
        match self.watch.streams.first().map_or(self.listed + 1, |stream| stream.start) {
            start if start == self.listed + 1 => watches::check(log, &self.watch),
            found => Err(Violation::ResumedElsewhere { watcher: self.watch.name.clone(), expected: self.listed + 1, found }),
        }
    }
}

/// Whether a client was shown the log: right lists, and after each all there was up to the next one, or to the end.
///
/// # Errors
/// It was not.
pub fn check(log: &Log, follower: &Follower) -> Result<(), Violation> {
    let mut shown = log.after();
    for (number, life) in follower.lives.iter().enumerate() {
        if life.listed < shown {
            return Err(Violation::SteppedBack { watcher: follower.name.clone(), shown, found: life.listed });
        }
        shown = life.reached();
        let last = number + 1 == follower.lives.len();
        life.check(&if last { log.clone() } else { log.until(shown) })?;
    }
    if shown < log.upto() {
        return Err(Violation::NeverShown { watcher: follower.name.clone(), missing: log.upto() });
    }
    Ok(())
}
