//! A cluster, its clients, and the verdict on what they saw.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tempfile::TempDir;
use tests::traffic::{Broken, Door, Shape, Traffic, Way};
use tonic::ConnectError;
use tower::service_fn;

use super::{
    connection::Connection,
    exchange::Exchange,
    member::{self, Member, Origin},
    network::{CLIENTS, Life, Network, Place, Port, Weather},
    tally::{Counts, Happening, Tally},
};
use crate::raft::runtime::loaded;

/// How long a client rests between two calls.
const PACE: Duration = Duration::from_millis(40);
/// A whole run takes no longer, in simulated time.
const LONGEST: Duration = Duration::from_secs(600);

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) members: usize,
    /// So often something happens to them.
    pub(super) steps: usize,
    /// Disks say that they have synced, and have not.
    pub(super) disks_lie: bool,
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// Stands for all that was sent, when and where.
    pub(super) digest: u64,
    pub(super) counts: Counts,
}

/// What is wrong, found while it runs; clones share it.
#[derive(Clone, Default)]
pub(super) struct Findings(Arc<Mutex<Vec<String>>>);

impl Findings {
    pub(super) fn add(&self, finding: String) {
        self.0.lock().push(finding);
    }

    fn verdict(&self) -> Result<(), String> {
        let findings = self.0.lock();
        if findings.is_empty() { Ok(()) } else { Err(findings.join("\n")) }
    }
}

/// What a member finds when it comes into being.
pub(super) struct Surroundings {
    pub(super) network: Network,
    pub(super) findings: Findings,
    pub(super) scratch: TempDir,
}

/// Members on their network.
pub(super) struct World {
    pub(super) members: Vec<Member>,
    /// Where the members are, for their clients.
    pub(super) homes: Arc<Mutex<Vec<Place>>>,
    /// A member that takes the place of another one.
    pub(super) exchange: Option<Exchange>,
    /// The next member that takes over a snapshot is killed.
    pub(super) lies_in_wait: bool,
    pub(super) network: Network,
    pub(super) surroundings: Surroundings,
    pub(super) cluster_id: u64,
    pub(super) dice: StdRng,
}

/// Runs a simulation on this thread.
///
/// # Errors
/// The store did what it must not.
pub(super) fn run(seed: u64, plan: Plan) -> Result<Report, String> {
    loaded::load(seed);
    // Without IO: whatever wants to leave the process panics.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let late = |_| format!("not done within {LONGEST:?} of simulated time");
        tokio::time::timeout(LONGEST, live(seed, plan)).await.map_err(late)?
    })
}

async fn live(seed: u64, plan: Plan) -> Result<Report, String> {
    let mut world = World::begin(seed, plan).await;
    let shape = Shape { tenants: 1, pace: PACE, compacting: true, ..Shape::default() };
    let mut traffic = Traffic::start(world.dice.random(), shape, world.doors()).await;
    world.trouble(plan.steps, &mut traffic).await;
    world.recover().await?;
    world.surroundings.findings.verdict()?;
    let everybody: Vec<_> = (0..world.members.len()).collect();
    traffic.writes_through(&everybody).await;
    let summary = traffic.end().await.map_err(|violation| violation.to_string())?;
    world.members_agree().await?;
    world.surroundings.findings.verdict()?;
    let tally = world.network.tally();
    tally.add(Happening::Acknowledged, summary.acknowledged as u64);
    tally.add(Happening::Unknown, summary.unknown as u64);
    tally.add(Happening::Compaction, summary.compactions as u64);
    tally.add(Happening::Relisted, summary.relisted as u64);
    tally.add(Happening::Lease, summary.leases as u64);
    Ok(Report { digest: world.network.digest(), counts: tally.counts() })
}

impl World {
    async fn begin(seed: u64, plan: Plan) -> Self {
        let mut dice = StdRng::seed_from_u64(seed);
        let mut more = || StdRng::seed_from_u64(dice.random());
        let (network, findings) = (Network::new(more(), Tally::default()), Findings::default());
        let scratch = tempfile::tempdir().expect("a directory for snapshots");
        let surroundings = Surroundings { network: network.clone(), findings, scratch };
        let founder = |place| Member::new(place, Origin::Founder(plan.members), &surroundings, plan.disks_lie, &mut dice);
        let mut members: Vec<_> = (0..plan.members).map(founder).collect();
        for member in &mut members {
            member.start().await;
        }
        let homes = Arc::new(Mutex::new((0..plan.members).collect()));
        let cluster_id = member::founder(plan.members, 0).0.cluster_id;
        Self { members, homes, exchange: None, lies_in_wait: false, network, surroundings, cluster_id, dice }
    }

    fn doors(&self) -> Vec<Door> {
        let door = |number: usize| {
            let (network, homes) = (self.network.clone(), self.homes.clone());
            Door::by(&member::name(number), move || way(network.clone(), homes.clone(), number))
        };
        (0..self.members.len()).map(door).collect()
    }

    /// Nothing is wrong any more, and everybody is there.
    async fn recover(&mut self) -> Result<(), String> {
        self.network.heal();
        self.network.set_weather(Weather::FAIR);
        for member in &mut self.members {
            member.drive.recover();
            if member.node().is_none() {
                member.start().await;
            }
        }
        self.finish_exchange().await
    }

    /// All members hold the same.
    async fn members_agree(&self) -> Result<(), String> {
        let mut prints = Vec::new();
        for node in self.members.iter().filter_map(Member::node) {
            node.read_barrier().await.map_err(|refusal| format!("no read at the end: {refusal}"))?;
            let print = node.hash_here(0).await.map_err(|refusal| format!("no fingerprint at the end: {refusal}"))?;
            prints.push((print.hash, print.revision, print.compacted));
        }
        if prints.windows(2).all(|pair| pair[0] == pair[1]) { Ok(()) } else { Err(format!("members differ: {prints:?}")) }
    }
}

/// A client's connection to the member of a number, made when it is needed.
fn way(network: Network, homes: Arc<Mutex<Vec<Place>>>, number: usize) -> Way {
    let (life, open) = (Life::new(CLIENTS + number), Arc::<tokio::sync::Mutex<Option<Arc<Connection>>>>::default());
    Way::new(service_fn(move |request| {
        let (network, life, open, home) = (network.clone(), life.clone(), open.clone(), homes.lock()[number]);
        async move {
            let connection = {
                let mut open = open.lock().await;
                match open.as_ref().filter(|open| !open.is_broken() && open.to() == home) {
                    Some(connection) => connection.clone(),
                    None => {
                        let dialled = network.dial(&life, home, Port::Clients).await;
                        let dialled = dialled.map_err(|error| Broken(ConnectError(error.into()).into()))?;
                        open.insert(dialled).clone()
                    }
                }
            };
            connection.call(request).await.map_err(|error| Broken(error.into()))
        }
    }))
}
