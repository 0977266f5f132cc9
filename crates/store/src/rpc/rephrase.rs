//! Says of some failures what etcd says of them.
//!
//! A message that is too large to be read: the library below has words and a code of its own, and clients take that code for
//! a matter of revisions. Locks and elections: etcd's speak to the store as its clients do, and what a client is told
//! reaches theirs without its code.

use axum::{
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use tonic::{Code, Status};

/// Answers as etcd does.
pub(super) async fn rephrase(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let codeless = path.starts_with("/v3lockpb.") || path.starts_with("/v3electionpb.");
    let response = next.run(request).await;
    let told = Status::from_header_map(response.headers()).and_then(|status| match codeless {
        true if status.code() != Code::Ok => Some(Status::unknown(status.message())),
        _ => too_large(&status),
    });
    match told {
        Some(status) => status.into_http::<axum::body::Body>().into_response(),
        None => response,
    }
}

fn too_large(status: &Status) -> Option<Status> {
    let rest = status.message().strip_prefix("Error, decoded message length too large: found ")?;
    let (size, limit) = rest.strip_suffix(" bytes")?.split_once(" bytes, the limit is: ")?;
    let text = format!("grpc: received message larger than max ({size} vs. {limit})");
    (status.code() == Code::OutOfRange).then(|| Status::resource_exhausted(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_message_that_is_too_large_is_told_of_otherwise() {
        let told = too_large(&Status::out_of_range("Error, decoded message length too large: found 9 bytes, the limit is: 5 bytes"));
        let told = told.unwrap();
        assert_eq!((told.code(), told.message()), (Code::ResourceExhausted, "grpc: received message larger than max (9 vs. 5)"));
        let compacted = Status::out_of_range("etcdserver: mvcc: required revision has been compacted");
        assert!(too_large(&compacted).is_none());
    }
}
