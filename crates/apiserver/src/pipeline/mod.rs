//! What every request passes before a handler sees it, as one ordered list.

mod access;
mod audit_id;
mod authenticate;
mod authorize;
mod cors;
mod deadline;
mod draining;
mod flow_control;
mod forbidden;
mod gzip;
mod impersonate;
mod metrics;
mod panics;
mod request_info;
mod warnings;

use std::sync::Arc;

use axum::{
    Router,
    middleware::{from_fn, from_fn_with_state},
};

pub(crate) use deadline::{EXCEEDED, parse_go_duration};
pub(crate) use flow_control::{Limits, Permit};
pub(crate) use metrics::Metrics;

use crate::server::Server;

/// Puts the layers around the handlers. The first one is the outermost.
pub(crate) fn around(handlers: Router, server: Arc<Server>) -> Router {
    let layers = tower::ServiceBuilder::new()
        .layer(from_fn(audit_id::layer))
        // Everything below may panic; the audit id must still reach the client.
        .layer(from_fn(panics::layer))
        .layer(from_fn_with_state(server.clone(), request_info::layer))
        .layer(from_fn_with_state(server.clone(), access::layer))
        .layer(from_fn_with_state(server.clone(), draining::layer))
        .layer(from_fn_with_state(server.clone(), deadline::layer))
        .layer(from_fn(gzip::layer))
        .layer(from_fn(warnings::layer))
        .layer(from_fn_with_state(server.clone(), cors::layer))
        .layer(from_fn_with_state(server.clone(), authenticate::layer))
        .layer(from_fn_with_state(server.clone(), impersonate::layer))
        // Under authenticate: the server's own loops and administrators are not held back.
        .layer(from_fn_with_state(server.clone(), flow_control::layer))
        .layer(from_fn_with_state(server, authorize::layer));
    handlers.layer(layers)
}
