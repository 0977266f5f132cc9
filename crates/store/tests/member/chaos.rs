//! Seeded runs: members are killed and started again at random while clients write and read; then the history of
//! what the clients saw is checked. A failure prints its seed; `STORE_CHAOS_SEED` runs that one.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use etcd::etcdserverpb::{PutRequest, RangeRequest};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use tonic::Status;

use crate::support::{Cluster, Member, eventually, within};

/// Registers that everyone reads and writes.
const KEYS: u32 = 4;
const ROUNDS: usize = 5;

/// One call as its client saw it.
#[derive(Clone, Debug)]
struct Seen {
    start: Instant,
    end: Instant,
    key: String,
    value: String,
    /// Mod revision written or read; 0 for a key that was not there, none when the call failed.
    revision: Option<i64>,
    wrote: bool,
}

type History = Arc<Mutex<Vec<Seen>>>;

async fn put(member: &Member, key: &str, value: &str) -> Result<i64, Status> {
    let request = PutRequest { key: key.to_owned().into(), value: value.to_owned().into(), ..Default::default() };
    let response = within(Duration::from_secs(10), member.kv().put(request)).await?;
    Ok(response.into_inner().header.unwrap().revision)
}

async fn get(member: &Member, key: &str) -> Result<(i64, String), Status> {
    let request = RangeRequest { key: key.to_owned().into(), ..Default::default() };
    let found = within(Duration::from_secs(10), member.kv().range(request)).await?.into_inner().kvs.pop();
    Ok(found.map_or((0, String::new()), |kv| (kv.mod_revision, String::from_utf8(kv.value.to_vec()).unwrap())))
}

/// Writes and reads through one member. Every value is written once, also under a key of its own.
async fn client(member: Member, mut dice: StdRng, stop: Arc<AtomicBool>, history: History) {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let key = format!("r{}", dice.random_range(0..KEYS));
        let (start, wrote) = (Instant::now(), dice.random_bool(0.5));
        let (key, value, revision) = if wrote {
            number += 1;
            let value = format!("{}-{number}", member.name);
            let key = if dice.random_bool(0.3) { format!("once/{value}") } else { key };
            let revision = put(&member, &key, &value).await.ok();
            (key, value, revision)
        } else {
            let (revision, value) = get(&member, &key).await.map_or((None, String::new()), |(r, v)| (Some(r), v));
            (key, value, revision)
        };
        history.lock().unwrap().push(Seen { start, end: Instant::now(), key, value, revision, wrote });
        if revision.is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Kills some members and starts them again, a few times over.
async fn disturb(cluster: &mut Cluster, dice: &mut StdRng) {
    for _ in 0..ROUNDS {
        tokio::time::sleep(Duration::from_millis(dice.random_range(200..1500))).await;
        let mut victims = vec![0, 1, 2];
        victims.shuffle(dice);
        victims.truncate(*[1, 1, 1, 2, 3].get(dice.random_range(0..5)).unwrap());
        victims.iter().for_each(|victim| cluster.members[*victim].kill());
        tokio::time::sleep(Duration::from_millis(dice.random_range(0..2500))).await;
        victims.iter().for_each(|victim| cluster.members[*victim].start());
    }
}

fn check(history: &[Seen]) {
    let seen: Vec<_> = history.iter().filter(|seen| seen.revision.is_some()).collect();
    let writes: HashMap<_, _> = history.iter().filter(|s| s.wrote).map(|s| (s.value.as_str(), s)).collect();
    let mut by_revision = BTreeMap::new();
    for write in seen.iter().filter(|seen| seen.wrote) {
        let before = by_revision.insert(write.revision, write);
        assert!(before.is_none(), "one revision, two writes: {before:?} {write:?}");
    }
    for after in &seen {
        if !after.wrote && after.revision != Some(0) {
            let write = writes[after.value.as_str()];
            assert!(write.start < after.end, "read before it was written: {after:?} {write:?}");
            assert!(write.revision.is_none() || write.revision == after.revision, "two revisions: {after:?} {write:?}");
        }
        for before in &seen {
            let ordered = before.end < after.start && (before.key == after.key || (before.wrote && after.wrote));
            assert!(!ordered || before.revision <= after.revision, "time went backwards: {before:?} then {after:?}");
        }
    }
}

async fn run(seed: u64) {
    eprintln!("seed {seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let mut cluster = Cluster::start_with(3, &["--snapshot-count", "100"]).await;
    for member in &cluster.members {
        member.wait_for_leader().await;
    }
    let (stop, history) = (Arc::new(AtomicBool::new(false)), History::default());
    let clients: Vec<_> = (0..6)
        .map(|number| {
            let member = cluster.members[number % 3].address_only(&format!("c{number}"));
            let dice = StdRng::seed_from_u64(seed ^ (number as u64 + 1) << 32);
            tokio::spawn(client(member, dice, stop.clone(), history.clone()))
        })
        .collect();
    disturb(&mut cluster, &mut dice).await;
    for member in &cluster.members {
        member.wait_for_leader().await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let history = history.lock().unwrap().clone();
    let acknowledged = history.iter().filter(|seen| seen.wrote && seen.revision.is_some());
    eprintln!("{} calls, {} acknowledged writes", history.len(), acknowledged.clone().count());
    check(&history);
    for member in &cluster.members {
        written_once(member, acknowledged.clone()).await;
    }
}

/// Every acknowledged write under a key of its own is there, and took effect once.
async fn written_once(member: &Member, acknowledged: impl Iterator<Item = &Seen>) {
    let request = || RangeRequest { key: "once/".into(), range_end: "once0".into(), ..Default::default() };
    let found = eventually("the keys are read", async || member.kv().range(request()).await.ok()).await;
    let versions: HashMap<_, _> = found.into_inner().kvs.into_iter().map(|kv| (kv.key, kv.version)).collect();
    assert!(versions.values().all(|version| *version == 1), "a write took effect twice");
    for seen in acknowledged.filter(|seen| seen.key.starts_with("once/")) {
        assert!(versions.contains_key(seen.key.as_bytes()), "lost on {}: {seen:?}", member.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_killed_histories_stay_linearizable() {
    match std::env::var("STORE_CHAOS_SEED") {
        Ok(seed) => run(seed.parse().unwrap()).await,
        Err(_) => run(4711).await,
    }
}
