//! PUT of an object or of a part of it.

use apimachinery::{Object, status::Status};
use axum::response::Response;
use http::StatusCode;

use super::{Ask, options};
use crate::registry::store::{Change, View};

pub(super) async fn serve(ask: Ask) -> Result<Response, Status> {
    replace(ask, View::Main).await
}

/// PUT of the object under one of its views.
pub(super) async fn replace(mut ask: Ask, view: View) -> Result<Response, Status> {
    let options = options::write(&ask.query, "UpdateOptions", None)?;
    ask.ctx.dry_run = options.dry_run;
    let served = ask.served.clone();
    let mut object = ask.object(&served.expect()).await?;
    let name = ask.ctx.info.name.clone();
    check_name(&mut object, &name)?;
    let (stored, created) = ask.store()?.update(&ask.ctx, &name, &Replace(object), &view, &options.value).await?;
    ask.answer(if created { StatusCode::CREATED } else { StatusCode::OK }, &stored)
}

/// A body's name must be the path's. Errors: 400.
pub(super) fn check_name(object: &mut Object, name: &str) -> Result<(), Status> {
    match object.name() {
        "" => Err(Status::bad_request(format!("the name of the object ({name} based on URL) was undeterminable: name must be provided"))),
        own if own != name => {
            Err(Status::bad_request(format!("the name of the object ({own}) does not match the name on the URL ({name})")))
        }
        _ => Ok(()),
    }
}

/// A whole new object in place of the old.
struct Replace(Object);

impl Change for Replace {
    fn apply(&self, _current: Option<&Object>) -> Result<Object, Status> {
        Ok(self.0.clone())
    }

    fn expected_uid(&self) -> Option<String> {
        let uid = self.0.uid();
        (!uid.is_empty()).then(|| uid.to_owned())
    }

    fn creates(&self) -> bool {
        true
    }
}
