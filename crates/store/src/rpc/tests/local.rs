//! A member alone, in memory: proposing is applying.

use crate::{
    auth::{Authenticator, options::TokenKind, tokens},
    command::{Command, Outcome},
    disk::{Batch, memory::Memory},
    lease::renew,
    node::{Identity, LeaseTime, Node},
    refusal::Refusal,
    rpc::{Context, Limits},
    state::State,
};
use etcd::{
    client::{Client, Config},
    encoded::watch_server::WatchServer,
    etcdserverpb::{auth_server::AuthServer, kv_server::KvServer, lease_server::LeaseServer},
    v3electionpb::election_server::ElectionServer,
    v3lockpb::lock_server::LockServer,
};
use futures::StreamExt;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Server;

pub(super) struct Local {
    state: Arc<State>,
}

#[async_trait::async_trait]
impl Node for Local {
    fn identity(&self) -> Identity {
        Identity { cluster: 7, member: 1 }
    }

    fn term(&self) -> u64 {
        2
    }

    fn state(&self) -> &Arc<State> {
        &self.state
    }

    fn has_leader(&self) -> bool {
        true
    }

    async fn propose(&self, command: Command) -> Result<Outcome, Refusal> {
        let mut outcomes = self.state.apply(&[command], Batch::default()).map_err(|_| Refusal::Stopped)?;
        outcomes.pop().ok_or(Refusal::Stopped)
    }

    async fn read_barrier(&self) -> Result<(), Refusal> {
        Ok(())
    }

    async fn lease_renew(&self, id: i64) -> Result<i64, Refusal> {
        renew::renew(self, id).await
    }

    async fn lease_time(&self, id: i64) -> Result<LeaseTime, Refusal> {
        renew::time(self, id).await
    }
}

/// A served member; it goes when dropped.
pub(super) struct Served {
    pub(super) client: Client,
    pub(super) node: Arc<Local>,
    pub(super) url: String,
    /// Milliseconds on the clock of its lessor.
    pub(super) clock: Arc<AtomicU64>,
    _stop: DropGuard,
}

/// Knows users by simple tokens.
pub(super) fn authenticator() -> Arc<Authenticator> {
    let tokens = TokenKind::Simple;
    Arc::new(Authenticator { tokens, token_ttl: tokens::DEFAULT_TTL, cost: 4, certificates: false })
}

/// Serves a fresh member on a free port.
pub(super) async fn serve(limits: Limits) -> Served {
    let clock = Arc::new(AtomicU64::new(0));
    let now = {
        let clock = clock.clone();
        Arc::new(move || Duration::from_millis(clock.load(Relaxed)))
    };
    let state = State::open(Arc::new(Memory::new()), now).unwrap();
    state.promote(2, Duration::ZERO);
    let node = Arc::new(Local { state });
    let context = Context::new(node.clone(), limits, authenticator());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let server = Server::builder()
        .add_service(KvServer::new(context.clone()).max_decoding_message_size(4 << 20))
        .add_service(LeaseServer::new(context.clone()))
        .add_service(AuthServer::new(context.clone()))
        .add_service(LockServer::new(context.clone()))
        .add_service(ElectionServer::new(context.clone()))
        .add_service(WatchServer::new(context));
    let stopped = stop.clone().cancelled_owned();
    let incoming = TcpListenerStream::new(listener).map(|stream| stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream)));
    tokio::spawn(server.serve_with_incoming_shutdown(incoming, stopped));
    let client = Client::connect(Config::new([url.clone()])).unwrap();
    Served { client, node, url, clock, _stop: stop.drop_guard() }
}

impl Served {
    /// Empties the ring, as a restart would.
    pub(super) fn forget_recent(&self) {
        self.node.state.replace(self.node.state.database()).unwrap();
    }
}
