//! Clients of an API server that write and watch ConfigMaps all the time and remember what they saw; held against what the
//! store's members say has happened.

mod object;
mod watcher;
mod writer;

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use crate::{
    history::{Follower, Kind, Log, Violation, followers},
    traffic::{self, Door},
};
use writer::Writer;

/// Where the ConfigMaps are, for clients and in the store.
const NAMESPACE: &str = "traffic";
const PREFIX: &str = "/registry/configmaps/traffic/";
/// Until the API server does again what it always does.
const PATIENCE: Duration = Duration::from_secs(40);
/// Between two attempts.
const RETRY: Duration = Duration::from_millis(50);

/// The clients, at work.
pub struct ApiTraffic {
    doors: Vec<Door>,
    after: i64,
    diary: Diary,
    stop: watch::Sender<bool>,
    writer: JoinHandle<Writer>,
    /// The revision watchers have to reach, once it is known.
    upto: watch::Sender<Option<i64>>,
    watchers: JoinSet<Follower>,
    /// How far those have come who watch everything.
    shown: Vec<(String, watch::Receiver<i64>)>,
}

/// Numbers for a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Writes that were acknowledged.
    pub acknowledged: usize,
    /// Revisions in the log.
    pub revisions: usize,
    /// Watches of all watchers: every one but the first after a list resumes another.
    pub watches: usize,
    /// Lists: one a watcher, and one more each time it was told that history is gone.
    pub lists: usize,
}

/// A write the API server has acknowledged.
#[derive(Clone, Debug)]
struct Written {
    /// When it was begun.
    start: Duration,
    key: String,
    what: Acknowledged,
}

#[derive(Clone, Debug)]
enum Acknowledged {
    /// Created or changed: what it is now, and since which revision.
    Put { value: String, revision: i64 },
    /// The object of this UID is no more.
    Deleted { uid: String },
}

/// Where the writer notes what was acknowledged.
#[derive(Clone)]
struct Diary {
    began: Instant,
    written: Arc<Mutex<Vec<Written>>>,
}

impl Diary {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn note(&self, written: Written) {
        self.written.lock().unwrap().push(written);
    }

    /// The revision of a write that was begun after a time.
    fn revision_since(&self, from: Duration) -> Option<i64> {
        let written = self.written.lock().unwrap();
        written.iter().filter(|write| write.start >= from).find_map(|write| match write.what {
            Acknowledged::Put { revision, .. } => Some(revision),
            Acknowledged::Deleted { .. } => None,
        })
    }
}

/// A client that tries nothing twice: that is what its user does.
async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

impl ApiTraffic {
    /// Lets clients loose on the API server of a kubeconfig, over the store behind these doors. The seed decides what they do,
    /// the servers when.
    pub async fn start(seed: u64, kubeconfig: &Path, doors: Vec<Door>) -> Self {
        let after = traffic::revision(&doors[0]).await;
        let namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": NAMESPACE}})).unwrap();
        Api::<Namespace>::all(client(kubeconfig).await).create(&PostParams::default(), &namespace).await.unwrap();
        let diary = Diary { began: Instant::now(), written: Arc::default() };
        let (stop, upto) = (watch::Sender::new(false), watch::Sender::new(None));
        let mut dice = StdRng::seed_from_u64(seed);
        let writer = Writer::new(maps(kubeconfig).await, diary.clone());
        let writer = tokio::spawn(writer.run(StdRng::seed_from_u64(dice.random()), stop.subscribe()));
        let (mut watchers, mut shown) = (JoinSet::new(), Vec::new());
        for wish in watcher::WISHES {
            let progress = watch::Sender::new(0);
            if wish.everything() {
                shown.push((wish.name.to_owned(), progress.subscribe()));
            }
            // Each by a connection of its own.
            let watcher = watcher::Watcher::new(wish, maps(kubeconfig).await, progress);
            watchers.spawn(watcher.run(StdRng::seed_from_u64(dice.random()), upto.subscribe()));
        }
        Self { doors, after, diary, stop, writer, upto, watchers, shown }
    }

    /// Waits until a write that began after this call was acknowledged and everybody who watches everything was shown it; how
    /// long it took.
    pub async fn reaches_everybody(&self) -> Duration {
        let from = self.diary.now();
        let patient = |what: &str| assert!(self.diary.now() - from < PATIENCE, "{what} in {PATIENCE:?}");
        let revision = loop {
            match self.diary.revision_since(from) {
                Some(revision) => break revision,
                None => patient("no write through the API server"),
            }
            tokio::time::sleep(RETRY).await;
        };
        for (name, shown) in &self.shown {
            while *shown.borrow() < revision {
                patient(&format!("{name} was not shown revision {revision}"));
                tokio::time::sleep(RETRY).await;
            }
        }
        self.diary.now() - from
    }

    /// Ends the clients and holds what they saw against the log, read back from every member.
    ///
    /// # Panics
    /// The members differ, or nothing can be written.
    pub async fn end(mut self) -> Result<Summary, Violation> {
        self.stop.send_replace(true);
        let upto = self.writer.await.unwrap().last_words(watcher::ONE).await;
        let log = object::log(&traffic::read_back(&self.doors, PREFIX, self.after, upto).await);
        self.upto.send_replace(Some(upto));
        let mut watchers = Vec::new();
        while let Some(ended) = self.watchers.join_next().await {
            watchers.push(ended.unwrap());
        }
        let written = std::mem::take(&mut *self.diary.written.lock().unwrap());
        written.iter().try_for_each(|write| is_in(&log, write))?;
        watchers.iter().try_for_each(|watcher| followers::check(&log, watcher))?;
        let lives = || watchers.iter().flat_map(|watcher| &watcher.lives);
        Ok(Summary {
            acknowledged: written.len(),
            revisions: log.revisions().count(),
            watches: lives().map(|life| life.watch.streams.len()).sum(),
            lists: lives().count(),
        })
    }
}

async fn maps(kubeconfig: &Path) -> Api<ConfigMap> {
    Api::namespaced(client(kubeconfig).await, NAMESPACE)
}

/// Whether what was acknowledged has happened.
fn is_in(log: &Log, write: &Written) -> Result<(), Violation> {
    let (revision, found) = match &write.what {
        Acknowledged::Put { value, revision } => {
            let same = |event: &crate::history::Event| event.kind == Kind::Put && event.pair.key == write.key && event.pair.value == *value;
            (*revision, log.at(*revision).iter().any(same))
        }
        Acknowledged::Deleted { uid } => {
            let of_it = |event: &crate::history::Event| event.before.as_ref().is_some_and(|before| object::is_of(before, uid));
            let same = |event: &crate::history::Event| event.kind == Kind::Delete && event.pair.key == write.key && of_it(event);
            (0, log.revisions().any(|(_, events)| events.iter().any(same)))
        }
    };
    if found { Ok(()) } else { Err(Violation::Lost { revision, call: format!("{write:?}") }) }
}
