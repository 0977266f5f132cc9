//! Everything an API server does, at once.

use etcd::etcdserverpb::{RangeRequest, kv_client::KvClient};
use rand::Rng;

use super::{
    Context, list,
    txn::{Objects, Update},
};
use crate::load::{Client, Measured, dice};

const LISTED: usize = 50;

pub(super) async fn mixed(context: &Context, clients: usize) -> anyhow::Result<Measured> {
    list::fill(context, LISTED, 1024).await?;
    let make = |index, channel: tonic::transport::Channel| -> Client {
        let (client, objects, mut dice) = (KvClient::new(channel.clone()), Objects::new(index, channel), dice(index));
        Box::new(move || {
            let (objects, mut client) = (objects.clone(), client.clone());
            let request = match dice.random_range(0..10) {
                0..6 => RangeRequest { key: objects.key(dice.random_range(0..10)), ..Default::default() },
                6 => list::all(0),
                _ => {
                    let update = Update::new(&mut dice);
                    return Box::pin(async move { objects.update(update).await });
                }
            };
            Box::pin(async move { client.range(request).await.map(drop) })
        })
    };
    Ok(context.closed_loop(context.clients(clients, make).await?).await)
}
