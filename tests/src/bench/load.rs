//! Clients that each do one thing after the other, as fast as they are answered.

use std::{
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{future::BoxFuture, future::join_all};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::time::sleep;

use super::{Histogram, Usage};

/// What came of a load.
#[derive(Clone, Default)]
pub struct Measured {
    /// How long it was measured.
    pub time: Duration,
    /// Of everything that was done within that time.
    pub latencies: Histogram,
    /// Requests that failed.
    pub errors: u64,
    /// Processor time of each server's process within that time.
    pub cpu: Vec<Duration>,
}

/// One client: it does its next thing at each call.
pub type Client<E> = Box<dyn FnMut() -> BoxFuture<'static, Result<(), E>> + Send>;

/// How long to load before measuring, and how long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Before.
    pub warm_up: Duration,
    /// From then on.
    pub measure: Duration,
}

const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const OVER: u8 = 2;

/// What the clients of one load share: whether what they do counts.
#[derive(Clone, Default)]
pub struct Phase(Arc<AtomicU8>);

impl Phase {
    /// What is done now counts.
    pub fn measures(&self) -> bool {
        self.0.load(Ordering::Relaxed) == MEASURING
    }

    /// Nothing counts any more.
    pub fn over(&self) -> bool {
        self.0.load(Ordering::Relaxed) == OVER
    }

    /// Goes through the phases; how long it measured, and the processor time that the processes of `usage` took in that time.
    pub async fn run(&self, usage: impl Fn() -> Vec<Usage>, times: Times) -> (Duration, Vec<Duration>) {
        self.0.store(WARMING, Ordering::Relaxed);
        sleep(times.warm_up).await;
        let (before, began) = (usage(), Instant::now());
        self.0.store(MEASURING, Ordering::Relaxed);
        sleep(times.measure).await;
        self.0.store(OVER, Ordering::Relaxed);
        let (time, after) = (began.elapsed(), usage());
        (time, spent(&before, &after))
    }
}

/// Processor time of each process between two looks.
pub fn spent(before: &[Usage], after: &[Usage]) -> Vec<Duration> {
    before.iter().zip(after).map(|(before, after)| after.cpu.saturating_sub(before.cpu)).collect()
}

/// Has clients work until the times are over, and measures those requests that end while it measures.
pub async fn closed_loop<E: Display + Send + 'static>(usage: impl Fn() -> Vec<Usage>, times: Times, clients: Vec<Client<E>>) -> Measured {
    let phase = Phase::default();
    let workers: Vec<_> = clients.into_iter().map(|client| tokio::spawn(work(client, phase.clone()))).collect();
    let (time, cpu) = phase.run(usage, times).await;
    let mut measured = Measured { time, cpu, ..Default::default() };
    for done in join_all(workers).await {
        // A worker that panicked has done nothing that counts.
        let Ok((latencies, errors)) = done else { continue };
        measured.latencies.add(&latencies);
        measured.errors += errors;
    }
    measured
}

async fn work<E: Display>(mut client: Client<E>, phase: Phase) -> (Histogram, u64) {
    let (mut latencies, mut errors) = (Histogram::default(), 0);
    while !phase.over() {
        let began = Instant::now();
        match client().await {
            Ok(()) if phase.measures() => latencies.record(began.elapsed()),
            Ok(()) => {}
            Err(status) => {
                eprintln!("a request failed: {status}");
                errors += u64::from(phase.measures());
                // A server that refuses is not to be flooded.
                sleep(Duration::from_millis(10)).await;
            }
        }
    }
    (latencies, errors)
}

/// Chance that is the same in every run.
pub fn dice(client: usize) -> SmallRng {
    SmallRng::seed_from_u64(client as u64)
}

/// So many bytes that no compression makes fewer.
pub fn noise(dice: &mut SmallRng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    dice.fill(&mut bytes[..]);
    bytes
}
