//! POST to a collection.

use apimachinery::status::Status;
use axum::response::Response;
use http::StatusCode;

use super::{Ask, options};

pub(super) async fn serve(mut ask: Ask) -> Result<Response, Status> {
    let options = options::write(&ask.query, "CreateOptions", None)?;
    ask.ctx.dry_run = options.dry_run;
    let served = ask.served.clone();
    let object = ask.object(&served.expect()).await?;
    let created = ask.store()?.create(&ask.ctx, object, &options.value).await?;
    ask.answer(StatusCode::CREATED, &created)
}
