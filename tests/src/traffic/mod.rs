//! Clients of a store that write, read and watch all the time and remember what they saw.

mod compactor;
mod door;
mod leases;
mod watcher;
mod writer;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::Instant,
};

pub use door::{Broken, Door, Way, call, event, surely_nothing};
pub use writer::Wishes;

use crate::history::{Call, Follower, Log, Op, Outcome, Range, Request, Violation, calls, followers, leases::Lease};

/// Until the store does again what it always does.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two attempts.
const RETRY: Duration = Duration::from_millis(50);

/// How many there are, and where they write.
#[derive(Clone, Debug)]
pub struct Shape {
    /// All keys begin with it.
    pub prefix: String,
    /// Nobody else writes to the store.
    pub alone: bool,
    /// Clients per member that write and read.
    pub writers: usize,
    /// Clients per member that watch.
    pub watchers: usize,
    /// Clients per member that hold leases.
    pub tenants: usize,
    /// How long a client rests between two calls. Many small clusters share a machine.
    pub pace: Duration,
    /// History is given up all the time, as soon as one watcher of everything has been shown it.
    pub compacting: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            prefix: "/traffic/".to_owned(),
            alone: true,
            writers: 2,
            watchers: 2,
            tenants: 0,
            pace: Duration::from_millis(5),
            compacting: false,
        }
    }
}

/// The clients, at work.
pub struct Traffic {
    shape: Shape,
    doors: Vec<Door>,
    after: i64,
    diary: Diary,
    stop: watch::Sender<bool>,
    /// The revision watchers have to reach, once it is known.
    upto: watch::Sender<Option<i64>>,
    writers: JoinSet<()>,
    watchers: JoinSet<Follower>,
    tenants: JoinSet<Vec<Lease>>,
    /// When a clock jumped, which may end leases.
    jumps: Vec<Duration>,
    /// Watches everything from the beginning, where history is given up.
    chronicler: Option<JoinHandle<Follower>>,
    compactor: Option<JoinHandle<compactor::Compactions>>,
}

/// What the clients saw, numbers for a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// All calls.
    pub calls: usize,
    /// Writes that were acknowledged.
    pub acknowledged: usize,
    /// Writes nobody knows the outcome of.
    pub unknown: usize,
    /// Revisions in the log.
    pub revisions: usize,
    /// Streams of all watchers: every one but the first resumes another.
    pub streams: usize,
    /// Leases that were held.
    pub leases: usize,
    /// Watchers that had to list because history was gone.
    pub relisted: usize,
    /// Times history was given up.
    pub compactions: usize,
}

/// Where clients write down their calls, with one clock for all.
#[derive(Clone)]
struct Diary {
    began: Instant,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Diary {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn note(&self, call: Call) {
        self.calls.lock().unwrap().push(call);
    }
}

impl Traffic {
    /// Lets clients loose on the members behind these doors. The seed decides what they do, the store when.
    pub async fn start(seed: u64, shape: Shape, doors: Vec<Door>) -> Self {
        let after = revision(&doors[0]).await;
        let diary = Diary { began: Instant::now(), calls: Arc::default() };
        let (stop, upto) = (watch::Sender::new(false), watch::Sender::new(None));
        let mut dice = StdRng::seed_from_u64(seed);
        let (mut writers, mut watchers, mut tenants) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        for (home, door) in doors.iter().enumerate() {
            for number in 0..shape.writers {
                let (name, dice) = (format!("{number}@{}", door.name()), StdRng::seed_from_u64(dice.random()));
                let writer = writer::Writer::new(name, door.clone(), &shape, number, diary.clone());
                writers.spawn(writer.run(dice, stop.subscribe()));
            }
            for number in 0..shape.watchers {
                let (name, dice) = (format!("{number}@{}", door.name()), StdRng::seed_from_u64(dice.random()));
                let watcher = watcher::Watcher::new(name, doors.clone(), home, watcher::wish(&shape.prefix, number, after));
                watchers.spawn(watcher.run(dice, upto.subscribe(), watch::Sender::new(after)));
            }
            for number in 0..shape.tenants {
                let (name, dice) = (format!("{number}@{}", door.name()), StdRng::seed_from_u64(dice.random()));
                let tenant = self::leases::Tenant { name, door: door.again(), diary: diary.clone() };
                tenants.spawn(tenant.run(dice, stop.subscribe()));
            }
        }
        let (jumps, chronicler, compactor) = (Vec::new(), None, None);
        let mut traffic = Self { shape, doors, after, diary, stop, upto, writers, watchers, tenants, jumps, chronicler, compactor };
        if traffic.shape.compacting {
            traffic.give_up_history(&mut dice);
        }
        traffic
    }

    fn give_up_history(&mut self, dice: &mut StdRng) {
        let (reached, chronicled) = watch::channel(self.after);
        let chronicler =
            watcher::Watcher::new("chronicler".to_owned(), self.doors.clone(), 0, watcher::all(&self.shape.prefix, self.after));
        let (watching, compacting) = (StdRng::seed_from_u64(dice.random()), StdRng::seed_from_u64(dice.random()));
        self.chronicler = Some(tokio::spawn(chronicler.run(watching, self.upto.subscribe(), reached)));
        self.compactor = Some(tokio::spawn(compactor::run(self.doors.clone(), chronicled, compacting, self.stop.subscribe())));
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.diary.now()
    }

    /// A member's clock jumps now: leases may end.
    pub fn a_clock_jumps(&mut self) {
        self.jumps.push(self.now());
    }

