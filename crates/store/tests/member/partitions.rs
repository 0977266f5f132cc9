//! Broken wires between members, in every pattern, with clients at work all the time and everything they saw checked
//! afterwards. Members dial the peer URL the others advertise, so the wires are proxies at those addresses.
//!
//! `STORE_PARTITION_SEED` repeats what the clients of a run did.

use std::{sync::Arc, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};
use tests::{
    traffic::{Door, Shape, Traffic},
    wires::{Wire, Wires},
};

use crate::support::{Cluster, eventually, get, put, within};

const MEMBERS: [usize; 3] = [0, 1, 2];
/// How long wires stay broken once the others have found together without them.
const BROKEN: Duration = Duration::from_secs(2);
/// From a break to a write acknowledged by a member that still has a quorum. An election takes up to two seconds, finding
/// out about a silent connection up to four.
const MOVE_ON: Duration = Duration::from_secs(10);
/// From the healing to a write acknowledged by each member.
const RECOVER: Duration = Duration::from_secs(10);

/// Three members at their wires, with clients.
struct Scene {
    cluster: Cluster,
    wires: Arc<Wires>,
    traffic: Traffic,
    name: String,
    /// Read at each connect.
    _pki: Option<tempfile::TempDir>,
}

impl Scene {
    async fn start(name: &str, tls: bool, seed: u64) -> Self {
        let pki = tls.then(|| tempfile::tempdir().unwrap());
        if let Some(pki) = &pki {
            crate::tls::write_pki(pki.path());
        }
        let wires = Wires::new(MEMBERS.len());
        let cluster = Cluster::start_wired(MEMBERS.len(), pki.as_ref().map(tempfile::TempDir::path), &wires).await;
        for member in &cluster.members {
            member.wait_for_leader().await;
        }
        let keys = pki.as_ref().map(|pki| crate::tls::client(pki.path()));
        let doors = cluster.members.iter().map(|member| Door::new(&member.name, &member.url(), keys.as_ref())).collect();
        let traffic = Traffic::start(seed, Shape::default(), doors).await;
        let name = format!("{name}{}", if tls { " (TLS)" } else { "" });
        let scene = Self { cluster, wires, traffic, name, _pki: pki };
        scene.writes("at the start", &MEMBERS, RECOVER).await;
        assert!(scene.wires.carried() >= 4, "{}: {} connections take the wires", scene.name, scene.wires.carried());
        scene
    }

    /// The leader, then the others.
    async fn leader_first(&self) -> [usize; 3] {
        let leader = self.cluster.leader().await;
        [leader, (leader + 1) % 3, (leader + 2) % 3]
    }

    async fn writes(&self, when: &str, members: &[usize], limit: Duration) {
        let took = self.traffic.writes_through(members).await;
        eprintln!("{}: {when}, writing through {members:?} after {took:?}", self.name);
        assert!(took <= limit, "{}: {when}, no write through {members:?} within {limit:?}", self.name);
    }

    /// Waits a while, in which a member without a quorum must acknowledge nothing and nobody may dial in a frenzy.
    async fn stands_still(&self, alone: usize, what: &str) {
        let (from, carried) = (self.traffic.now(), self.wires.carried());
        tokio::time::sleep(BROKEN).await;
        let pause = self.traffic.longest_pause(from, &[alone]);
        assert!(pause >= BROKEN, "{}: with {what}, member {alone} wrote without a quorum", self.name);
        let dialled = self.wires.carried() - carried;
        assert!(dialled < 200 * BROKEN.as_secs(), "{}: with {what}, {dialled} connections in {BROKEN:?}", self.name);
    }

    async fn heal(&self, what: &str) {
        self.wires.heal();
        self.writes(&format!("after {what} healed"), &MEMBERS, RECOVER).await;
    }

    async fn end(self) {
        let summary = self.traffic.end().await;
        eprintln!("{}: {summary:?}", self.name);
        let summary = summary.unwrap_or_else(|violation| panic!("{}: {violation}", self.name));
        assert!(summary.acknowledged > 20, "{}: {summary:?}", self.name);
    }
}

fn seed() -> u64 {
    let seed = std::env::var("STORE_PARTITION_SEED").map_or_else(|_| 4711, |seed| seed.parse().unwrap());
    eprintln!("seed {seed}");
    seed
}

/// A way in which wires break: given the leader and the others, who still has a quorum, and who surely has none.
struct Pattern {
    name: &'static str,
    breaks: fn(&Wires, [usize; 3], Wire),
    goes_on: fn([usize; 3]) -> [usize; 2],
    stands: fn([usize; 3]) -> usize,
}

impl Pattern {
    /// Wires that fall silent, then wires that reset; plain, and with TLS.
    async fn holds(self) {
        let seed = seed();
        tokio::join!(self.holds_over(false, seed), self.holds_over(true, seed + 1));
    }

