//! From the start of the processes to the first acknowledged put.

use std::time::Instant;

use etcd::etcdserverpb::{PutRequest, RequestOp, TxnRequest, kv_client::KvClient, request_op::Request};
use tonic::transport::Channel;

use super::{Context, measured, put};
use crate::load::{Measured, connections, dice, noise};

/// Puts of one transaction; etcd takes 128.
const TOGETHER: usize = 100;
const WRITERS: usize = 16;

/// The members that run have been measured by nobody: others are started beside them, one cluster after the other.
pub(super) async fn empty(context: &mut Context) -> anyhow::Result<Measured> {
    let mut times = Vec::new();
    for _ in 0..context.sizes.repeats {
        times.push(context.members.start_anew().await?);
    }
    Ok(measured(&times))
}

/// With many keys, each written several times.
pub(super) async fn full(context: &mut Context, killed: bool) -> anyhow::Result<Measured> {
    let began = Instant::now();
    fill(context).await?;
    eprintln!("    wrote {} keys {} times in {:.0?}", context.sizes.start_keys, context.sizes.start_versions, began.elapsed());
    let mut times = Vec::new();
    for _ in 0..context.sizes.repeats {
        if killed {
            (0..context.members.count()).try_for_each(|index| context.members.kill(index).map(drop))?;
        } else {
            context.members.stop().await?;
        }
        times.push(context.members.resume().await?);
    }
    Ok(measured(&times))
}

async fn fill(context: &Context) -> anyhow::Result<()> {
    let channels = connections(&context.members.endpoints().await?, WRITERS).await?;
    let (keys, versions) = (context.sizes.start_keys, context.sizes.start_versions);
    let write = |(writer, channel): (usize, Channel)| async move {
        let (mut client, mut dice) = (KvClient::new(channel), dice(writer));
        for _ in 0..versions {
            for first in (writer * TOGETHER..keys).step_by(WRITERS * TOGETHER) {
                let put = |number| PutRequest { key: put::key(number), value: noise(&mut dice, 256).into(), ..Default::default() };
                let op = |put| RequestOp { request: Some(Request::RequestPut(put)) };
                let success = (first..keys.min(first + TOGETHER)).map(put).map(op).collect();
                client.txn(TxnRequest { success, ..Default::default() }).await?;
            }
        }
        Ok::<_, anyhow::Error>(())
    };
    futures::future::try_join_all(channels.into_iter().enumerate().map(write)).await?;
    Ok(())
}
