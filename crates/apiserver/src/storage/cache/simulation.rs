//! The cache under seeded chance: writes, lists and watches of every kind, while its source fails, restarts, lags and forgets its
//! history. A model knows the state at every revision; whatever anybody is shown must be one of them, and watches must tell each
//! step from there. `CACHE_SEED=n` runs one seed alone, `CACHE_SEEDS=n` the first n.

mod follower;
mod model;
mod source;
mod world;

use world::World;

/// Seeds of one run.
const SEEDS: u64 = 20;
/// What happens under one seed.
const STEPS: usize = 250;

#[test]
fn lists_and_watches_show_the_state_at_every_revision() {
    let number = |variable: &str| std::env::var(variable).ok().and_then(|number| number.parse::<u64>().ok());
    let seeds = number("CACHE_SEED").map_or(0..number("CACHE_SEEDS").unwrap_or(SEEDS), |seed| seed..seed + 1);
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                world.step().await;
            }
            world.settle().await;
        });
    }
}
