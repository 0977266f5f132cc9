//! What is measured. One more case is one more line in [`ALL`].

mod definitions;
mod lease;
mod list;
mod objects;
mod start;
mod watch;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::{BoxFuture, try_join_all};
use http::Method;
use tests::bench::{Client, Histogram, Measured, Times, Usage, closed_loop, spent, usage};
use tokio::time::sleep;

use crate::{
    client::{Connection, Request, Target},
    report::Row,
};

/// Before memory is looked at: what was freed is given back, what was put off is done.
const SETTLE: Duration = Duration::from_secs(2);
/// Clients that make what a case needs.
const MAKERS: usize = 32;

/// How many and how large things are.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Sizes {
    /// Connections of all clients together at most.
    #[arg(long, default_value_t = 100)]
    pub(crate) connections: usize,
    /// Clients of create, get, update, patch, delete and lease, one measurement each.
    #[arg(long, value_delimiter = ',', default_value = "1,16,64")]
    pub(crate) clients: Vec<usize>,
    /// Objects that are deleted in each measurement of delete.
    #[arg(long, default_value_t = 5000)]
    pub(crate) deletes: usize,
    /// Pods that are listed, one measurement each, in rising order.
    #[arg(long, value_delimiter = ',', default_value = "10000,100000")]
    pub(crate) pods: Vec<usize>,
    /// Lists in each measurement.
    #[arg(long, default_value_t = 10)]
    pub(crate) lists: usize,
    /// Watchers of one object, one measurement each.
    #[arg(long, value_delimiter = ',', default_value = "1000,10000")]
    pub(crate) watchers: Vec<usize>,
    /// CustomResourceDefinitions.
    #[arg(long, default_value_t = 1000)]
    pub(crate) definitions: usize,
    /// Starts, where this program starts this project's server.
    #[arg(long, default_value_t = 5)]
    pub(crate) starts: usize,
}

/// What a case works with.
pub(crate) struct Context {
    pub(crate) target: Target,
    /// The server's process, where it is known.
    pub(crate) process: Option<u32>,
    /// How long the server took to be ready, if it was started by this program.
    pub(crate) started: Option<Duration>,
    /// Whether it is this project's.
    pub(crate) own: bool,
    pub(crate) sizes: Sizes,
    pub(crate) times: Times,
    /// Everything but definitions is made in it.
    pub(crate) namespace: String,
}

type Run = for<'a> fn(&'a Context) -> BoxFuture<'a, anyhow::Result<Vec<Row>>>;

/// One thing that is measured, in all its sizes.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    run: Run,
}

impl Case {
    /// Measures it.
    pub(crate) async fn run(&self, context: &Context) -> anyhow::Result<Vec<Row>> {
        (self.run)(context).await
    }
}

const fn case(name: &'static str, about: &'static str, run: Run) -> Case {
    Case { name, about, run }
}

/// Every case, in the order in which they run: those that leave much behind come last.
pub(crate) const ALL: &[Case] = &[
    case("start", "start of the server to /readyz, where this program starts it", |context| Box::pin(start::start(context))),
    case("idle", "nothing at all; then memory", |context| Box::pin(idle(context))),
    case("create", "create a ConfigMap of 1 KiB", |context| Box::pin(objects::create(context))),
    case("get", "get one", |context| Box::pin(objects::get(context))),
    case("update", "replace one, each client its own", |context| Box::pin(objects::update(context))),
    case("patch", "merge patch of one, each client its own", |context| Box::pin(objects::patch(context))),
    case("delete", "delete one", |context| Box::pin(objects::delete(context))),
    case("lease", "renew a Lease, each client its own", |context| Box::pin(lease::renew(context))),
    case("watch", "one update to many watchers; each delivered event counts", |context| Box::pin(watch::watch(context))),
    case("list", "list pods of 4 KiB: JSON, Table, metadata, selectors that match 1 %", |context| Box::pin(list::list(context))),
    case("definitions", "so many CustomResourceDefinitions; then memory and OpenAPI", |context| Box::pin(definitions::make(context))),
];

async fn idle(context: &Context) -> anyhow::Result<Vec<Row>> {
    let measured = closed_loop(|| context.usage(), context.times, Vec::<Client<anyhow::Error>>::new()).await;
    let cpu: Duration = measured.cpu.iter().sum();
    let note = format!("{:.2} % of a core", cpu.as_secs_f64() / measured.time.as_secs_f64() * 100.0);
    Ok(vec![context.row("idle", Measured { time: measured.time, ..Measured::default() }, note)])
}

