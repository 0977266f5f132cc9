//! exec and attach over a WebSocket, as SPDY streams of a kubelet.
//!
//! As upstream, the WebSocket opens before the kubelet is asked; what fails after that reaches the client as the outcome.

use std::future::pending;

use axum::body::{Body, to_bytes};
use http::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use streaming::{
    Error, Limits,
    remote_command::{self, Outcome, Remote, Session, Streams as Wanted},
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy};

use super::{Target, flag};
use crate::registry::{Call, Streams};

/// A refusal is not read further.
const MOST: usize = 64 * 1024;

/// Takes the WebSocket and carries what goes over it to the kubelet and back.
pub(super) fn open(call: &mut Call, target: Target, streams: &Streams) -> Response<Body> {
    let wanted = Wanted { stdin: flag(call, "stdin"), stdout: flag(call, "stdout"), stderr: flag(call, "stderr"), tty: flag(call, "tty") };
    let (response, opening) = match remote_command::accept(&mut call.parts, wanted, Limits::default()) {
        Ok(accepted) => accepted,
        Err(refused) => {
            streams.count_translation(refused.status().as_u16());
            return refused.map(Body::from);
        }
    };
    let mut response = response.map(|()| Body::empty());
    let running = streams.clone();
    streams.run(&mut response, async move {
        if let Err(error) = run(opening, &target, wanted, &running).await {
            tracing::debug!(%error, "a client left its command");
        }
    });
    response
}

async fn run(
    opening: impl Future<Output = Result<Session, Error>>,
    target: &Target,
    wanted: Wanted,
    streams: &Streams,
) -> Result<(), Error> {
    let Session { stdin, stdout, stderr, resize, client } = opening.await?;
    let carried = async {
        let Remote { stdin: to_stdin, stdout: from_stdout, stderr: from_stderr, resize: to_resize, end } = match dial(target, wanted).await
        {
            Ok(remote) => remote,
            Err(outcome) => return outcome,
        };
        let outputs = async {
            tokio::join!(carry(from_stdout, stdout), carry(from_stderr, stderr));
            end.outcome().await
        };
        let inputs = async {
            tokio::join!(carry(stdin, to_stdin), carry(resize, to_resize));
            pending().await
        };
        tokio::select! { outcome = outputs => outcome, never = inputs => never }
    };
    let outcome = tokio::select! {
        outcome = carried => outcome,
        () = client.gone() => return Err(Error::Closed),
        () = streams.shutdown().cancelled() => Outcome::Failed("the server is shutting down".into()),
    };
    streams.count_translation(code(&outcome));
    client.finish(outcome).await
}

/// Copies to the end of `from` and says so to `to`. A copy that breaks off drops `to`, which the far end reads as the end as
/// well: a command whose client was cut off hears the end of its input, as upstream's does.
async fn carry(from: Option<impl AsyncRead + Unpin>, to: Option<impl AsyncWrite + Unpin>) {
    if let (Some(mut from), Some(mut to)) = (from, to)
        && copy(&mut from, &mut to).await.is_ok()
    {
        let _ = to.shutdown().await;
    }
}

/// The command's streams at the kubelet. Errors: what the client is told, in upstream's words.
async fn dial(target: &Target, wanted: Wanted) -> Result<Remote, Outcome> {
    let failed = |cause: String| Outcome::Failed(format!("error sending request: Post {:?}: {cause}", target.url()));
    let mut request = Request::post(&target.path).body(Body::empty()).map_err(|error| failed(error.to_string()))?;
    *request.headers_mut() = remote_command::request_headers();
    let mut response = target.send(request).await.map_err(failed)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(refusal(response).await);
    }
    let io = hyper::upgrade::on(&mut response).await.map_err(|error| failed(error.to_string()))?;
    remote_command::connect(TokioIo::new(io), wanted).await.map_err(|error| Outcome::Failed(error.to_string()))
}

/// What a kubelet said instead of switching protocols.
async fn refusal(response: Response<Body>) -> Outcome {
    let said = match to_bytes(response.into_body(), MOST).await {
        Ok(bytes) => bytes,
        Err(_) => return Outcome::Failed("unable to upgrade connection: unable to read error from server response".into()),
    };
    match serde_json::from_slice::<Value>(&said) {
        Ok(status) if status["kind"] == "Status" => Outcome::Status(status),
        _ => Outcome::Failed(format!("unable to upgrade connection: {}", String::from_utf8_lossy(&said).trim())),
    }
}

/// How the metric counts it: a command's own exit code is no failure of the translation.
fn code(outcome: &Outcome) -> u16 {
    match outcome {
        Outcome::Success | Outcome::Exited { .. } => 200,
        Outcome::Failed(_) => 500,
        Outcome::Status(status) => status["code"].as_u64().and_then(|code| code.try_into().ok()).unwrap_or(500),
    }
}
