//! Simple tokens: random words that every member learns of when a user proves their name, and forgets by itself.
//!
//! How many there are is bounded by how fast passwords are checked, and by how long a token that nobody uses is kept.

use crate::{apply::TokenChange, lease::lessor::Time};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How long a token is good when nobody uses it; etcd's default.
pub const DEFAULT_TTL: Duration = Duration::from_secs(300);

/// The tokens that are good.
#[derive(Debug)]
pub struct Tokens {
    ttl: Duration,
    users: BTreeMap<String, (String, Time)>,
    deadlines: BTreeSet<(Time, String)>,
}

impl Default for Tokens {
    fn default() -> Self {
        Tokens { ttl: DEFAULT_TTL, users: BTreeMap::new(), deadlines: BTreeSet::new() }
    }
}

impl Tokens {
    /// Keeps tokens for so long when nobody uses them, from now on.
    pub fn keep_for(&mut self, ttl: Duration) {
        self.ttl = ttl;
    }

    /// Takes note of what was applied.
    pub fn changed(&mut self, change: TokenChange, now: Time) {
        self.forget_old(now);
        match change {
            TokenChange::Given { user, token } => self.keep(user, token, now),
            TokenChange::Withdrawn { user } => self.users.retain(|token, (owner, deadline)| {
                let stays = *owner != user;
                if !stays {
                    self.deadlines.remove(&(*deadline, token.clone()));
                }
                stays
            }),
            TokenChange::AllWithdrawn => {
                self.users.clear();
                self.deadlines.clear();
            }
        }
    }

    /// Whose token this is. It is good for longer then.
    pub fn user(&mut self, token: &str, now: Time) -> Option<String> {
        self.forget_old(now);
        let (user, _) = self.users.get(token)?.clone();
        self.keep(user.clone(), token.to_owned(), now);
        Some(user)
    }

    fn keep(&mut self, user: String, token: String, now: Time) {
        let deadline = now + self.ttl;
        if let Some((_, old)) = self.users.insert(token.clone(), (user, deadline)) {
            self.deadlines.remove(&(old, token.clone()));
        }
        self.deadlines.insert((deadline, token));
    }

    fn forget_old(&mut self, now: Time) {
        while let Some((_, token)) = self.deadlines.first().filter(|(deadline, _)| *deadline < now).cloned() {
            self.deadlines.pop_first();
            self.users.remove(&token);
        }
    }

    /// Looks like a token: a random word, a dot and a number.
    pub fn is_one(token: &str) -> bool {
        let number = |text: &str| text.parse::<u64>().is_ok();
        token.split_once('.').is_some_and(|(word, end)| !word.is_empty() && number(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn given(tokens: &mut Tokens, user: &str, token: &str, now: Time) {
        tokens.changed(TokenChange::Given { user: user.to_owned(), token: token.to_owned() }, now);
    }

    #[test]
    fn a_token_is_good_until_nobody_used_it_for_long() {
        let mut tokens = Tokens::default();
        given(&mut tokens, "alice", "t.1", Duration::ZERO);
        assert_eq!(tokens.user("t.1", 299 * SECOND).as_deref(), Some("alice"));
        assert_eq!(tokens.user("t.1", 599 * SECOND).as_deref(), Some("alice"), "used at 299 s");
        assert_eq!(tokens.user("t.1", 900 * SECOND), None);
        assert_eq!(tokens.user("t.2", Duration::ZERO), None);
        assert!(tokens.users.is_empty() && tokens.deadlines.is_empty());
    }

    #[test]
    fn a_shorter_time_counts_for_tokens_given_or_used_from_then_on() {
        let mut tokens = Tokens::default();
        tokens.keep_for(3 * SECOND);
        given(&mut tokens, "alice", "t.1", Duration::ZERO);
        assert!(tokens.user("t.1", 3 * SECOND).is_some());
        assert!(tokens.user("t.1", 7 * SECOND).is_none());
    }

    #[test]
    fn tokens_of_a_user_or_of_all_are_withdrawn() {
        let mut tokens = Tokens::default();
        for (user, token) in [("alice", "a.1"), ("alice", "a.2"), ("bob", "b.1")] {
            given(&mut tokens, user, token, Duration::ZERO);
        }
        tokens.changed(TokenChange::Withdrawn { user: "alice".into() }, SECOND);
        assert_eq!(["a.1", "a.2", "b.1"].map(|token| tokens.user(token, SECOND).is_some()), [false, false, true]);
        assert_eq!(tokens.deadlines.len(), 1);
        tokens.changed(TokenChange::AllWithdrawn, SECOND);
        assert_eq!(tokens.user("b.1", SECOND), None);
    }

    #[test]
    fn tokens_are_told_from_other_words() {
        assert!(Tokens::is_one("bEwLVFKXmSrzXqaH.17"));
        for other in ["", "word", ".17", "word.", "word.x", "a.b.17", "word.-1"] {
            assert!(!Tokens::is_one(other), "{other}");
        }
    }
}
