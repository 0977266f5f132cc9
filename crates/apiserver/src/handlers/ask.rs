//! One request with everything its handler needs.

use std::sync::Arc;

use apimachinery::{Object, status::Status};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, request::Parts};
use serde_json::Value;

use super::{options, shape};
use crate::{
    negotiate::{BodyKind, Negotiated, read_body},
    registry::{
        catalog::Served,
        codec::{self, Expect},
        store::Store,
    },
    request::{RequestContext, RequestInfo, UserInfo, Warnings},
    server::{ReceivedAt, Server},
};

/// A request on its way through a handler.
pub(crate) struct Ask {
    pub(crate) server: Arc<Server>,
    pub(crate) served: Arc<Served>,
    pub(crate) ctx: RequestContext,
    pub(crate) negotiated: Negotiated,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) parts: Parts,
    body: Body,
}

impl Ask {
    /// Puts together what the pipeline left in the request's extensions.
    pub(crate) fn new(
        server: Arc<Server>,
        served: Arc<Served>,
        negotiated: Negotiated,
        query: Vec<(String, String)>,
        request: Request<Body>,
    ) -> Self {
        let (parts, body) = request.into_parts();
        let ext = &parts.extensions;
        let ctx = RequestContext {
            user: ext.get::<UserInfo>().cloned().unwrap_or_else(UserInfo::anonymous),
            info: ext.get::<RequestInfo>().cloned().unwrap_or_default(),
            dry_run: false,
            field_manager: options::field_manager(&query, &parts.headers),
            field_validation: options::field_validation(&query),
            now: ext.get::<ReceivedAt>().map_or(jiff::Timestamp::UNIX_EPOCH, |r| r.0),
            warnings: ext.get::<Warnings>().cloned().unwrap_or_default(),
        };
        if let Some(text) = &served.resource.deprecation {
            ctx.warn(text.clone());
        }
        Self { server, served, ctx, negotiated, query, parts, body }
    }

    /// The generic store of the resource. Errors: 405 for computed resources.
    pub(crate) fn store(&self) -> Result<Store, Status> {
        let store = self.server.hub.store(&self.served);
        store.ok_or_else(|| Status::method_not_supported(&self.served.resource.group_resource(), self.ctx.verb()))
    }

    /// The first value of a query parameter.
    pub(crate) fn query(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The request's headers.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The whole body.
    pub(crate) async fn body(&mut self) -> Result<Bytes, Status> {
        read_body(std::mem::take(&mut self.body)).await
    }

    /// The body unread, for calls that stream.
    pub(crate) fn take_body(&mut self) -> Body {
        std::mem::take(&mut self.body)
    }

    /// The body as an object of the expected kind, defaulted.
    pub(crate) async fn object(&mut self, expect: &Expect<'_>) -> Result<Object, Status> {
        let kind = BodyKind::of(self.headers(), self.server.cbor)?;
        let bytes = self.body().await?;
        codec::decode(&self.ctx, expect, kind, &bytes)
    }

    /// An answer of one object in the negotiated form.
    pub(crate) fn answer(&self, code: StatusCode, object: &Object) -> Result<Response, Status> {
        shape::one(self, code, object)
    }

    /// An answer of a value that has no form but its own.
    pub(crate) fn plain(&self, code: StatusCode, value: &Value) -> Response {
        crate::negotiate::value_response(code, self.negotiated, value)
    }
}
