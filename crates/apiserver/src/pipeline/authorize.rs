//! Asks the authorizer; 403 unless it allows.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};

use super::forbidden::forbidden;
use crate::{
    authz::{Attributes, Decision},
    negotiate::{for_errors, status_response},
    request::{RequestInfo, UserInfo},
    server::Server,
};

pub(super) async fn layer(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let user = request.extensions().get::<UserInfo>().cloned().unwrap_or_else(UserInfo::anonymous);
    let info = request.extensions().get::<RequestInfo>().cloned().unwrap_or_default();
    let errors = for_errors(request.headers(), &[], server.cbor);
    match server.authorizer.authorize(&Attributes { user: &user, info: &info }).await {
        Decision::Allow(_) => next.run(request).await,
        Decision::Deny(reason) | Decision::NoOpinion(reason) => status_response(errors, &forbidden(&user, &info, &reason)),
    }
}
