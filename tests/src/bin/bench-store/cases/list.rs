//! Reading many keys at once.

use etcd::etcdserverpb::{PutRequest, RangeRequest, kv_client::KvClient};
use tonic::{Status, transport::Channel};

use super::Context;
use crate::load::{Client, Measured, connections, dice, noise};

const KEYS: usize = 10_000;
const VALUE: usize = 1024;
const PREFIX: &str = "/registry/configmaps/";
const END: &str = "/registry/configmaps0";

pub(super) async fn list(context: &Context, clients: usize) -> anyhow::Result<Measured> {
    fill(context, KEYS, VALUE).await?;
    let make = |_, channel| -> Client {
        let client = KvClient::new(channel).max_decoding_message_size(usize::MAX);
        Box::new(move || {
            let (request, mut client) = (all(0), client.clone());
            Box::pin(async move {
                let found = client.range(request).await?.into_inner().kvs.len();
                if found == KEYS { Ok(()) } else { Err(Status::data_loss(format!("{found} of {KEYS} keys"))) }
            })
        })
    };
    Ok(context.closed_loop(context.clients(clients, make).await?).await)
}

/// All that [`fill`] has written, or so many of them.
pub(super) fn all(limit: i64) -> RangeRequest {
    RangeRequest { key: PREFIX.into(), range_end: END.into(), limit, ..Default::default() }
}

/// Writes so many keys.
pub(super) async fn fill(context: &Context, keys: usize, length: usize) -> anyhow::Result<()> {
    const WRITERS: usize = 50;
    let channels = connections(&context.members.endpoints().await?, WRITERS.min(context.sizes.connections)).await?;
    let write = |(writer, channel): (usize, Channel)| async move {
        let (mut client, mut dice) = (KvClient::new(channel), dice(writer));
        for number in (writer..keys).step_by(WRITERS) {
            let key = format!("{PREFIX}namespace/name-{number:06}").into();
            client.put(PutRequest { key, value: noise(&mut dice, length).into(), ..Default::default() }).await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    futures::future::try_join_all(channels.into_iter().cycle().take(WRITERS).enumerate().map(write)).await?;
    Ok(())
}
