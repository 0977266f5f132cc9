//! One member taken out and another one taken in, as an operator does it, while things go wrong.

use std::time::Duration;

use rand::Rng as _;
use tokio::time::sleep;

use super::{
    member::{self, Member, Origin},
    network::Place,
    tally::Happening,
    world::World,
};
use crate::raft::{
    RaftNode,
    membership::{self, Identity},
    reconfigure::{self, Change},
};

/// Once all is well again, attempts to get done with it, and the time between two.
const ATTEMPTS: usize = 60;
const AGAIN: Duration = Duration::from_millis(500);

/// An exchange under way.
pub(super) struct Exchange {
    /// The old member; it may go on until it hears that it is out.
    leaving: Member,
    id: u64,
    place: Place,
}

impl World {
    /// Puts a new machine where an old one was, whose disks nobody sees again. At most one at a time.
    pub(super) async fn replace_one(&mut self) {
        if self.exchange.is_some() {
            return;
        }
        self.network.tally().count(Happening::Exchange);
        let number = self.dice.random_range(0..self.members.len());
        let place = self.members.len() + self.homes.lock().iter().max().copied().unwrap_or_default();
        let id = membership::fresh_member_id(&member::peer_urls(place), self.dice.random());
        let identity = Identity { cluster_id: self.cluster_id, member_id: id };
        let mut joining = Member::new(place, Origin::Newcomer(identity), &self.surroundings, false, &mut self.dice);
        joining.start().await;
        self.homes.lock()[number] = place;
        let mut leaving = std::mem::replace(&mut self.members[number], joining);
        if self.dice.random() {
            leaving.lose_power();
        }
        self.exchange = Some(Exchange { leaving, id, place });
    }

    /// Takes the next step of an exchange, if there is one, by whatever member says it leads. True: it is done.
    pub(super) fn pursue_exchange(&mut self) -> bool {
        let Some(exchange) = &self.exchange else { return true };
        let leader = self.members.iter().chain([&exchange.leaving]).filter_map(Member::node).find(|node| node.progress().leads);
        let Some(leader) = leader.cloned() else { return false };
        let members = leader.members();
        let listed = |id| members.iter().find(|(listed, ..)| *listed == id);
        let change = match (listed(exchange.leaving.id()), listed(exchange.id)) {
            (Some(_), _) => Change::Remove(exchange.leaving.id()),
            (None, None) => {
                let urls = member::peer_urls(exchange.place).iter().map(ToString::to_string).collect();
                Change::Add(exchange.id, reconfigure::newcomer(urls, false))
            }
            // It learns until it has caught up.
            (None, Some((_, _, learns))) => return self.end_exchange(!learns),
        };
        order(leader, change);
        false
    }

    fn end_exchange(&mut self, done: bool) -> bool {
        if done && let Some(mut exchange) = self.exchange.take() {
            exchange.leaving.kill();
        }
        done
    }

    /// Gets done with it, now that nothing stands in the way.
    pub(super) async fn finish_exchange(&mut self) -> Result<(), String> {
        for _ in 0..ATTEMPTS {
            if self.pursue_exchange() {
                return Ok(());
            }
            sleep(AGAIN).await;
        }
        Err("a member could not be exchanged although nothing was wrong any more".to_owned())
    }
}

/// Asks for a change. Nobody waits for it: what came of it is seen at the next attempt.
fn order(leader: RaftNode, change: Change) {
    tokio::spawn(async move { leader.reconfigure(change).await });
}
