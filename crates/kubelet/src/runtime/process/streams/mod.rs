//! The runtime's streaming server: CRI's Exec, Attach and PortForward answer with a URL of it that works once.

mod attach;
mod exec;
mod forward;
mod terminal;
mod tokens;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Weak,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use parking_lot::Mutex;
use streaming::{Limits, remote_command::Streams};
use tokio::{net::TcpListener, sync::OnceCell};

use self::tokens::{Full, Tokens};
use super::Process;
use crate::cri::{CriResult, v1};

/// A stream that waits for its client.
pub(super) enum Prepared {
    Exec(v1::ExecRequest),
    Attach(v1::AttachRequest),
    PortForward(v1::PortForwardRequest),
}

/// The server, started with the first stream.
pub(super) struct Door {
    runtime: Weak<Process>,
    limits: Limits,
    tokens: Mutex<Tokens<Prepared>>,
    address: OnceCell<SocketAddr>,
}

impl Door {
    pub(super) fn new(runtime: Weak<Process>, idle: Option<Duration>) -> Self {
        let limits = Limits { idle, ..Limits::default() };
        Self { runtime, limits, tokens: Mutex::new(Tokens::new()), address: OnceCell::new() }
    }

    /// Where the stream is served, once and for a minute.
    pub(super) async fn url(&self, prepared: Prepared) -> CriResult<String> {
        let address = *self.address.get_or_try_init(|| serve(self.runtime.clone())).await?;
        let path = match &prepared {
            Prepared::Exec(_) => "exec",
            Prepared::Attach(_) => "attach",
            Prepared::PortForward(_) => "portforward",
        };
        let token = format!("{:032x}", rand::random::<u128>());
        let inserted = self.tokens.lock().insert(token.clone(), prepared, Instant::now());
        inserted.map_err(|Full| tonic::Status::resource_exhausted("maximum number of in-flight requests exceeded"))?;
        Ok(format!("http://{address}/{path}/{token}"))
    }
}

/// What CRI asks of a request for streams.
pub(super) fn check(id: &str, tty: bool, wanted: [bool; 3]) -> CriResult<()> {
    let [.., stderr] = wanted;
    match () {
        () if id.is_empty() => Err(tonic::Status::invalid_argument("missing required container_id")),
        () if tty && stderr => Err(tonic::Status::invalid_argument("tty and stderr cannot both be true")),
        () if wanted == [false; 3] => Err(tonic::Status::invalid_argument("one of stdin, stdout, or stderr must be set")),
        () => Ok(()),
    }
}

async fn serve(runtime: Weak<Process>) -> CriResult<SocketAddr> {
    let failed = |error: std::io::Error| tonic::Status::internal(format!("start the streaming server: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let router = Router::new()
        .route("/exec/{token}", get(open).post(open))
        .route("/attach/{token}", get(open).post(open))
        .route("/portforward/{token}", get(open).post(open))
        .with_state(runtime);
    // It lives as long as the process: nothing else ends a runtime.
    tokio::spawn(component::serve::serve(listener, None, router, component::Shutdown::new(), Duration::ZERO));
    Ok(address)
}

/// Opens what waits under the token. That it is asked for under its own path follows from the token being secret.
async fn open(State(runtime): State<Weak<Process>>, Path(token): Path<String>, request: Request) -> Response {
    let runtime = runtime.upgrade();
    let prepared = runtime.as_ref().and_then(|runtime| runtime.door.tokens.lock().take(&token, Instant::now()));
    let (Some(runtime), Some(prepared)) = (runtime, prepared) else {
        return (StatusCode::NOT_FOUND, "404 page not found\n").into_response();
    };
    let limits = runtime.door.limits;
    let (mut parts, _) = request.into_parts();
    let answered = match prepared {
        Prepared::Exec(exec) => {
            let wanted = Streams { stdin: exec.stdin, stdout: exec.stdout, stderr: exec.stderr, tty: exec.tty };
            streaming::remote_command::accept(&mut parts, wanted, limits).map(|(response, opening)| {
                tokio::spawn(exec::run(runtime, exec, opening));
                response
            })
        }
        Prepared::Attach(attach) => {
            let wanted = Streams { stdin: attach.stdin, stdout: attach.stdout, stderr: attach.stderr, tty: attach.tty };
            streaming::remote_command::accept(&mut parts, wanted, limits).map(|(response, opening)| {
                tokio::spawn(attach::run(runtime, attach, opening));
                response
            })
        }
        Prepared::PortForward(forward) => {
            let ports: Vec<u16> = forward.port.iter().filter_map(|port| u16::try_from(*port).ok()).collect();
            streaming::port_forward::accept(&mut parts, &ports, limits).map(|(response, opening)| {
                tokio::spawn(forward::run(runtime, forward, opening));
                response
            })
        }
    };
    match answered {
        Ok(response) => response.map(|()| Body::empty()),
        Err(refused) => refused.map(Body::from),
    }
}

#[cfg(test)]
mod tests;
