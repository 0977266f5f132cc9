//! Notes when the request arrived and what it addresses.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};

use crate::{
    request::RequestInfo,
    server::{ReceivedAt, Server},
};

pub(super) async fn layer(State(server): State<Arc<Server>>, mut request: Request, next: Next) -> Response {
    let uri = request.uri();
    let info = RequestInfo::parse(request.method(), uri.path(), uri.query().unwrap_or_default());
    request.extensions_mut().insert(ReceivedAt(server.clock.now()));
    request.extensions_mut().insert(info);
    next.run(request).await
}
