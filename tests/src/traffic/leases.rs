//! A client with a lease: it renews it for a while, then lets it go, and looks all the time whether it is there.

use std::time::Duration;

use etcd::etcdserverpb::{LeaseGrantRequest, LeaseKeepAliveRequest, LeaseTimeToLiveRequest, lease_client::LeaseClient};
use rand::{Rng as _, rngs::StdRng};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{Diary, Door, PATIENCE, door::Way};
use crate::history::leases::{Lease, Seen, Sight};

/// Seconds a lease is asked to live.
const TTL: std::ops::Range<i64> = 3..7;
/// Between two questions, in milliseconds.
const PAUSE: std::ops::Range<u64> = 100..1_200;
/// It does not wait longer for an answer.
const DEADLINE: Duration = Duration::from_secs(1);

/// One such client.
pub(super) struct Tenant {
    pub(super) name: String,
    pub(super) door: Door,
    pub(super) diary: Diary,
}

impl Tenant {
    /// One lease after the other until `stop`; the last one is followed to its end.
    pub(super) async fn run(self, mut dice: StdRng, stop: watch::Receiver<bool>) -> Vec<Lease> {
        let mut leases = Vec::new();
        while !*stop.borrow() {
            sleep(Duration::from_millis(dice.random_range(PAUSE))).await;
            if let Some((id, mut lease)) = self.grant(&mut dice).await {
                self.live(id, &mut lease, &mut dice, &stop).await;
                leases.push(lease);
            }
        }
        leases
    }

    fn client(&self) -> LeaseClient<Way> {
        LeaseClient::new(self.door.way())
    }

    /// An answer within the deadline, and when.
    async fn ask<T>(&self, call: impl Future<Output = Option<T>>) -> Option<(Seen, T)> {
        let sent = self.diary.now();
        let answer = timeout(DEADLINE, call).await.ok()??;
        Some((Seen { sent, answered: self.diary.now() }, answer))
    }

    async fn grant(&self, dice: &mut StdRng) -> Option<(i64, Lease)> {
        let request = LeaseGrantRequest { ttl: dice.random_range(TTL), id: dice.random_range(1..i64::MAX) };
        let mut client = self.client();
        let (seen, granted) = self.ask(async { client.lease_grant(request).await.ok() }).await?;
        let (id, ttl) = (request.id, Duration::from_secs(granted.into_inner().ttl.unsigned_abs()));
        Some((id, Lease { name: format!("{id:x} of {}", self.name), ttl, renewals: vec![seen], looks: Vec::new() }))
    }

    /// Until it is gone, or ought to be for long.
    async fn live(&self, id: i64, lease: &mut Lease, dice: &mut StdRng, stop: &watch::Receiver<bool>) {
        let renewals = dice.random_range(0..12);
        let mut stopping = None;
        for turn in 0.. {
            sleep(Duration::from_millis(dice.random_range(PAUSE))).await;
            let stop = *stop.borrow();
            if turn < renewals && !stop {
                lease.renewals.extend(self.renew(id).await);
            }
            let look = self.look(id).await;
            lease.looks.extend(look);
            if look.is_some_and(|(_, sight)| sight == Sight::Gone) {
                return;
            }
            // While things go wrong nobody need notice that it ends.
            if stop && stopping.get_or_insert_with(Instant::now).elapsed() > lease.ttl + PATIENCE {
                return;
            }
        }
    }

    async fn renew(&self, id: i64) -> Option<Seen> {
        let mut client = self.client();
        let renewed = async {
            let requests = tokio_stream::once(LeaseKeepAliveRequest { id });
            client.lease_keep_alive(requests).await.ok()?.into_inner().message().await.ok()?
        };
        let (seen, renewed) = self.ask(renewed).await?;
        (renewed.ttl > 0).then_some(seen)
    }

    async fn look(&self, id: i64) -> Option<(Seen, Sight)> {
        let mut client = self.client();
        let request = LeaseTimeToLiveRequest { id, keys: false };
        let (seen, found) = self.ask(async { client.lease_time_to_live(request).await.ok() }).await?;
        Some((seen, if found.into_inner().ttl < 0 { Sight::Gone } else { Sight::Alive }))
    }
}
