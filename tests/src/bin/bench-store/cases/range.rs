//! Reading one key.

use etcd::etcdserverpb::{RangeRequest, kv_client::KvClient};
use rand::Rng;

use super::{Context, put};
use crate::load::{Client, Measured, dice};

pub(super) async fn range(context: &Context, clients: usize, serializable: bool) -> anyhow::Result<Measured> {
    let keys = context.sizes.keys;
    put::fill_together(context, keys, 1, 256).await?;
    let make = |index, channel| -> Client {
        let (client, mut dice) = (KvClient::new(channel), dice(index));
        Box::new(move || {
            let request = RangeRequest { key: put::key(dice.random_range(0..keys)), serializable, ..Default::default() };
            let mut client = client.clone();
            Box::pin(async move { found(&client.range(request).await?.into_inner().kvs) })
        })
    };
    Ok(context.closed_loop(context.clients(clients, make).await?).await)
}

/// A fast answer without what was asked for is none.
fn found(kvs: &[etcd::mvccpb::KeyValue]) -> Result<(), tonic::Status> {
    if kvs.len() == 1 { Ok(()) } else { Err(tonic::Status::data_loss("the key was not found")) }
}