impl Context {
    /// What the server's process has used.
    pub(crate) fn usage(&self) -> Vec<Usage> {
        self.process.map(usage).into_iter().collect()
    }

    fn row(&self, case: impl Into<String>, measured: Measured, note: impl Into<String>) -> Row {
        let usage = self.usage().first().copied().unwrap_or_default();
        Row { case: case.into(), measured, usage, note: note.into() }
    }

    /// Bytes in memory, once the server has come to rest.
    async fn resident(&self) -> u64 {
        sleep(SETTLE).await;
        self.usage().first().map(|usage| usage.resident).unwrap_or_default()
    }

    /// A path of the namespace: `things` are `configmaps`, with or without a name behind them.
    fn path(&self, things: &str) -> String {
        format!("/api/v1/namespaces/{}/{things}", self.namespace)
    }

    /// So many clients on as many connections as may be.
    async fn connections(&self, clients: usize) -> anyhow::Result<Vec<Connection>> {
        let connections = self.target.connections(clients.min(self.sizes.connections)).await?;
        Ok(connections.into_iter().cycle().take(clients).collect())
    }

    async fn closed_loop(&self, clients: Vec<Client<anyhow::Error>>) -> Measured {
        closed_loop(|| self.usage(), self.times, clients).await
    }

    /// Sends `count` requests, each once, by so many clients; ends with the first that is refused.
    async fn each(&self, clients: usize, count: usize, request: impl Fn(usize) -> Request + Sync) -> anyhow::Result<Measured> {
        let (connections, next, request) = (self.connections(clients).await?, AtomicUsize::new(0), &request);
        let (before, began) = (self.usage(), Instant::now());
        let work = |connection: Connection| {
            let next = &next;
            async move {
                let mut latencies = Histogram::default();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return Ok::<_, anyhow::Error>(latencies);
                    }
                    let request = request(number);
                    let began = Instant::now();
                    connection.count(request).await?;
                    latencies.record(began.elapsed());
                }
            }
        };
        let done = try_join_all(connections.into_iter().map(work)).await?;
        let (time, cpu) = (began.elapsed(), spent(&before, &self.usage()));
        let mut latencies = Histogram::default();
        done.iter().for_each(|one| latencies.add(one));
        Ok(Measured { time, latencies, errors: 0, cpu })
    }

    /// The same request again and again, one after the other; the length of the last answer.
    async fn again(&self, count: usize, request: impl Fn() -> Request) -> anyhow::Result<(Measured, usize)> {
        let connection = self.target.connect().await?;
        // The first one fills caches, which is another case.
        let mut length = connection.count(request()).await?;
        let (before, began, mut latencies) = (self.usage(), Instant::now(), Histogram::default());
        for _ in 0..count {
            let began = Instant::now();
            length = connection.count(request()).await?;
            latencies.record(began.elapsed());
        }
        Ok((Measured { time: began.elapsed(), latencies, errors: 0, cpu: spent(&before, &self.usage()) }, length))
    }

    /// Makes the namespace, and the account without which there are no pods.
    pub(crate) async fn prepare(&self) -> anyhow::Result<()> {
        let connection = self.target.connect().await?;
        let namespace = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{}"}}}}"#, self.namespace);
        connection.call(Request::new(Method::POST, "/api/v1/namespaces").body(namespace)).await?;
        let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}"#;
        // Where there is a controller manager it may have been there before.
        drop(connection.send(Request::new(Method::POST, self.path("serviceaccounts")).body(account)).await?);
        Ok(())
    }

    /// Has the server remove what was made, as far as it does so by itself.
    pub(crate) async fn clean_up(&self) -> anyhow::Result<()> {
        let connection = self.target.connect().await?;
        let definitions = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions?labelSelector=bench%3D{}", self.namespace);
        connection.count(Request::new(Method::DELETE, definitions)).await?;
        connection.count(Request::new(Method::DELETE, format!("/api/v1/namespaces/{}", self.namespace))).await?;
        Ok(())
    }
}

/// A client that asks what `request` says, the next thing at each call.
fn client(connection: Connection, mut request: impl FnMut() -> Request + Send + 'static) -> Client<anyhow::Error> {
    let connection = Arc::new(connection);
    Box::new(move || {
        let (connection, request) = (connection.clone(), request());
        Box::pin(async move { connection.count(request).await.map(drop) })
    })
}

/// `3 clients`.
fn clients(count: usize) -> String {
    format!("{count} client{}", if count == 1 { "" } else { "s" })
}
