//! Who was found by which credential, for a while: checking a signature costs more than many a request.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::request::UserInfo;

/// How long a good credential is believed without looking again; upstream's default for tokens.
const FOR: Duration = Duration::from_secs(10);
/// Credentials remembered at most.
const CAPACITY: usize = 4096;

/// Users by credential.
pub(super) struct Remembered<K>(Mutex<HashMap<K, (Instant, UserInfo)>>);

impl<K> Default for Remembered<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Remembered<K> {
    /// The user, if the credential was found good lately.
    pub(super) fn get(&self, credential: &K) -> Option<UserInfo> {
        let now = Instant::now();
        self.0.lock().get(credential).filter(|(found, _)| now.duration_since(*found) < FOR).map(|(_, user)| user.clone())
    }

    /// The credential was found good just now.
    pub(super) fn put(&self, credential: K, user: UserInfo) {
        let now = Instant::now();
        let mut remembered = self.0.lock();
        if remembered.len() >= CAPACITY {
            remembered.retain(|_, (found, _)| now.duration_since(*found) < FOR);
        }
        if remembered.len() < CAPACITY {
            remembered.insert(credential, (now, user));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_user_is_remembered_for_ten_seconds() {
        let remembered = Remembered::default();
        remembered.put(1, UserInfo::new("alice", &[]));
        assert_eq!(remembered.get(&2), None);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(remembered.get(&1).unwrap().name, "alice");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(remembered.get(&1), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_so_many_are_remembered_and_old_ones_make_room() {
        let remembered = Remembered::default();
        (0..=CAPACITY).for_each(|credential| remembered.put(credential, UserInfo::new("alice", &[])));
        assert!(remembered.get(&0).is_some() && remembered.get(&CAPACITY).is_none());
        tokio::time::advance(FOR).await;
        remembered.put(CAPACITY, UserInfo::new("alice", &[]));
        assert!(remembered.get(&CAPACITY).is_some());
    }
}