    async fn holds_over(&self, tls: bool, seed: u64) {
        let scene = Scene::start(self.name, tls, seed).await;
        for wire in [Wire::Silent, Wire::Cut] {
            let what = format!("{wire:?} wires");
            let roles = scene.leader_first().await;
            (self.breaks)(&scene.wires, roles, wire);
            scene.writes(&format!("with {what}"), &(self.goes_on)(roles), MOVE_ON).await;
            scene.stands_still((self.stands)(roles), &what).await;
            scene.heal(&what).await;
        }
        scene.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_others_go_on_without_an_isolated_leader() {
    let breaks: fn(&Wires, [usize; 3], Wire) = |wires, [leader, ..], wire| wires.isolate(leader, wire);
    Pattern { name: "an isolated leader", breaks, goes_on: |[_, a, b]| [a, b], stands: |[leader, ..]| leader }.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_others_go_on_without_an_isolated_follower() {
    let breaks: fn(&Wires, [usize; 3], Wire) = |wires, [_, a, _], wire| wires.isolate(a, wire);
    Pattern { name: "an isolated follower", breaks, goes_on: |[leader, _, b]| [leader, b], stands: |[_, a, _]| a }.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_nobody_hears_is_replaced() {
    let breaks: fn(&Wires, [usize; 3], Wire) = |wires, [leader, ..], wire| wires.mute(leader, wire);
    Pattern { name: "a mute leader", breaks, goes_on: |[_, a, b]| [a, b], stands: |[leader, ..]| leader }.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_hears_nobody_is_replaced_though_all_hear_it() {
    let breaks: fn(&Wires, [usize; 3], Wire) = |wires, [leader, ..], wire| wires.deafen(leader, wire);
    Pattern { name: "a deaf leader", breaks, goes_on: |[_, a, b]| [a, b], stands: |[leader, ..]| leader }.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_nobody_hears_harms_nobody() {
    let breaks: fn(&Wires, [usize; 3], Wire) = |wires, [_, a, _], wire| wires.mute(a, wire);
    Pattern { name: "a mute follower", breaks, goes_on: |[leader, _, b]| [leader, b], stands: |[_, a, _]| a }.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_hears_nobody_harms_nobody() {
    let breaks: fn(&Wires, [usize; 3], Wire) = |wires, [_, a, _], wire| wires.deafen(a, wire);
    Pattern { name: "a deaf follower", breaks, goes_on: |[leader, _, b]| [leader, b], stands: |[_, a, _]| a }.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_cut_from_one_follower_only_goes_on_leading() {
    let breaks: fn(&Wires, [usize; 3], Wire) = |wires, [leader, a, _], wire| {
        wires.set(leader, a, wire);
        wires.set(a, leader, wire);
    };
    Pattern { name: "a bridge", breaks, goes_on: |[leader, _, b]| [leader, b], stands: |[_, a, _]| a }.holds().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flapping_wires_cost_time_but_no_write() {
    let seed = seed();
    let flaps = async |tls: bool, seed: u64| {
        let scene = Scene::start("flapping wires", tls, seed).await;
        let mut dice = StdRng::seed_from_u64(seed);
        for _ in 0..20 {
            let (from, step) = (dice.random_range(0..3), dice.random_range(1..3));
            let wire = [Wire::Good, Wire::Silent, Wire::Cut, Wire::Late(Duration::from_millis(150))][dice.random_range(0..4)];
            scene.wires.set(from, (from + step) % 3, wire);
            tokio::time::sleep(Duration::from_millis(dice.random_range(50..800))).await;
        }
        scene.heal("flapping").await;
        scene.end().await;
    };
    tokio::join!(flaps(false, seed), flaps(true, seed + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_wires_slow_writes_down_and_change_no_leader() {
    let seed = seed();
    let scene = Scene::start("slow wires", false, seed).await;
    let before = scene.leader_first().await;
    scene.wires.all(Wire::Late(Duration::from_millis(150)));
    scene.writes("with slow wires", &MEMBERS, MOVE_ON).await;
    tokio::time::sleep(BROKEN).await;
    assert_eq!(scene.leader_first().await, before);
    scene.heal("slowness").await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_members_of_which_only_one_reaches_the_other_are_a_cluster() {
    let pki = tempfile::tempdir().unwrap();
    crate::tls::write_pki(pki.path());
    for pki in [None, Some(pki.path())] {
        let cluster = Cluster::start_with_one_unreachable(2, pki).await;
        for member in &cluster.members {
            let write = async || within(MOVE_ON, put(&mut member.kv(), &member.name, "1")).await.ok();
            eventually(&format!("{} takes a write", member.name), write).await;
        }
        for member in &cluster.members {
            assert_eq!(get(&mut member.kv(), "m1").await.unwrap().unwrap(), "1");
        }
    }
}
