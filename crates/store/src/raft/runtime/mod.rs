//! What openraft runs on: tokio, with dice that a simulation can load, and without chance elsewhere.

// The types show in implementations of foreign traits (`types`); the module itself is private.
#![allow(unreachable_pub)]

mod watch;

use std::{convert::Infallible, future::Future, io, time::Duration};

use openraft::{AsyncRuntime, OptionalSend, impls::TokioRuntime};
use rand_core::TryRng;

/// tokio, but for its dice.
#[derive(Debug)]
pub struct Runtime(TokioRuntime);

/// Where openraft's chance comes from: how long it waits before it stands for election.
#[derive(Debug)]
pub struct Dice;

impl Dice {
    fn throw() -> u64 {
        #[cfg(test)]
        if let Some(number) = loaded::throw() {
            return number;
        }
        rand::random()
    }
}

impl TryRng for Dice {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(Self::throw() as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(Self::throw())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&Self::throw().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

impl AsyncRuntime for Runtime {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = Dice;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = watch::Watch;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn thread_rng() -> Dice {
        Dice
    }

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        TokioRuntime::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Self::Instant, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(error)
    }

    fn new(threads: usize) -> Self {
        Self(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }

    fn spawn_blocking<F, T>(work: F) -> impl Future<Output = Result<T, io::Error>> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        TokioRuntime::spawn_blocking(work)
    }
}

/// Dice that fall as a seed says, for all that runs on this thread.
#[cfg(test)]
pub(crate) mod loaded {
    use std::cell::RefCell;

    use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

    thread_local! {
        static DICE: RefCell<Option<StdRng>> = const { RefCell::new(None) };
    }

    /// Loads this thread's dice.
    pub(crate) fn load(seed: u64) {
        DICE.with_borrow_mut(|dice| *dice = Some(StdRng::seed_from_u64(seed)));
    }

    pub(super) fn throw() -> Option<u64> {
        DICE.with_borrow_mut(|dice| dice.as_mut().map(|dice| dice.random()))
    }
}
