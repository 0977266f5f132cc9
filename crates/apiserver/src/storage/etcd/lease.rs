//! Leases for objects that expire, shared among objects of about the same age: one lease an Event would be far too many.

use std::time::Duration;

use etcd::client::{Client, Error};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A lease is shared for this part of its life …
const SHARED_PART: f64 = 0.05;
/// … at most this long …
const SHARED_AT_MOST: Duration = Duration::from_secs(60);
/// … and by this many objects.
const OBJECTS: u32 = 1000;

/// Hands out leases. Upstream: `leaseManager`.
pub(super) struct Leases {
    client: Client,
    last: Mutex<Option<Lease>>,
}

struct Lease {
    id: i64,
    /// What objects get at least that share it.
    ttl: Duration,
    /// When its remaining life falls below `ttl`.
    until: Instant,
    objects: u32,
}

impl Leases {
    pub(super) fn new(client: Client) -> Self {
        Self { client, last: Mutex::default() }
    }

    /// A lease that lives for `ttl` from now, or a little longer.
    pub(super) async fn get(&self, ttl: Duration) -> Result<i64, Error> {
        let now = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(lease) = last.as_mut().filter(|lease| lease.ttl == ttl && now < lease.until && lease.objects < OBJECTS) {
            lease.objects += 1;
            return Ok(lease.id);
        }
        let shared = ttl.mul_f64(SHARED_PART).min(SHARED_AT_MOST);
        let granted = self.client.lease_grant((ttl + shared).as_secs_f64().ceil() as i64, 0).await?;
        *last = Some(Lease { id: granted.id, ttl, until: now + shared, objects: 1 });
        Ok(granted.id)
    }

    /// Hands a lease out no longer: the store does not know it.
    pub(super) async fn forget(&self, id: i64) {
        self.last.lock().await.take_if(|lease| lease.id == id);
    }
}
