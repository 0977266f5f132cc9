//! What one request is about: its path and verb, who sends it, and what travels with it to storage.

mod context;
mod info;
mod user;

pub(crate) use context::{FieldValidation, RequestContext, Warnings};
pub(crate) use info::{RequestInfo, is_true, parse_query};
pub(crate) use user::{ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, PRIVILEGED_GROUP, UserInfo};
