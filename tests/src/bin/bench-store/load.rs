//! Clients of the store.

pub(crate) use tests::bench::{Histogram, Measured, Phase, Times, dice, noise, spent};
use tonic::{Status, transport::Channel};

use crate::members::{Members, connect};

/// One client: it does its next thing at each call.
pub(crate) type Client = tests::bench::Client<Status>;

/// Has clients work until the times are over, and measures those requests that end while it measures.
pub(crate) async fn closed_loop(members: &Members, times: Times, clients: Vec<Client>) -> Measured {
    tests::bench::closed_loop(|| members.usage(), times, clients).await
}

/// Connections, spread over the endpoints in turn.
pub(crate) async fn connections(endpoints: &[String], count: usize) -> anyhow::Result<Vec<Channel>> {
    let mut channels = Vec::with_capacity(count);
    for endpoint in endpoints.iter().cycle().take(count) {
        channels.push(connect(endpoint).await?);
    }
    Ok(channels)
}
