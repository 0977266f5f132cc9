//! From the start of the processes to the first acknowledged put.

use std::time::Instant;

use super::{Context, measured, put};
use crate::load::Measured;

/// The members that run have been measured by nobody: others are started beside them, one cluster after the other.
pub(super) async fn empty(context: &mut Context) -> anyhow::Result<Measured> {
    let mut times = Vec::new();
    for _ in 0..context.sizes.repeats {
        times.push(context.members.start_anew().await?);
    }
    Ok(measured(&times))
}

/// With many keys, each written several times; the second measurement is on the same data, because writing them takes the longest.
pub(super) async fn full(context: &mut Context) -> anyhow::Result<Measured> {
    let (keys, versions, began) = (context.sizes.start_keys, context.sizes.start_versions, Instant::now());
    put::fill_together(context, keys, versions, 256).await?;
    eprintln!("    wrote {keys} keys {versions} times in {:.0?}", began.elapsed());
    let mut times = Vec::new();
    for _ in 0..context.sizes.repeats {
        context.members.stop().await?;
        times.push(context.members.resume().await?);
    }
    let killed = killed(context).await?;
    context.besides.push(("start-killed", killed));
    Ok(measured(&times))
}

async fn killed(context: &mut Context) -> anyhow::Result<Measured> {
    let mut times = Vec::new();
    for _ in 0..context.sizes.repeats {
        (0..context.members.count()).try_for_each(|index| context.members.kill(index).map(drop))?;
        times.push(context.members.resume().await?);
    }
    Ok(measured(&times))
}
