//! port-forward inside a WebSocket: what comes out of it is the SPDY that a kubelet understands.

use apimachinery::status::Status;
use axum::body::Body;
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use streaming::{
    port_forward::{TUNNEL, request_headers},
    websocket,
};

use super::{Target, unreachable};
use crate::registry::{Call, Streams, core::forward};

/// Whether a request is for a tunnel.
pub(super) fn is_asked_for(headers: &HeaderMap) -> bool {
    websocket::is_websocket(headers) && websocket::offered(headers).contains(&TUNNEL)
}

/// Connects a tunnel with the kubelet. The kubelet is asked first: if it refuses, its answer is the client's.
pub(super) async fn open(call: &mut Call, target: &Target, streams: &Streams) -> Result<Response<Body>, Status> {
    let answer = connect(call, target, streams).await;
    streams.count_tunnel(answer.as_ref().map_or_else(|status| status.code, |response| response.status().as_u16()));
    answer
}

async fn connect(call: &mut Call, target: &Target, streams: &Streams) -> Result<Response<Body>, Status> {
    let switched = match websocket::accept(&call.parts.headers, &[TUNNEL]) {
        Ok((switched, _)) => switched,
        Err(refused) => return Ok(refused.map(Body::from)),
    };
    let mut request = Request::post(&target.path).body(Body::empty()).map_err(Status::internal)?;
    *request.headers_mut() = request_headers();
    let mut response = target.send(request).await.map_err(unreachable)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(response);
    }
    let client = call.parts.extensions.remove::<OnUpgrade>();
    let client = client.ok_or_else(|| Status::internal("unable to upgrade: unable to hijack response"))?;
    let server = hyper::upgrade::on(&mut response);
    let mut switched = switched.map(|()| Body::empty());
    let shutdown = streams.shutdown().clone();
    streams.run(&mut switched, async move {
        match tokio::try_join!(client, server) {
            Ok((client, server)) => {
                let client = websocket::tunnel(TokioIo::new(client)).await;
                shutdown.run_until_cancelled(forward::join(client, TokioIo::new(server))).await;
            }
            Err(error) => tracing::debug!(%error, "a tunnel could not be joined"),
        }
    });
    Ok(switched)
}
