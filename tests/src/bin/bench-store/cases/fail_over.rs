//! From the death of the leader to the next acknowledged put.

use std::time::Duration;

use tokio::time::sleep;

use super::{Context, measured};
use crate::{first_put::first_put, load::Measured};

/// A cluster that is not back by then is broken.
const BACK: Duration = Duration::from_secs(30);
/// Rest between two kills, so that the one that came back has caught up.
const REST: Duration = Duration::from_secs(3);

pub(super) async fn fail_over(context: &mut Context) -> anyhow::Result<Measured> {
    let mut times = Vec::new();
    for _ in 0..context.sizes.repeats {
        sleep(REST).await;
        let leader = context.members.leader().await?;
        let others = (0..context.members.count()).filter(|index| *index != leader);
        let survivors: Vec<_> = others.map(|index| context.members.endpoint(index).to_owned()).collect();
        let killed = context.members.kill(leader)?;
        first_put(&survivors, BACK, || Ok(())).await?;
        times.push(killed.elapsed());
        context.members.resume().await?;
    }
    Ok(measured(&times))
}
