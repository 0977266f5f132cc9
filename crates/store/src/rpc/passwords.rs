//! Hashing and checking passwords: off the async threads, and only so many at a time.

use std::sync::Arc;

use bytes::Bytes;
use rand::Rng;
use tokio::sync::Semaphore;
use tonic::Status;

use super::{Context, blocking, disk_status, identity::since_1970};
use crate::{
    auth::{options::TokenKind, passwords, records},
    command::{Auth, Authenticate, Change, Command, Response},
    refusal::Refusal,
    state::State,
};

/// Passwords worked on at once.
const AT_ONCE: usize = 2;
/// Passwords worked on or waiting; more are refused as too many requests.
const WAITING: usize = 64;
/// How often a password is looked at again because users or roles changed meanwhile.
const ATTEMPTS: usize = 10;
/// Letters of a token's random part; as in etcd.
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// Their number.
const WORD: usize = 16;

/// The places of those who wait.
#[derive(Clone)]
pub(super) struct Places {
    waiting: Arc<Semaphore>,
    working: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Places { waiting: Arc::new(Semaphore::new(WAITING)), working: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Places {
    async fn work<T: Send + 'static>(&self, state: &State, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
        let place = self.waiting.clone().try_acquire_owned().map_err(|_| Refusal::TooManyRequests)?;
        let turn = self.working.clone().acquire_owned().await.map_err(|_| Refusal::Stopped)?;
        // Kept until the work is done, also when nobody waits for it any more.
        blocking(state, move || {
            let _both = (place, turn);
            work()
        })
        .await
    }
}

/// A password's hash.
pub(super) async fn hash(context: &Context, password: String) -> Result<Bytes, Status> {
    let (cost, salt) = (context.auth.cost, rand::random());
    let hashed = context.places.work(context.node.state(), move || passwords::hash(&password, cost, salt)).await?;
    hashed.map(Bytes::from).map_err(|error| Status::unknown(error.to_string()))
}

/// A token for a user who knows their password, and the revision at which it was given.
pub(super) async fn authenticate(context: &Context, name: String, password: String) -> Result<(i64, String), Status> {
    context.barrier(false).await?;
    let password: Arc<str> = password.into();
    for _ in 0..ATTEMPTS {
        let revision = check(context, &name, password.clone()).await?;
        if let Some(given) = give_token(context, &name, revision).await? {
            return Ok(given);
        }
    }
    Err(Refusal::Timeout.into())
}

/// Checks a password; the revision of users and roles it is good at.
async fn check(context: &Context, name: &str, password: Arc<str>) -> Result<u64, Status> {
    let read = context.node.state().read(|read, _| {
        let (enabled, revision) = (records::enabled(read)?, records::revision(read)?);
        Ok((enabled, revision, records::user(read, name)?))
    });
    let (enabled, revision, user) = read.and_then(|read| read).map_err(disk_status)?;
    if !enabled {
        return Err(Refusal::AuthNotEnabled.into());
    }
    let user = user.ok_or(Refusal::AuthFailed)?;
    if user.has_no_password() {
        return Err(Refusal::NoPasswordUser.into());
    }
    let matches = context.places.work(context.node.state(), move || passwords::matches(&password, &user.password)).await?;
    if !matches {
        tracing::info!(user = name, "wrong password");
        return Err(Refusal::AuthFailed.into());
    }
    Ok(revision)
}

/// None when users or roles have changed since: it may have been the password.
async fn give_token(context: &Context, name: &str, revision: u64) -> Result<Option<(i64, String)>, Status> {
    if let TokenKind::Signed(jwt) = &context.auth.tokens {
        let token = jwt.sign(name, revision, since_1970()).ok_or(Refusal::VerifyOnly)?;
        let token = token.map_err(|error| Status::unknown(format!("auth: {error}")))?;
        return Ok(Some((context.node.state().revision(), token)));
    }
    let letter = |_| char::from(LETTERS[rand::rng().random_range(0..LETTERS.len())]);
    let proof = Authenticate { user: name.to_owned(), token: (0..WORD).map(letter).collect(), revision };
    match context.propose(Command::Auth(Auth { change: Some(Change::Authenticate(proof)) })).await {
        Ok((revision, Response::Token(token))) => Ok(Some((revision, token.token))),
        Ok(_) => Err(Refusal::Unknown.into()),
        Err(Refusal::AuthOldRevision) => Ok(None),
        Err(refusal) => Err(refusal.into()),
    }
}
