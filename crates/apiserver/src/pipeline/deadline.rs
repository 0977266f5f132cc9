//! Answers 504 for what takes longer than it may.

use std::{sync::Arc, time::Duration};

use apimachinery::status::Status;
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};

use crate::{
    negotiate::{Negotiated, for_errors, status_response},
    request::{RequestInfo, parse_query},
    server::Server,
};

/// The message of an answer that took too long.
pub(crate) const EXCEEDED: &str = "request did not complete within requested timeout - context deadline exceeded";

pub(super) async fn layer(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let long = request.extensions().get::<RequestInfo>().is_some_and(RequestInfo::is_long_running);
    if long {
        return next.run(request).await;
    }
    let timeout = match requested(request.uri().query().unwrap_or_default()) {
        Ok(wanted) => wanted.unwrap_or(server.limits.timeout).min(server.limits.timeout),
        Err(status) => return status_response(for_errors(request.headers(), &[], server.cbor), &status),
    };
    match tokio::time::timeout(timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => status_response(Negotiated::PLAIN, &Status::timeout(EXCEEDED, 0)),
    }
}

/// `?timeout=` as a Go duration; 0 and none mean the server's own. Errors: 400.
fn requested(query: &str) -> Result<Option<Duration>, Status> {
    let pairs = parse_query(query);
    let Some((_, text)) = pairs.iter().find(|(k, v)| k == "timeout" && !v.is_empty()) else { return Ok(None) };
    let parsed = parse_go_duration(text);
    let parsed = parsed
        .ok_or_else(|| Status::bad_request(format!("invalid timeout specified in the request URL - time: invalid duration {text:?}")))?;
    Ok(Some(parsed).filter(|d| !d.is_zero()))
}

/// `1h2m3.5s`, `300ms`, `0`.
pub(crate) fn parse_go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let value: f64 = rest[..digits].parse().ok()?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit() || c == '.').map_or(rest.len(), |n| digits + n);
        let unit = match &rest[digits..unit_end] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total += Duration::try_from_secs_f64(value * unit).ok()?;
        rest = &rest[unit_end..];
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        assert_eq!(parse_go_duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(parse_go_duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(parse_go_duration("0"), Some(Duration::ZERO));
        assert_eq!(parse_go_duration("10"), None);
        assert_eq!(parse_go_duration("x"), None);
    }

    #[test]
    fn a_timeout_that_is_no_duration_is_refused() {
        assert_eq!(requested("timeout=soon").unwrap_err().code, 400);
        assert_eq!(requested("timeout=0s").unwrap(), None);
    }
}
