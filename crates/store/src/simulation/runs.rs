//! Many seeds, one after the other on each processor.
//!
//! `SIMULATION_SEED` runs one seed, `SIMULATION_SEEDS` so many (`forever` until stopped), `SIMULATION_FIRST` from which on.

use std::{
    cell::RefCell,
    env,
    ops::Range,
    panic::{self, AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, Once, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    tally::{Counts, Happening},
    world::{self, Plan, Report},
};

/// Seeds that are run when nobody says otherwise.
const QUICK: u64 = 100;
/// No seed takes that long on any machine.
const STUCK: Duration = Duration::from_secs(600);

/// Each test takes all processors.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const THREE: Plan = Plan { members: 3, steps: 25, disks_lie: false };
const FIVE: Plan = Plan { members: 5, ..THREE };

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(if text == "forever" { u64::MAX } else { text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, not a number")) })
}

/// The seeds to run.
fn seeds() -> Range<u64> {
    if let Some(seed) = number("SIMULATION_SEED") {
        return seed..seed.saturating_add(1);
    }
    let first = number("SIMULATION_FIRST").unwrap_or(1);
    first..first.saturating_add(number("SIMULATION_SEEDS").unwrap_or(QUICK))
}

thread_local! {
    /// The first panic of this thread's run, in whichever task of a member it was: a task's panic reaches nobody else.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A seed's run; a panic in any of its tasks is a finding like others.
fn run(seed: u64, plan: Plan) -> Result<Report, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANIC.with_borrow_mut(|first| first.get_or_insert_with(|| info.to_string()).len());
            usual(info);
        }));
    });
    PANIC.take();
    let result = catch_unwind(AssertUnwindSafe(|| world::run(seed, plan)));
    match PANIC.take() {
        Some(text) => Err(format!("panicked: {text}")),
        None => result.unwrap_or_else(|_| Err("panicked".to_owned())),
    }
}

/// Runs all seeds and adds up what happened, up to the first seed that fails.
fn run_all(seeds: Range<u64>, plan: Plan) -> Counts {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (next, end) = (Arc::new(AtomicU64::new(seeds.start)), seeds.end);
    let (tell, results) = mpsc::channel();
    for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
        let (next, tell) = (next.clone(), tell.clone());
        thread::spawn(move || {
            loop {
                let seed = next.fetch_add(1, Relaxed);
                // Nobody listens after the first failure.
                if seed >= end || tell.send((seed, run(seed, plan))).is_err() {
                    return;
                }
            }
        });
    }
    drop(tell);
    let (mut sum, mut done, began) = (Counts::new(), 0_u64, Instant::now());
    loop {
        match results.recv_timeout(STUCK) {
            Ok((seed, Ok(report))) => {
                done += 1;
                report.counts.into_iter().for_each(|(what, times)| *sum.entry(what).or_default() += times);
                if done.is_multiple_of(100) {
                    eprintln!("{done} seeds, the last one {seed}, in {:?}", began.elapsed());
                }
            }
            Ok((seed, Err(found))) => panic!(
                "seed {seed}: {found}\nplay it again: SIMULATION_SEED={seed} cargo test -p store --lib simulation::runs::{} -- --nocapture",
                thread::current().name().and_then(|name| name.rsplit(':').next()).unwrap_or_default(),
            ),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("stuck: one of the seeds before {}", next.load(Relaxed)),
        }
    }
    eprintln!("{done} seeds in {:?}: {sum:?}", began.elapsed());
    sum
}

#[test]
fn three_members_are_one_store_whatever_goes_wrong() {
    let counts = run_all(seeds(), THREE);
    if number("SIMULATION_SEED").is_none() {
        for what in Happening::ALL {
            assert!(counts.get(&what).is_some_and(|times| *times > 0), "no {what:?} in all these runs");
        }
    }
}

#[test]
fn so_are_five_members() {
    let Range { start, end } = seeds();
    // Each costs more than twice as much.
    run_all(start..start.saturating_add((end - start).div_ceil(4)), FIVE);
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (first, second, other) = (run(7, THREE), run(7, THREE), run(8, THREE));
    assert_eq!(first, second);
    assert_ne!(first, other);
}

#[test]
fn disks_that_do_not_sync_what_they_say_they_did_are_found_out() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let lying = Plan { disks_lie: true, ..THREE };
    run(1, Plan { steps: 0, ..lying }).expect("as long as nothing breaks nobody can tell");
    let found = (1..=20).find_map(|seed| run(seed, lying).err());
    eprintln!("{}", found.expect("a write that was acknowledged is lost in one of these runs"));
}
