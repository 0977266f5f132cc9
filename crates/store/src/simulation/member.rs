//! A member of a simulated cluster: its disks stay, its processes come and go.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    path::PathBuf,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use component::{Shutdown, metrics::Registry};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::{task::JoinSet, time::Instant};
use tower::{BoxError, service_fn};

use super::{
    disk::{Drive, Power},
    network::{Life, Listener, Network, Place, Port},
    tally::Happening,
    world::{Findings, Surroundings},
};
use crate::{
    config::Config,
    metrics::Metrics,
    raft::{
        Options, RaftNode,
        membership::{self, Identity},
        peers::{Dial, Error, Wire, WireError},
        reconfigure::Limits,
    },
    rpc,
    url::Url,
};

/// Entries after which a member takes a snapshot: often.
const SNAPSHOT_COUNT: u64 = 100;

/// One member.
pub(super) struct Member {
    place: Place,
    origin: Origin,
    pub(super) drive: Drive,
    directory: PathBuf,
    /// Processes there were: files of one that is gone must not be those of the next.
    lives: u64,
    network: Network,
    findings: Findings,
    dice: StdRng,
    /// Milliseconds by which its clock has jumped.
    jumped: Arc<AtomicU64>,
    process: Option<Process>,
}

/// How it came to its cluster.
pub(super) enum Origin {
    /// It forms it together with others, so many in all.
    Founder(usize),
    /// It is added.
    Newcomer(Identity),
}

/// What runs of it.
struct Process {
    life: Life,
    power: Power,
    node: RaftNode,
    stop: Shutdown,
    /// Ends with it.
    background: JoinSet<()>,
}

/// What it is called.
pub(super) fn name(place: Place) -> String {
    format!("m{place}")
}

/// Where the others reach it.
pub(super) fn peer_urls(place: Place) -> Vec<Url> {
    vec![format!("http://m{place}:2380").parse().expect("a URL")]
}

/// Who a founder is.
pub(super) fn founder(size: usize, place: Place) -> (Identity, BTreeMap<u64, crate::raft::Member>) {
    let cluster = (0..size).map(|place| (name(place), peer_urls(place))).collect();
    membership::initial(&cluster, &name(place), &peer_urls(place), "simulation").expect("a cluster")
}

impl Member {
    /// With empty disks.
    pub(super) fn new(place: Place, origin: Origin, surroundings: &Surroundings, lies: bool, dice: &mut StdRng) -> Self {
        let Surroundings { network, findings, scratch } = surroundings;
        let mut more = || StdRng::seed_from_u64(dice.random());
        Self {
            place,
            origin,
            drive: Drive::new(more(), lies),
            directory: scratch.path().join(name(place)),
            lives: 0,
            network: network.clone(),
            findings: findings.clone(),
            dice: more(),
            jumped: Arc::default(),
            process: None,
        }
    }

    /// Its number in the cluster.
    pub(super) fn id(&self) -> u64 {
        match &self.origin {
            Origin::Founder(size) => founder(*size, self.place).0.member_id,
            Origin::Newcomer(identity) => identity.member_id,
        }
    }

    /// Its clock goes on from a later time.
    pub(super) fn clock_jumps(&self, by: Duration) {
        self.jumped.fetch_add(by.as_millis() as u64, Relaxed);
    }

    /// Its node, while it runs.
    pub(super) fn node(&self) -> Option<&RaftNode> {
        self.process.as_ref().map(|process| &process.node)
    }

    /// Starts a process.
    pub(super) async fn start(&mut self) {
        self.start_cut_short(usize::MAX).await;
    }

    /// Starts a process that is killed unless it is there after so many steps.
    pub(super) async fn start_cut_short(&mut self, steps: usize) {
        let (life, power) = (Life::new(self.place), Power::default());
        match cut_short(steps, RaftNode::start(self.options(&life, &power))).await {
            Some(Ok(node)) => self.serve(node, life, power),
            Some(Err(error)) => self.findings.add(format!("{} does not start: {error}", name(self.place))),
            None => {
                self.network.tally().count(Happening::CrashStarting);
                power.cut();
                life.ended.cancel();
                self.drive.forget(self.network.tally());
            }
        }
    }

    fn serve(&mut self, node: RaftNode, life: Life, power: Power) {
        let (config, registry) = (config(self.place), Registry::new());
        let calls = rpc::Calls::register(&registry, node.metrics().clone(), false, Duration::MAX);
        let auth = config.auth.authenticator(false).unwrap();
        let stop = Shutdown::new();
        let listener =
            Listener { life: life.clone(), peers: node.peer_router(), clients: rpc::router(&node, &config, auth, calls, &stop).unwrap() };
        let background = rpc::background(&node, &config, vec![format!("http://m{}:2379", self.place).parse().unwrap()], &stop);
        self.network.listen(listener);
        self.watch_over(&node, &stop);
        self.process = Some(Process { life, power, node, stop, background });
    }

