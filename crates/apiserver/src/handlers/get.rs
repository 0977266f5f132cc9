//! GET of one object.

use apimachinery::status::Status;
use axum::response::Response;
use bytes::{BufMut, BytesMut};
use http::StatusCode;

use super::{
    Ask,
    list::{freshness, unexpected},
    options,
};
use crate::negotiate::{Form, bytes_response};

pub(super) async fn serve(ask: Ask) -> Result<Response, Status> {
    let store = ask.store()?;
    let version = options::list(&ask.query, false).map(|q| q.resource_version).unwrap_or_default();
    let entry = store.get(&ask.ctx, &ask.ctx.info.name, freshness(&version, "", 0).map_err(unexpected)?).await?;
    if ask.negotiated.form == Form::Object && ask.negotiated.takes_bytes() && store.bytes_as_stored() {
        let mut bytes = BytesMut::with_capacity(entry.json().len() + 1);
        bytes.extend_from_slice(entry.json());
        bytes.put_u8(b'\n');
        return Ok(bytes_response(StatusCode::OK, ask.negotiated, bytes.freeze()));
    }
    ask.answer(StatusCode::OK, &store.present(&entry)?)
}
