//! exec from end to end: the client's side of each transport and version against the server's.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use futures::StreamExt;
use http::{HeaderMap, Response, StatusCode, header, request::Parts};
use serde_json::{Value, json};
use streaming::{
    Error, Limits, Refusal,
    remote_command::{self, Outcome, Resizes, Session, Streams, TerminalSize, accept, connect, request_headers},
};
use support::{ask, channels, client, send, websocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;

const ALL: Streams = Streams { stdin: true, stdout: true, stderr: true, tty: false };
const TERMINAL: Streams = Streams { stdin: true, stdout: true, stderr: true, tty: true };

/// Answers as a server whose command is `run`.
fn answer<F>(request: &mut Parts, streams: Streams, run: impl FnOnce(Session) -> F + Send + 'static) -> Response<String>
where
    F: Future<Output = Result<(), Error>> + Send,
{
    match accept(request, streams, Limits::default()) {
        Ok((response, opening)) => {
            tokio::spawn(async move { run(opening.await.unwrap()).await });
            response.map(|()| String::new())
        }
        Err(refused) => *refused,
    }
}

/// `cat; echo done >&2; exit 3`
async fn cat(session: Session) -> Result<(), Error> {
    let Session { stdin, stdout, stderr, client, .. } = session;
    let (mut stdin, mut stdout, mut stderr) = (stdin.unwrap(), stdout.unwrap(), stderr.unwrap());
    tokio::io::copy(&mut stdin, &mut stdout).await?;
    stderr.write_all(b"done\n").await?;
    client.finish(Outcome::exited(3, "exit status 3")).await
}

/// Shows the first size of the terminal.
async fn stty(session: Session) -> Result<(), Error> {
    let Session { stdout, stderr, resize, client, .. } = session;
    assert!(stderr.is_none());
    let TerminalSize { width, height } = Resizes::new(resize.unwrap()).next().await.unwrap();
    stdout.unwrap().write_all(format!("{height} {width}\n").as_bytes()).await?;
    client.finish(Outcome::Success).await
}

#[tokio::test]
async fn a_command_runs_over_spdy() {
    let (response, io) = ask(request_headers(), |request| answer(request, ALL, cat)).await;
    assert_eq!(response.headers()["x-stream-protocol-version"], "v4.channel.k8s.io");
    assert_eq!(response.headers()[header::UPGRADE], "SPDY/3.1");
    let remote = connect(io.unwrap(), ALL).await.unwrap();
    let input: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[0]).collect();
    let (mut stdin, sent) = (remote.stdin.unwrap(), input.clone());
    let feeding = tokio::spawn(async move {
        stdin.write_all(&sent).await.unwrap();
        stdin.shutdown().await.unwrap();
    });
    let (mut output, mut errors) = (Vec::new(), String::new());
    remote.stdout.unwrap().read_to_end(&mut output).await.unwrap();
    remote.stderr.unwrap().read_to_string(&mut errors).await.unwrap();
    assert!(output == input);
    assert_eq!(errors, "done\n");
    assert_eq!(remote.end.outcome().await, Outcome::exited(3, "command terminated with exit code 3"));
    feeding.await.unwrap();
}

#[tokio::test]
async fn a_terminals_size_arrives_over_spdy() {
    let (_, io) = ask(request_headers(), |request| answer(request, TERMINAL, stty)).await;
    let remote = connect(io.unwrap(), TERMINAL).await.unwrap();
    assert!(remote.stderr.is_none());
    remote.resize.unwrap().write_all(b"{\"Width\":80,\"Height\":24}\n").await.unwrap();
    let mut output = String::new();
    remote.stdout.unwrap().read_to_string(&mut output).await.unwrap();
    assert_eq!((output.as_str(), remote.end.outcome().await), ("24 80\n", Outcome::Success));
}

#[tokio::test]
async fn a_websocket_of_version_5_closes_stdin() {
    let (response, io) = ask(websocket(&["v5.channel.k8s.io", "v4.channel.k8s.io"]), |request| answer(request, ALL, cat)).await;
    assert_eq!(response.headers()[header::SEC_WEBSOCKET_PROTOCOL], "v5.channel.k8s.io");
    assert_eq!(response.headers()[header::SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    let mut socket = client(io.unwrap()).await;
    send(&mut socket, b"\0over and").await;
    send(&mut socket, b"\0 out").await;
    send(&mut socket, &[255, 0]).await;
    let said = channels(&mut socket).await;
    let status: Value = serde_json::from_slice(&said[2].1).unwrap();
    assert_eq!((&said[0], &said[1]), (&(1, b"over and out".to_vec()), &(2, b"done\n".to_vec())));
    assert_eq!((said[2].0, &status["details"]["causes"][0]), (3, &json!({"reason": "ExitCode", "message": "3"})));
}

/// Reads one line and says it again.
async fn echo_line(session: Session) -> Result<(), Error> {
    let Session { stdin, stdout, client, .. } = session;
    let mut line = [0; 3];
    stdin.unwrap().read_exact(&mut line).await?;
    stdout.unwrap().write_all(&line).await?;
    client.finish(Outcome::exited(1, "exit status 1")).await
}

#[tokio::test]
async fn older_websockets_hear_the_outcome_in_their_own_way() {
    let plain = "command terminated with non-zero exit code: exit status 1";
    for (protocols, is_status) in [(&["v4.channel.k8s.io"][..], true), (&["channel.k8s.io"], false), (&[], false)] {
        let (response, io) = ask(websocket(protocols), |request| answer(request, ALL, echo_line)).await;
        let chosen = response.headers().get(header::SEC_WEBSOCKET_PROTOCOL);
        assert_eq!(chosen.map(|chosen| chosen.to_str().unwrap()), protocols.first().copied());
        let mut socket = client(io.unwrap()).await;
        send(&mut socket, b"\0hi\n").await;
        let said = channels(&mut socket).await;
        assert_eq!(said[0], (1, b"hi\n".to_vec()));
        let outcome = String::from_utf8(said[1].1.clone()).unwrap();
        assert!(if is_status { outcome.contains("NonZeroExitCode") } else { outcome == plain }, "{outcome}");
    }
}

#[tokio::test]
async fn base64_websockets_are_text() {
    let (_, io) = ask(websocket(&["base64.channel.k8s.io"]), |request| answer(request, ALL, echo_line)).await;
    let mut socket = client(io.unwrap()).await;
    futures::SinkExt::send(&mut socket, Message::text("0aGkK")).await.unwrap();
    let first = socket.next().await.unwrap().unwrap();
    assert_eq!(first, Message::text("1"));
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("1aGkK"));
}

#[tokio::test]
async fn a_websocket_answers_pings_while_the_command_runs() {
    let (_, io) = ask(websocket(&["v5.channel.k8s.io"]), |request| answer(request, ALL, echo_line)).await;
    let mut socket = client(io.unwrap()).await;
    futures::SinkExt::send(&mut socket, Message::Ping("still there?".into())).await.unwrap();
    while let Some(message) = socket.next().await {
        if message.unwrap() == Message::Pong("still there?".into()) {
            return;
        }
    }
    panic!("no pong");
}

#[tokio::test]
async fn a_command_learns_that_its_client_is_gone() {
    for headers in [request_headers(), websocket(&["v5.channel.k8s.io"])] {
        let (tell, gone) = tokio::sync::oneshot::channel();
        let tell = std::sync::Arc::new(std::sync::Mutex::new(Some(tell)));
        let spdy = !headers.contains_key(header::SEC_WEBSOCKET_KEY);
        let (_, io) = ask(headers, move |request| {
            let tell = tell.lock().unwrap().take().unwrap();
            answer(request, ALL, async move |session: Session| {
                session.client.gone().await;
                tell.send(()).unwrap();
                Ok(())
            })
        })
        .await;
        if spdy {
            drop(connect(io.unwrap(), ALL).await.unwrap())
        } else {
            drop(client(io.unwrap()).await)
        }
        gone.await.unwrap();
    }
}

#[tokio::test]
async fn a_server_cut_off_is_no_success() {
    let (_, io) = ask(request_headers(), |request| {
        answer(request, ALL, async |session: Session| {
            // As a process that is killed: nothing is said, the connection just ends.
            std::mem::forget(session);
            Ok(())
        })
    })
    .await;
    let (near, far) = tokio::io::duplex(1024);
    let proxy = tokio::spawn(async move {
        let (mut io, mut far) = (io.unwrap(), far);
        tokio::io::copy_bidirectional(&mut io, &mut far).await
    });
    let remote = connect(near, ALL).await.unwrap();
    proxy.abort();
    let outcome = remote.end.outcome().await;
    assert_eq!(outcome, Outcome::Failed("error reading from error stream: unexpected end of file".into()));
}

fn refusal(headers: &[(&'static str, &'static str)]) -> Refusal {
    let (mut parts, ()) = http::Request::new(()).into_parts();
    parts.headers = headers
        .iter()
        .map(|(name, value)| (http::HeaderName::from_static(name), http::HeaderValue::from_static(value)))
        .collect::<HeaderMap>();
    let accepted = remote_command::accept(&mut parts, ALL, Limits::default());
    accepted.err().unwrap()
}

#[test]
fn refusals_have_upstreams_words() {
    let none = refusal(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")]);
    let text = "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with 2 headers\n";
    assert_eq!((none.status(), none.body().as_str()), (StatusCode::BAD_REQUEST, text));
    let other = refusal(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", "v9, v8")]);
    let text = "unable to upgrade: unable to negotiate protocol: client supports [v9 v8], server accepts \
                [v4.channel.k8s.io v3.channel.k8s.io v2.channel.k8s.io channel.k8s.io]\n";
    assert_eq!((other.status(), other.body().as_str()), (StatusCode::FORBIDDEN, text));
    assert_eq!(other.headers().get_all("x-accepted-stream-protocol-versions").iter().count(), 4);
    let plain = refusal(&[("x-stream-protocol-version", "v4.channel.k8s.io")]);
    assert_eq!(plain.status(), StatusCode::BAD_REQUEST);
    assert!(plain.body().starts_with("unable to upgrade: missing upgrade headers in request"));
    let unknown = refusal(&[
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "x"),
        ("sec-websocket-protocol", "chat"),
    ]);
    assert_eq!(unknown.status(), StatusCode::FORBIDDEN);
}