    /// The longest time since `from` without an acknowledged write of a client of these members.
    pub fn longest_pause(&self, from: Duration, members: &[usize]) -> Duration {
        let names: Vec<_> = members.iter().map(|member| format!("@{}", self.doors[*member].name())).collect();
        let calls = self.diary.calls.lock().unwrap();
        let theirs = calls.iter().filter(|call| names.iter().any(|name| call.client.ends_with(name)));
        calls::longest_pause(theirs, from, self.now())
    }

    /// Waits until a client of each of these members has had a write acknowledged that began after this call; how long
    /// it took.
    pub async fn writes_through(&self, members: &[usize]) -> Duration {
        let from = self.now();
        for member in members {
            let client = format!("@{}", self.doors[*member].name());
            let written = || {
                let calls = self.diary.calls.lock().unwrap();
                calls.iter().rev().any(|call| call.start >= from && call.wrote() && call.client.ends_with(&client))
            };
            while !written() {
                assert!(self.now() - from < PATIENCE, "no write through {} in {PATIENCE:?}", self.doors[*member].name());
                tokio::time::sleep(RETRY).await;
            }
        }
        self.now() - from
    }

    /// Ends the clients and holds what they saw against the log, read back from every member.
    ///
    /// # Panics
    /// The members differ, or one does not answer.
    pub async fn end(mut self) -> Result<Summary, Violation> {
        self.stop.send_replace(true);
        while let Some(ended) = self.writers.join_next().await {
            ended.unwrap();
        }
        let compactions = if let Some(compactor) = self.compactor.take() { compactor.await.unwrap() } else { Default::default() };
        let upto = revision(&self.doors[0]).await;
        self.final_reads().await;
        self.upto.send_replace(Some(upto));
        let log = match self.chronicler.take() {
            Some(chronicler) => log(self.after, upto, chronicler.await.unwrap()).given_up(compactions.highest),
            None => read_back(&self.doors, &self.shape.prefix, self.after, upto).await,
        };
        let mut watchers = Vec::new();
        while let Some(ended) = self.watchers.join_next().await {
            watchers.push(ended.unwrap());
        }
        let mut held = Vec::new();
        while let Some(ended) = self.tenants.join_next().await {
            held.extend(ended.unwrap());
        }
        let calls = std::mem::take(&mut *self.diary.calls.lock().unwrap());
        if self.shape.alone {
            log.without_gaps()?;
        }
        calls::check(&log, &calls)?;
        watchers.iter().try_for_each(|watcher| followers::check(&log, watcher))?;
        held.iter().try_for_each(|lease| crate::history::leases::check(lease, &self.jumps))?;
        let lives = || watchers.iter().flat_map(|watcher| &watcher.lives);
        Ok(Summary {
            calls: calls.len(),
            acknowledged: calls.iter().filter(|call| call.wrote()).count(),
            unknown: calls.iter().filter(|call| call.outcome == Outcome::Unknown).count(),
            revisions: log.revisions().count(),
            streams: lives().map(|life| life.watch.streams.len()).sum(),
            leases: held.len(),
            relisted: lives().count() - watchers.len(),
            compactions: compactions.done,
        })
    }

    /// Everything there is, as each member tells it: compared with the log like any other read.
    async fn final_reads(&self) {
        let everything = Request { then: vec![Op::Get(Range::prefix(&self.shape.prefix))], ..Request::default() };
        for door in &self.doors {
            let (start, answer) = (self.now(), eventually(door, &everything).await);
            let client = format!("end@{}", door.name());
            self.diary.note(Call { client, start, end: self.now(), request: everything.clone(), outcome: Outcome::Done(answer) });
        }
    }
}

/// What has happened to keys that begin so after one revision, up to another. Members that tell different histories are a panic.
pub(crate) async fn read_back(doors: &[Door], prefix: &str, after: i64, upto: i64) -> Log {
    let mut log = None;
    for (home, door) in doors.iter().enumerate() {
        let reader = watcher::Watcher::new(format!("log@{}", door.name()), vec![door.clone()], 0, watcher::all(prefix, after));
        let told =
            reader.run(StdRng::seed_from_u64(home as u64), watch::Sender::new(Some(upto)).subscribe(), watch::Sender::new(after)).await;
        let found = self::log(after, upto, told);
        match &log {
            None => log = Some(found),
            Some(log) => {
                assert!(*log == found, "{} has another history than {}:\n{}", door.name(), doors[0].name(), log.differs(&found))
            }
        }
    }
    log.unwrap()
}

/// What a watcher of everything was shown.
fn log(after: i64, upto: i64, told: Follower) -> Log {
    let streams = told.lives.into_iter().flat_map(|life| life.watch.streams);
    let events = streams.flat_map(|stream| stream.responses).flat_map(|response| response.events);
    Log::new(after, upto, events.filter(|event| event.pair.modified <= upto))
}

/// The store's revision now, by a read that this member answers for all.
pub(crate) async fn revision(door: &Door) -> i64 {
    let nothing = Request { then: vec![Op::Get(Range::key("no such key"))], ..Request::default() };
    eventually(door, &nothing).await.revision
}

async fn eventually(door: &Door, request: &Request) -> crate::history::Answer {
    let began = Instant::now();
    loop {
        match door.call(request, PATIENCE).await {
            Outcome::Done(answer) => return answer,
            other => assert!(began.elapsed() < PATIENCE, "{} does not answer {request:?}: {other:?}", door.name()),
        }
        tokio::time::sleep(RETRY).await;
    }
}
