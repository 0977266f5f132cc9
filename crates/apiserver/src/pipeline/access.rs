//! Logs, counts and times every request.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::metrics::{InFlight, Metrics};
use crate::{registry::Running, request::RequestInfo, server::Server};

pub(super) async fn layer(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let info = request.extensions().get::<RequestInfo>().cloned().unwrap_or_default();
    let dry_run = request.uri().query().is_some_and(|q| q.contains("dryRun=All"));
    let line = format!("{} {}", request.method(), request.uri());
    let agent = request.headers().get(http::header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    let (started, guard) = (Instant::now(), server.metrics.begin(&info, dry_run));
    let mut response = next.run(request).await;
    let code = response.status().as_u16();
    if info.is_long_running() && response.status().is_success() {
        // The stream is the request: it counts until its last byte.
        let end = End { metrics: server.metrics.clone(), guard, code, started, line, agent };
        return response.map(|body| Body::new(Counted { body, _end: end }));
    }
    let end = End { metrics: server.metrics.clone(), guard, code, started, line, agent };
    if let Some(Running(running)) = response.extensions_mut().remove() {
        // Protocols were switched: what goes on behind the answer is the request.
        tokio::spawn(async move {
            running.cancelled().await;
            drop(end);
        });
    }
    response
}

/// Counts and logs when it goes.
struct End {
    metrics: Metrics,
    guard: InFlight,
    code: u16,
    started: Instant,
    line: String,
    agent: String,
}

impl Drop for End {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        self.metrics.end(&self.guard, self.code, took);
        tracing::debug!(request = self.line, code = self.code, ?took, agent = self.agent, "served");
    }
}

pin_project! {
    /// A body that holds what is to be done at its end.
    struct Counted {
        #[pin]
        body: Body,
        _end: End,
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
