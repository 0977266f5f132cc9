//! DELETE of one object.

use apimachinery::{
    Object,
    status::{Details, Status},
};
use axum::response::Response;
use http::StatusCode;

use super::{Ask, options};
use crate::registry::{DeleteOptions, store::Deleted};

pub(super) async fn serve(mut ask: Ask) -> Result<Response, Status> {
    let body = ask.body().await?;
    let (options, value) = options::delete(&ask.query, ask.headers(), ask.server.cbor, &body)?;
    ask.ctx.dry_run = options.dry_run;
    let name = ask.ctx.info.name.clone();
    let deleted = ask.store()?.delete(&ask.ctx, &name, &options, &value).await?;
    answer(&ask, deleted, &options)
}

fn answer(ask: &Ask, deleted: Deleted, options: &DeleteOptions) -> Result<Response, Status> {
    let gone = matches!(deleted, Deleted::Gone(_));
    // The old way to ask for background deletion is told that it goes on.
    let code = if !gone && options.orphan_dependents == Some(false) { StatusCode::ACCEPTED } else { StatusCode::OK };
    match deleted {
        Deleted::Gone(object) | Deleted::Pending(object) if !ask.served.resource.returns_deleted => {
            let value = serde_json::to_value(success(ask, &object)).unwrap_or_default();
            Ok(ask.plain(code, &value))
        }
        Deleted::Gone(object) | Deleted::Pending(object) | Deleted::Marked(object) => ask.answer(code, &object),
    }
}

fn success(ask: &Ask, object: &Object) -> Status {
    let resource = &ask.served.resource;
    Status::success(Details {
        name: object.name().to_owned(),
        group: resource.group.clone(),
        kind: resource.plural.clone(),
        uid: object.uid().to_owned(),
        ..Details::default()
    })
}
