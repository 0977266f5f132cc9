//! From a request to its answer: finds the resource and verb, and hands over to one file per verb.

mod apply;
mod ask;
mod create;
mod delete;
mod delete_collection;
pub(crate) mod discovery;
mod get;
mod list;
mod nonresource;
pub(crate) mod openapi;
mod options;
mod patch;
mod pieces;
mod rows;
mod scale;
mod shape;
pub(crate) mod shown;
mod subresource;
mod update;
mod watch;

#[cfg(test)]
pub(crate) mod tests;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use apimachinery::status::Status;
use axum::{body::Body, extract::State, response::Response};
use http::{Method, Request};

pub(crate) use ask::Ask;

use crate::{
    loopback::InProcess,
    negotiate::{Negotiated, Offer, for_errors, negotiate, status_response},
    pipeline::{EXCEEDED, Permit},
    registry::{Backing, Subresource, catalog::Served},
    request::RequestInfo,
    server::Server,
};

/// Serves any request that passed the pipeline.
pub(crate) async fn dispatch(State(server): State<Arc<Server>>, request: Request<Body>) -> Response {
    if let Some(service) = server.aggregator.behind(request.uri().path()) {
        return server.aggregator.hand_on(&service, request, server.limits.timeout).await;
    }
    let info = request.extensions().get::<RequestInfo>().cloned().unwrap_or_default();
    if !info.is_resource {
        return nonresource::serve(server, request, &info).await;
    }
    let inside = request.extensions().get::<InProcess>().is_some();
    let query = crate::request::parse_query(request.uri().query().unwrap_or_default());
    let errors = for_errors(request.headers(), &query, server.cbor);
    let Some(served) = find(&server, &info, inside) else { return missing(&server, &info, errors) };
    let watch = info.is_collection && served.resource.serves("watch");
    let offer = Offer { forms: true, watch, protobuf: !served.resource.is_custom(), cbor: server.cbor };
    let Some(route) = Route::of(&served, &info, request.method(), inside) else {
        return status_response(errors, &Status::method_not_allowed());
    };
    let negotiated = match negotiate(request.headers(), &query, offer) {
        Ok(negotiated) => negotiated,
        // Calls that pass bytes through have forms of their own.
        Err(_) if served.resource.subresource(&info.subresource).is_some_and(Subresource::is_raw) => Negotiated::PLAIN,
        Err(status) => return status_response(errors, &status),
    };
    let (permit, limit) = (request.extensions().get::<Permit>().cloned(), server.limits.timeout);
    let run = route.run(Ask::new(server, served, negotiated, query, request));
    // A write goes on when its client leaves: hooks must learn the outcome.
    let attached = matches!(info.verb, "get" | "list" | "watch") || info.is_long_running();
    let answer = if attached { run.await } else { detached(run, permit, limit).await };
    answer.unwrap_or_else(|status| status_response(errors, &status))
}

/// Runs on its own up to `limit`, whatever the client's patience; until then it counts as in flight.
async fn detached(
    run: impl Future<Output = Result<Response, Status>> + Send + 'static,
    permit: Option<Permit>,
    limit: Duration,
) -> Result<Response, Status> {
    let bounded = async move {
        let answer = tokio::time::timeout(limit, run).await;
        drop(permit);
        answer.unwrap_or_else(|_| Err(Status::timeout(EXCEEDED, 0)))
    };
    match tokio::spawn(bounded).await {
        Ok(answer) => answer,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(error) => Err(Status::internal(error)),
    }
}

fn find(server: &Server, info: &RequestInfo, inside: bool) -> Option<Arc<Served>> {
    let served = server.hub.catalog.load().find(&info.group, &info.version, &info.resource)?.clone();
    let resource = &served.resource;
    // A version of a custom resource that is stored but not served.
    if resource.is_custom() && resource.is_internal() && !inside {
        return None;
    }
    // A namespace carries its own name as namespace; any other cluster-scoped resource has none.
    let in_namespace = !info.namespace.is_empty() && resource.plural != "namespaces";
    let fits = if resource.namespaced { in_namespace || info.is_collection } else { !in_namespace };
    let known = info.subresource.is_empty() || resource.subresource(&info.subresource).is_some();
    (fits && known).then_some(served)
}

fn missing(server: &Server, info: &RequestInfo, errors: Negotiated) -> Response {
    let catalog = server.hub.catalog.load();
    if catalog.group(&info.group).is_none_or(|group| group.custom) {
        // Of a custom resource that is there, a subresource may be missing.
        return match catalog.find(&info.group, &info.version, &info.resource).filter(|_| !info.subresource.is_empty()) {
            Some(served) => status_response(errors, &Status::not_found(&served.resource.group_resource(), &info.name)),
            None if is_incomplete(server) => status_response(errors, &too_early()),
            None => nonresource::page_not_found(),
        };
    }
    status_response(errors, &Status::not_found_path())
}

/// Whether definitions or APIServices are still to be read.
fn is_incomplete(server: &Server) -> bool {
    server.hub.incomplete.load(Ordering::Acquire) || server.aggregator.is_incomplete()
}

/// A client must not take for gone what this server has not read yet.
fn too_early() -> Status {
    let text = "the request has been made before all known HTTP paths have been installed, please retry";
    Status::service_unavailable(text).with_retry_after(1)
}

/// What a method means at a path.
enum Route {
    Create,
    Get,
    List,
    Watch,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// A subresource, or a resource that is computed.
    Sub,
}

impl Route {
    /// `None` where the method is not served there at all. `inside`: the server itself asks, and may use internal doors.
    fn of(served: &Served, info: &RequestInfo, method: &Method, inside: bool) -> Option<Self> {
        let resource = &served.resource;
        if *method == Method::HEAD || info.verb.is_empty() {
            return None;
        }
        if !info.subresource.is_empty() {
            let verbs = resource.subresource(&info.subresource)?.verbs;
            let open = verbs.contains(&info.verb) || (verbs.is_empty() && inside);
            return open.then_some(Self::Sub);
        }
        let open = resource.serves(info.verb) || (resource.is_internal() && inside);
        if !open || !Self::path_takes(resource.namespaced, info) {
            return None;
        }
        if matches!(resource.backing, Backing::Call(_)) {
            return Some(Self::Sub);
        }
        Some(match info.verb {
            "create" => Self::Create,
            "get" => Self::Get,
            "list" => Self::List,
            "watch" => Self::Watch,
            "update" => Self::Update,
            "patch" => Self::Patch,
            "delete" => Self::Delete,
            "deletecollection" => Self::DeleteCollection,
            _ => return None,
        })
    }

    /// Whether the verb goes with the path: creation to collections, updates to objects, all-namespaces paths only read.
    fn path_takes(namespaced: bool, info: &RequestInfo) -> bool {
        let across = namespaced && info.namespace.is_empty();
        match info.verb {
            "create" | "deletecollection" => info.is_collection && !across,
            "list" => info.is_collection,
            "watch" => true,
            _ => !info.is_collection,
        }
    }

    async fn run(self, ask: Ask) -> Result<Response, Status> {
        match self {
            Self::Create => create::serve(ask).await,
            Self::Get => get::serve(ask).await,
            Self::List => list::serve(ask).await,
            Self::Watch => watch::serve(ask).await,
            Self::Update => update::serve(ask).await,
            Self::Patch => patch::serve(ask).await,
            Self::Delete => delete::serve(ask).await,
            Self::DeleteCollection => delete_collection::serve(ask).await,
            Self::Sub => subresource::serve(ask).await,
        }
    }
}
