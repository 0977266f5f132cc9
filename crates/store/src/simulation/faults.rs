//! What goes wrong.

use std::time::Duration;

use rand::{Rng as _, seq::IndexedRandom as _};
use tests::traffic::Traffic;
use tokio::time::sleep;

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
    SlowDisk,
    GoodDisks,
    Transfer,
    ClockJump,
    Exchange,
}

/// How often each happens, compared with the others.
const FAULTS: [(Fault, u32); 14] = [
    (Fault::Partition, 12),
    (Fault::OneWayCut, 10),
    (Fault::Heal, 16),
    (Fault::Weather, 10),
    (Fault::Kill, 10),
    (Fault::PowerLoss, 8),
    (Fault::PowerLossOfAll, 3),
    (Fault::CleanStop, 4),
    (Fault::Start, 20),
    (Fault::SlowDisk, 6),
    (Fault::GoodDisks, 5),
    (Fault::Transfer, 6),
    (Fault::ClockJump, 3),
    (Fault::Exchange, 3),
];

impl World {
    /// Lets something happen, so many times.
    pub(super) async fn trouble(&mut self, steps: usize, traffic: &mut Traffic) {
        for _ in 0..steps {
            sleep(Duration::from_millis(self.dice.random_range(PAUSE))).await;
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
            Fault::SlowDisk => {
                tally.count(Happening::SlowDisk);
                let longest = Duration::from_millis(self.dice.random_range(SLOW));
                self.one(|_| true).into_iter().for_each(|member| member.drive.slow_down(longest));
            }
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
