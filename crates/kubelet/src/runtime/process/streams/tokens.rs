//! One-time tokens for prepared streams, as upstream's streaming library keeps them.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// How long a prepared stream waits for its client.
const LIFE: Duration = Duration::from_secs(60);
/// Prepared streams at once.
const MOST: usize = 1000;

/// There are too many prepared streams.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Prepared streams by token.
#[derive(Debug)]
pub(super) struct Tokens<T>(HashMap<String, (Instant, T)>);

impl<T> Tokens<T> {
    pub(super) fn new() -> Self {
        Self(HashMap::new())
    }

    /// Keeps `request` under `token` for a while.
    pub(super) fn insert(&mut self, token: String, request: T, now: Instant) -> Result<(), Full> {
        self.0.retain(|_, (end, _)| *end > now);
        if self.0.len() >= MOST {
            return Err(Full);
        }
        self.0.insert(token, (now + LIFE, request));
        Ok(())
    }

    /// What was kept under `token`; the next one gets nothing.
    pub(super) fn take(&mut self, token: &str, now: Instant) -> Option<T> {
        self.0.remove(token).filter(|(end, _)| *end > now).map(|(_, request)| request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_once() {
        let (mut tokens, now) = (Tokens::new(), Instant::now());
        tokens.insert("a".into(), 1, now).unwrap();
        assert_eq!(tokens.take("b", now), None);
        assert_eq!(tokens.take("a", now), Some(1));
        assert_eq!(tokens.take("a", now), None);
    }

    #[test]
    fn a_token_opens_for_a_minute() {
        let (mut tokens, now) = (Tokens::new(), Instant::now());
        tokens.insert("a".into(), 1, now).unwrap();
        tokens.insert("b".into(), 2, now).unwrap();
        assert_eq!(tokens.take("a", now + Duration::from_secs(59)), Some(1));
        assert_eq!(tokens.take("b", now + LIFE), None);
    }

    #[test]
    fn unused_tokens_are_bounded_and_make_room_in_time() {
        let (mut tokens, now) = (Tokens::new(), Instant::now());
        for number in 0..MOST {
            tokens.insert(number.to_string(), number, now).unwrap();
        }
        assert_eq!(tokens.insert("more".into(), 0, now), Err(Full));
        assert_eq!(tokens.insert("more".into(), 0, now + LIFE), Ok(()));
    }
}
