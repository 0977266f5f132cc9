//! A client that writes while something happens.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;

use crate::support::{Member, eventually, get, put, within};

/// A client that writes one key after the other through one member until told to stop.
pub struct Writer {
    stop: Arc<AtomicBool>,
    task: JoinHandle<(Vec<String>, Duration)>,
}

impl Writer {
    pub fn start(member: &Member) -> Self {
        Self::start_with(member, "w")
    }

    /// One whose keys begin so, beside others.
    pub fn start_with(member: &Member, prefix: &str) -> Self {
        let prefix = prefix.to_owned();
        let stop = Arc::new(AtomicBool::new(false));
        let (mut kv, stopped) = (member.kv(), stop.clone());
        let task = tokio::spawn(async move {
            let (mut acknowledged, mut longest, mut last) = (Vec::new(), Duration::ZERO, Instant::now());
            while !stopped.load(Ordering::Relaxed) {
                let key = format!("{prefix}{}", acknowledged.len());
                match within(Duration::from_secs(10), put(&mut kv, &key, &key)).await {
                    Ok(_) => {
                        longest = longest.max(last.elapsed());
                        last = Instant::now();
                        acknowledged.push(key);
                    }
                    // The same key again: whether the first attempt took effect makes no difference.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
            (acknowledged, longest.max(last.elapsed()))
        });
        Self { stop, task }
    }

    /// What was acknowledged, and the longest time between two acknowledgements.
    pub async fn stop(self) -> (Vec<String>, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

/// Waits until a key is written.
pub async fn written(member: &Member, key: &str) {
    eventually(&format!("{key} is written"), async || within(Duration::from_secs(2), get(&mut member.kv(), key)).await.ok().flatten())
        .await;
}

/// A member has all these keys.
pub async fn holds_all(member: &Member, keys: &[String]) {
    let mut kv = member.kv();
    for key in keys {
        assert_eq!(get(&mut kv, key).await.unwrap().as_ref(), Some(key), "on {}", member.name);
    }
}
