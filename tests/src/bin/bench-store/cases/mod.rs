//! What is measured. One more case is one more line in [`ALL`].

mod fail_over;
mod lease;
mod list;
mod mixed;
mod put;
mod range;
mod start;
mod txn;
mod watch;

use std::time::Duration;

use futures::future::BoxFuture;

use crate::{
    load::{Client, Measured, Times, closed_loop, connections},
    members::Members,
};

/// How large things are.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Sizes {
    /// Connections of all clients together at most; etcd's own benchmark shares a hundred.
    #[arg(long, default_value_t = 100)]
    pub(crate) connections: usize,
    /// Keys that puts and ranges choose from, and that `fill` makes.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) keys: usize,
    /// Keys there are at the starts of `start-full` and `start-killed`.
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) start_keys: usize,
    /// How often each of them was written.
    #[arg(long, default_value_t = 2)]
    pub(crate) start_versions: usize,
    /// Starts, and kills of a leader, in each run.
    #[arg(long, default_value_t = 3)]
    pub(crate) repeats: usize,
}

/// What a case works with.
pub(crate) struct Context {
    pub(crate) members: Members,
    pub(crate) sizes: Sizes,
    pub(crate) times: Times,
    /// What a case measures besides, under names of their own.
    pub(crate) besides: Vec<(&'static str, Measured)>,
}

type Run = for<'a> fn(&'a mut Context) -> BoxFuture<'a, anyhow::Result<Measured>>;

/// One thing that is measured, each time on a fresh cluster.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Fewer members than that cannot do it.
    pub(crate) members: usize,
    pub(crate) run: Run,
}

const fn case(name: &'static str, about: &'static str, members: usize, run: Run) -> Case {
    Case { name, about, members, run }
}

/// Every case, in the order in which they run.
pub(crate) const ALL: &[Case] = &[
    case("idle", "nothing at all", 1, |context| Box::pin(idle(context))),
    case("put-1", "put, 8-byte keys, 256-byte values, 1 client", 1, |context| Box::pin(put::put(context, 1))),
    case("put-100", "the same, 100 clients", 1, |context| Box::pin(put::put(context, 100))),
    case("put-1000", "the same, 1,000 clients", 1, |context| Box::pin(put::put(context, 1000))),
    case("range-1", "linearizable range of one key, 1 client", 1, |context| Box::pin(range::range(context, 1, false))),
    case("range-100", "the same, 100 clients", 1, |context| Box::pin(range::range(context, 100, false))),
    case("range-1000", "the same, 1,000 clients", 1, |context| Box::pin(range::range(context, 1000, false))),
    case("serializable-100", "serializable range of one key, 100 clients", 1, |context| Box::pin(range::range(context, 100, true))),
    case("txn-100", "compare mod revision, put 1 KiB, else range, 100 clients", 1, |context| Box::pin(txn::txn(context, 100))),
    case("list-4", "linearizable range of 10,000 keys × 1 KiB, 4 clients", 1, |context| Box::pin(list::list(context, 4))),
    case("watch-one", "1,000 watchers on one key; each delivered event counts", 1, |context| Box::pin(watch::one(context, 1000))),
    case("watch-many", "10,000 watchers on a key each, 100 writers", 1, |context| Box::pin(watch::many(context, 10_000, 100))),
    case("mixed-100", "60 % range, 10 % range of 50 keys, 30 % txn, 100 clients", 1, |context| Box::pin(mixed::mixed(context, 100))),
    case("keep-alive-100", "lease keep-alives, 100 streams", 1, |context| Box::pin(lease::keep_alive(context, 100))),
    case("fill", "put so many keys once, 100 clients; then memory and disk", 1, |context| Box::pin(put::fill(context, 100))),
    case("start-empty", "start on an empty directory to first acknowledged put", 1, |context| Box::pin(start::empty(context))),
    case("start-full", "the same with many keys and versions, after SIGTERM; after SIGKILL it is start-killed", 1, |context| {
        Box::pin(start::full(context))
    }),
    case("fail-over", "SIGKILL of the leader to next acknowledged put", 3, |context| Box::pin(fail_over::fail_over(context))),
];

async fn idle(context: &mut Context) -> anyhow::Result<Measured> {
    Ok(closed_loop(&context.members, context.times, Vec::new()).await)
}

impl Context {
    /// One client a connection, or as many as it takes; the first one talks to the leader.
    async fn clients(&self, count: usize, make: impl Fn(usize, tonic::transport::Channel) -> Client) -> anyhow::Result<Vec<Client>> {
        let channels = connections(&self.members.endpoints().await?, count.min(self.sizes.connections)).await?;
        Ok(channels.into_iter().cycle().take(count).enumerate().map(|(index, channel)| make(index, channel)).collect())
    }

    async fn closed_loop(&self, clients: Vec<Client>) -> Measured {
        closed_loop(&self.members, self.times, clients).await
    }
}

/// The sum of what each of several did.
fn measured(latencies: &[Duration]) -> Measured {
    let latencies_of = crate::load::Histogram::of(latencies);
    Measured { time: latencies.iter().sum(), latencies: latencies_of, ..Default::default() }
}
