//! From the start of the server to its first `/readyz` that says yes.

use tests::bench::{Histogram, Measured, Usage};

use super::Context;
use crate::{
    report::Row,
    server::{Program, Running},
};

/// The start of the server that everything is measured on, and where it is this project's more of them, each on an empty directory.
pub(super) async fn start(context: &Context) -> anyhow::Result<Vec<Row>> {
    let Some(first) = context.started else { return Ok(Vec::new()) };
    let mut times = vec![first];
    while context.own && times.len() < context.sizes.starts {
        let directory = tempfile::tempdir()?;
        let running = Running::start(&Program::own(directory.path())?, &directory.path().join("log")).await?;
        times.push(running.ready_after);
    }
    let measured = Measured { time: times.iter().sum(), latencies: Histogram::of(&times), ..Measured::default() };
    let note = format!("{} starts, the store's among them", times.len());
    Ok(vec![Row { case: "start to /readyz".into(), measured, usage: Usage::default(), note }])
}