    fn options(&mut self, life: &Life, power: &Power) -> Options {
        let (began, jumped) = (Instant::now(), self.jumped.clone());
        let (identity, initial) = match &self.origin {
            Origin::Founder(size) => founder(*size, self.place),
            Origin::Newcomer(identity) => (identity.clone(), BTreeMap::new()),
        };
        self.lives += 1;
        Options {
            directory: self.directory.join(self.lives.to_string()),
            disks: self.drive.plug_in(power),
            identity: Ok(identity),
            initial,
            dial: Arc::new(Exit { network: self.network.clone(), life: life.clone() }),
            limits: Limits { strict: true, learners: 1 },
            heartbeat: Duration::from_millis(100),
            election_timeout: Duration::from_secs(1),
            force_new_cluster: false,
            snapshot_count: SNAPSHOT_COUNT,
            first_proposal: self.dice.random(),
            clock: Arc::new(move || began.elapsed() + Duration::from_millis(jumped.load(Relaxed))),
            metrics: Metrics::new(),
            slow_apply: Duration::MAX,
        }
    }

    /// A member that stops although nobody made it has found something wrong.
    fn watch_over(&self, node: &RaftNode, stop: &Shutdown) {
        let (node, stop, findings, name) = (node.clone(), stop.clone(), self.findings.clone(), name(self.place));
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                cause = node.failed() => findings.add(format!("{name} stopped by itself: {cause}")),
            }
        });
    }

    /// Its process is killed; the machine goes on.
    pub(super) fn kill(&mut self) {
        self.network.tally().count(Happening::Kill);
        self.end(Network::close);
    }

    /// Its machine loses power.
    pub(super) fn lose_power(&mut self) {
        self.network.tally().count(Happening::PowerLoss);
        self.end(Network::switch_off);
    }

    /// What its process still does from now on reaches neither disk nor network.
    fn end(&mut self, vanish: fn(&Network, Place)) {
        let Some(Process { life, power, node, stop, mut background }) = self.process.take() else { return };
        power.cut();
        life.ended.cancel();
        vanish(&self.network, self.place);
        self.drive.forget(self.network.tally());
        stop.cancel();
        background.abort_all();
        // It is as good as gone, but must not go on for ever.
        tokio::spawn(async move { drop(node.raft().shutdown().await) });
    }

    /// It takes over a snapshot.
    pub(super) fn installs(&self) -> bool {
        self.node().is_some_and(|node| node.metrics().snapshot_applying.get() > 0)
    }

    /// Its process is killed while it does.
    pub(super) fn crash_installing(&mut self) {
        self.network.tally().count(Happening::CrashInstalling);
        self.end(Network::close);
    }

    /// It is told to stop, and does so in its own time.
    pub(super) async fn stop(&mut self) {
        self.stop_cut_short(usize::MAX).await;
    }

    /// It is told to stop, and is killed unless it has done so after so many steps.
    pub(super) async fn stop_cut_short(&mut self, steps: usize) {
        let Some(process) = &mut self.process else { return };
        process.stop.cancel();
        process.background.abort_all();
        let stopped = cut_short(steps, process.node.stop()).await.is_some();
        self.network.tally().count(if stopped { Happening::CleanStop } else { Happening::CrashStopping });
        if !stopped {
            return self.end(Network::close);
        }
        if let Some(Process { life, power, .. }) = self.process.take() {
            power.cut();
            life.ended.cancel();
            self.network.close(self.place);
        }
    }
}

/// The outcome of something, unless it has to wait more often than that: then it is dropped where it stands.
async fn cut_short<T>(steps: usize, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut left) = (pin!(work), steps);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// Flags as they are by default.
fn config(place: Place) -> Config {
    Config::from_flags(&["--name", &name(place), "--quota-backend-bytes=-1", "--watch-progress-notify-interval=1s"]).unwrap()
}

/// The way from one process to the other members.
struct Exit {
    network: Network,
    life: Life,
}

#[async_trait::async_trait]
impl Dial for Exit {
    async fn dial(&self, url: &str) -> Result<Wire, Error> {
        let failed = |error: BoxError| Error::Connect(url.to_owned(), error);
        let place = url.strip_prefix("http://m").and_then(|rest| rest.split(':').next()).and_then(|place| place.parse().ok());
        let place = place.ok_or_else(|| failed("nobody lives there".into()))?;
        let connection = self.network.dial(&self.life, place, Port::Peers).await.map_err(|error| failed(error.into()))?;
        Ok(Wire::new(service_fn(move |request| {
            let call = connection.clone().call(request);
            async move { call.await.map_err(|error| WireError::from(BoxError::from(error))) }
        })))
    }
}
