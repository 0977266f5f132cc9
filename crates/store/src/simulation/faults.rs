//! What goes wrong.

use std::time::Duration;

use rand::{Rng as _, seq::IndexedRandom as _};
use tests::traffic::Traffic;
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    member::Member,
    network::{Place, Weather},
    tally::Happening,
    world::World,
};

/// Between two things that happen, in milliseconds.
const PAUSE: std::ops::Range<u64> = 50..1_500;
/// A slow disk takes up to so many milliseconds for everything.
const SLOW: std::ops::Range<u64> = 20..700;
/// A stalled one takes up to so many.
const STALLED: std::ops::Range<u64> = 2_000..8_000;
/// A process that is killed while it starts or stops gets on so often before.
const STEPS: std::ops::Range<usize> = 0..16;
/// One that is killed while it takes over a snapshot has so many milliseconds for it.
const INSTALLING: std::ops::Range<u64> = 0..4;

/// A clock jumps by so many milliseconds.
const JUMP: std::ops::Range<u64> = 100..20_000;

/// Something that happens to a cluster.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Partition,
    OneWayCut,
    Heal,
    Weather,
    Kill,
    PowerLoss,
    PowerLossOfAll,
    CleanStop,
    Start,
    CrashStarting,
    CrashStopping,
    CrashInstalling,
    SlowDisk,
    StalledDisk,
    GoodDisks,
    Transfer,
    ClockJump,
    Exchange,
}

/// How often each happens, compared with the others.
const FAULTS: [(Fault, u32); 18] = [
    (Fault::Partition, 12),
    (Fault::OneWayCut, 10),
    (Fault::Heal, 16),
    (Fault::Weather, 10),
    (Fault::Kill, 10),
    (Fault::PowerLoss, 8),
    (Fault::PowerLossOfAll, 3),
    (Fault::CleanStop, 4),
    (Fault::Start, 20),
    (Fault::CrashStarting, 4),
    (Fault::CrashStopping, 3),
    (Fault::CrashInstalling, 6),
    (Fault::SlowDisk, 6),
    (Fault::StalledDisk, 2),
    (Fault::GoodDisks, 5),
    (Fault::Transfer, 6),
    (Fault::ClockJump, 3),
    (Fault::Exchange, 3),
];

impl World {
    /// Lets something happen, so many times.
    pub(super) async fn trouble(&mut self, steps: usize, traffic: &mut Traffic) {
        for _ in 0..steps {
            let pause = Duration::from_millis(self.dice.random_range(PAUSE));
            self.pass(pause).await;
            let (fault, _) = *FAULTS.choose_weighted(&mut self.dice, |(_, weight)| *weight).expect("weights");
            self.happen(fault, traffic).await;
            self.pursue_exchange();
        }
    }

    async fn happen(&mut self, fault: Fault, traffic: &mut Traffic) {
        let tally = self.network.tally().clone();
        match fault {
            Fault::Partition => {
                tally.count(Happening::Partition);
                self.part(true);
            }
            Fault::OneWayCut => {
                tally.count(Happening::OneWayCut);
                self.part(false);
            }
            Fault::Heal => self.network.heal(),
            Fault::Weather => {
                let weather = [Weather::FAIR, Weather::FOUL, Weather::SLOW];
                self.network.set_weather(*weather.choose(&mut self.dice).expect("some weather"));
            }
            Fault::Kill => self.one_running().into_iter().for_each(Member::kill),
            Fault::PowerLoss => self.one_running().into_iter().for_each(Member::lose_power),
            Fault::PowerLossOfAll => self.members.iter_mut().filter(|member| member.node().is_some()).for_each(Member::lose_power),
            Fault::CleanStop => {
                if let Some(member) = self.one_running() {
                    member.stop().await;
                }
            }
            Fault::Start => {
                if let Some(member) = self.one(|member| member.node().is_none()) {
                    member.start().await;
                }
            }
            Fault::CrashStarting => {
                let steps = self.dice.random_range(STEPS);
                if let Some(member) = self.one(|member| member.node().is_none()) {
                    member.start_cut_short(steps).await;
                }
            }
            Fault::CrashStopping => {
                let steps = self.dice.random_range(STEPS);
                if let Some(member) = self.one_running() {
                    member.stop_cut_short(steps).await;
                }
            }
            Fault::CrashInstalling => self.lies_in_wait = true,
            Fault::SlowDisk => self.slow_one_down(Happening::SlowDisk, SLOW),
            Fault::StalledDisk => self.slow_one_down(Happening::StalledDisk, STALLED),
            Fault::GoodDisks => self.members.iter().for_each(|member| member.drive.recover()),
            Fault::Transfer => self.hand_on(),
            Fault::ClockJump => {
                tally.count(Happening::ClockJump);
                traffic.a_clock_jumps();
                let by = Duration::from_millis(self.dice.random_range(JUMP));
                self.one(|_| true).into_iter().for_each(|member| member.clock_jumps(by));
            }
            Fault::Exchange => self.replace_one().await,
        }
    }

    /// Lets time pass; where a crash lies in wait for a snapshot, whoever takes one over meanwhile is killed.
    async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while self.lies_in_wait && Instant::now() < until {
            if self.members.iter().any(Member::installs) {
                sleep(Duration::from_millis(self.dice.random_range(INSTALLING))).await;
                if let Some(member) = self.one(Member::installs) {
                    member.crash_installing();
                    self.lies_in_wait = false;
                }
            }
            sleep(Duration::from_millis(1)).await;
        }
        sleep_until(until).await;
    }

    fn slow_one_down(&mut self, how: Happening, milliseconds: std::ops::Range<u64>) {
        self.network.tally().count(how);
        let longest = Duration::from_millis(self.dice.random_range(milliseconds));
        self.one(|_| true).into_iter().for_each(|member| member.drive.slow_down(longest));
    }

    /// Cuts the ways between some members and the others, or only those from some to the others. Clients stay where they are.
    fn part(&mut self, both_ways: bool) {
        let places = 0..self.members.len();
        let some: Vec<Place> = places.clone().filter(|_| self.dice.random()).collect();
        for &from in &some {
            for to in places.clone().filter(|to| !some.contains(to)) {
                self.network.cut(from, to);
                if both_ways {
                    self.network.cut(to, from);
                }
            }
        }
    }

    fn one_running(&mut self) -> Option<&mut Member> {
        self.one(|member| member.node().is_some())
    }

    fn one(&mut self, such: impl Fn(&Member) -> bool) -> Option<&mut Member> {
        let those: Vec<_> = self.members.iter_mut().filter(|member| such(member)).collect();
        let number = if those.is_empty() { return None } else { self.dice.random_range(0..those.len()) };
        those.into_iter().nth(number)
    }

    /// Asks whoever leads to hand the leadership on.
    fn hand_on(&mut self) {
        let nodes = self.members.iter().filter_map(Member::node);
        let Some(leader) = nodes.clone().find(|node| node.progress().leads).cloned() else { return };
        let others: Vec<_> = leader.members().into_iter().map(|(id, ..)| id).filter(|id| *id != leader.identity().member_id).collect();
        let Some(&heir) = others.choose(&mut self.dice) else { return };
        self.network.tally().count(Happening::Transfer);
        // Nobody waits for it: it may fail as everything may.
        tokio::spawn(async move { leader.move_leader(heir).await });
    }
}
