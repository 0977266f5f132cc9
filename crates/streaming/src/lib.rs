//! The streams of exec, attach and port-forward, as kubectl, the API server, kubelets and container runtimes speak them:
//! SPDY/3.1 and WebSocket. Bytes and protocol names only; what runs behind them is the caller's affair.
//!
//! Whoever runs a command answers an upgrade request with [`remote_command::accept`]. The response goes back at once, the
//! session opens when the client has taken it; which transport and protocol version it is makes no difference:
//!
//! ```ignore
//! async fn exec(request: axum::extract::Request) -> axum::response::Response {
//!     let (mut parts, _) = request.into_parts();
//!     let wanted = Streams { stdin: true, stdout: true, stderr: true, tty: false };
//!     let (response, opening) = match remote_command::accept(&mut parts, wanted, Limits::default()) {
//!         Ok(accepted) => accepted,
//!         Err(refused) => return refused.map(Body::from), // 400 or 403 in upstream's words
//!     };
//!     tokio::spawn(async move {
//!         let Session { stdin, stdout, stderr, resize, client } = opening.await?;
//!         // stdin, resize: AsyncRead, at its end when the client closes its half; stdout, stderr: AsyncWrite.
//!         // `resize` can be read as `Resizes::new(resize)`, whose `next()` yields terminal sizes.
//!         let code = tokio::select! {
//!             code = run(stdin, stdout, stderr) => code,
//!             () = client.gone() => return Ok(()), // kill the command
//!         };
//!         // Drop or shut down the writers first: what they were given is on its way before the outcome is.
//!         client.finish(Outcome::exited(code, "exit status 3")).await // or Outcome::Success, Outcome::Failed(text)
//!     });
//!     response.map(|()| Body::empty())
//! }
//! ```
//!
//! Port-forward is a sequence of connections:
//!
//! ```ignore
//! let (response, opening) = port_forward::accept(&mut parts, Limits::default())?;
//! tokio::spawn(async move {
//!     let mut forwards = opening.await?;
//!     while let Some(mut forward) = forwards.next().await {
//!         tokio::spawn(async move {
//!             // forward.data: AsyncRead + AsyncWrite
//!             let copied = match TcpStream::connect((ip, forward.port)).await {
//!                 Ok(mut there) => tokio::io::copy_bidirectional(&mut forward.data, &mut there).await.map(drop),
//!                 Err(error) => Err(error),
//!             };
//!             forward.finish(copied.map_err(|error| error.to_string())).await
//!         });
//!     }
//! });
//! ```
//!
//! Whoever asks for a command (the API server of a kubelet) sends [`remote_command::request_headers`] and, after the 101,
//! opens the streams with [`remote_command::connect`].
