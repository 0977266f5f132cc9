//! Which form an answer takes (`Accept`) and in which form a body comes (`Content-Type`).

mod accept;
mod body;
mod render;
mod yaml;

pub(crate) use accept::{Form, Format, Negotiated, Offer, for_errors, negotiate, watch_types};
pub(crate) use body::{BodyKind, media_type, read_body, to_value};
pub(crate) use render::{bytes_response, partial, status_response, value_response};
