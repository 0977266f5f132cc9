//! A client that gives up history.

use std::time::Duration;

use etcd::etcdserverpb::{CompactionRequest, kv_client::KvClient};
use rand::{Rng as _, rngs::StdRng};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::Door;

/// Between two compactions, in milliseconds.
const PAUSE: std::ops::Range<u64> = 100..1_000;
/// It does not wait longer for one.
const DEADLINE: Duration = Duration::from_secs(2);

/// What a [`run`] came to.
#[derive(Default)]
pub(super) struct Compactions {
    /// So often history was given up.
    pub(super) done: usize,
    /// The highest revision up to which that was asked for.
    pub(super) highest: i64,
}

/// Runs until `stop`. Never gives up what somebody who needs it all has not been shown.
pub(super) async fn run(doors: Vec<Door>, chronicled: watch::Receiver<i64>, mut dice: StdRng, stop: watch::Receiver<bool>) -> Compactions {
    let (mut last, mut compactions) = (0, Compactions::default());
    while !*stop.borrow() {
        sleep(Duration::from_millis(dice.random_range(PAUSE))).await;
        let upto = *chronicled.borrow();
        if upto <= last {
            continue;
        }
        // Mostly close to the newest: then others are overtaken.
        let revision = if dice.random_range(0..4) > 0 { upto } else { dice.random_range(last + 1..=upto) };
        compactions.highest = compactions.highest.max(revision);
        let mut kv = KvClient::new(doors[dice.random_range(0..doors.len())].way());
        let compacted = kv.compact(CompactionRequest { revision, physical: dice.random() });
        if matches!(timeout(DEADLINE, compacted).await, Ok(Ok(_))) {
            last = revision;
            compactions.done += 1;
        }
    }
    compactions
}
