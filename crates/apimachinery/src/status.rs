//! `metav1.Status`: the answer to a failed request, with upstream's codes, reasons and words (`k8s.io/apimachinery/pkg/api/errors`).

use std::fmt;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::field;
use crate::go::quote;
use crate::gvk::{GroupKind, GroupResource};

/// Machine-readable reasons of a failed request (`metav1.StatusReason`).
pub mod reason {
    /// 401: no valid credentials.
    pub const UNAUTHORIZED: &str = "Unauthorized";
    /// 403: not allowed.
    pub const FORBIDDEN: &str = "Forbidden";
    /// 404: no such resource or object.
    pub const NOT_FOUND: &str = "NotFound";
    /// 409: an object of that name exists.
    pub const ALREADY_EXISTS: &str = "AlreadyExists";
    /// 409: the object has changed, or a precondition failed.
    pub const CONFLICT: &str = "Conflict";
    /// 410: the item is gone.
    pub const GONE: &str = "Gone";
    /// 410: the resource version or continue token is too old.
    pub const EXPIRED: &str = "Expired";
    /// 422: the object fails validation.
    pub const INVALID: &str = "Invalid";
    /// 500: could not finish in time; the client may try again.
    pub const SERVER_TIMEOUT: &str = "ServerTimeout";
    /// 504: the request's own deadline passed.
    pub const TIMEOUT: &str = "Timeout";
    /// 429: too many requests.
    pub const TOO_MANY_REQUESTS: &str = "TooManyRequests";
    /// 400: the request makes no sense.
    pub const BAD_REQUEST: &str = "BadRequest";
    /// 405: the resource does not support the method.
    pub const METHOD_NOT_ALLOWED: &str = "MethodNotAllowed";
    /// 406: none of the media types the client accepts can be produced.
    pub const NOT_ACCEPTABLE: &str = "NotAcceptable";
    /// 413: the body is too large.
    pub const REQUEST_ENTITY_TOO_LARGE: &str = "RequestEntityTooLarge";
    /// 415: the body's media type cannot be read.
    pub const UNSUPPORTED_MEDIA_TYPE: &str = "UnsupportedMediaType";
    /// 500: something broke inside the server.
    pub const INTERNAL_ERROR: &str = "InternalError";
    /// 503: the service is not available now.
    pub const SERVICE_UNAVAILABLE: &str = "ServiceUnavailable";
}

/// Cause types that are not field errors (`metav1.CauseType`).
pub mod cause {
    /// Another manager owns the field.
    pub const FIELD_MANAGER_CONFLICT: &str = "FieldManagerConflict";
    /// A `resourceVersion` newer than the store's.
    pub const RESOURCE_VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";
    /// The namespace is going away.
    pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
    /// Eviction would break a disruption budget.
    pub const DISRUPTION_BUDGET: &str = "DisruptionBudget";
    /// The server answered something unexpected.
    pub const UNEXPECTED_SERVER_RESPONSE: &str = "UnexpectedServerResponse";
}

/// What went wrong with a request; also the body of a successful delete. `code` is the HTTP status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    #[serde(default)]
    kind: KindName,
    #[serde(default)]
    api_version: ApiVersion,
    /// List metadata; empty but for a `continue` token with some expired lists.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// `Success` or `Failure`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For machines; one of [`reason`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What the failure is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
    /// HTTP status code; 0 if unset.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// What a failure is about (`metav1.StatusDetails`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// Object name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Resource, or kind for validation errors.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// UID of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One entry per error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to try again, in seconds; 0 if unset. Also sent as the `Retry-After` header.
    #[serde(skip_serializing_if = "is_zero_i32")]
    pub retry_after_seconds: i32,
}

/// One error of several (`metav1.StatusCause`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// For machines, such as `FieldValueInvalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The field, such as `spec.replicas`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// The kind, which is the same for all and so takes no room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct KindName;

/// The API version, which is the same for all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ApiVersion;

impl Serialize for KindName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("Status")
    }
}

impl Serialize for ApiVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("v1")
    }
}

impl<'de> Deserialize<'de> for KindName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl<'de> Deserialize<'de> for ApiVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(code: &u16) -> bool {
    *code == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero_i32(seconds: &i32) -> bool {
    *seconds == 0
}

impl From<&field::Error> for Cause {
    fn from(error: &field::Error) -> Self {
        Self { reason: error.kind.reason().into(), message: error.body(), field: error.field.to_string() }
    }
}

impl Status {
    /// A failure from its parts, without details.
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind: KindName,
            api_version: ApiVersion,
            metadata: Map::new(),
            status: "Failure".into(),
            message: message.into(),
            reason: reason.into(),
            details: None,
            code,
        }
    }

    /// The body of a successful delete: status `Success`, with `details` about what was deleted.
    pub fn success(details: Details) -> Self {
        let details = (details != Details::default()).then(|| Box::new(details));
        Self { status: "Success".into(), details, ..Self::failure(0, "", "") }
    }

    /// The same with other details.
    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// The same with one more cause.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: impl Into<String>, field: &str) -> Self {
        let cause = Cause { reason: reason.into(), message: message.into(), field: field.into() };
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// The same with a time after which to try again, in seconds.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: i32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// When to try again, in seconds, if the server said so.
    pub fn retry_after_seconds(&self) -> Option<i32> {
        self.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0)
    }

    /// The causes; empty without details.
    pub fn causes(&self) -> &[Cause] {
        self.details.as_ref().map(|details| &details.causes[..]).unwrap_or_default()
    }

    /// Whether the request failed for this reason.
    pub fn is(&self, reason: &str) -> bool {
        self.reason == reason
    }

    /// The status as JSON bytes, in upstream's field order.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// 404: `pods "x" not found`.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::about(404, reason::NOT_FOUND, resource, name, format!("{resource} {} not found", quote(name)))
    }

    /// 404 for a path no handler serves.
    pub fn not_found_path() -> Self {
        let mut status = Self::failure(404, reason::NOT_FOUND, "the server could not find the requested resource");
        status.details = Some(Box::default());
        status
    }

    /// 409: `pods "x" already exists`.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::about(409, reason::ALREADY_EXISTS, resource, name, format!("{resource} {} already exists", quote(name)))
    }

    /// 409 when names made from `generateName` keep colliding; the client may try again after a second.
    pub fn generate_name_conflict(resource: &GroupResource, name: &str) -> Self {
        let words = "the server was not able to generate a unique name for the object";
        Self::about(409, reason::ALREADY_EXISTS, resource, name, format!("{resource} {} already exists, {words}", quote(name)))
            .with_retry_after(1)
    }

    /// 401; an empty message becomes `not authorized`.
    pub fn unauthorized(message: &str) -> Self {
        Self::failure(401, reason::UNAUTHORIZED, if message.is_empty() { "not authorized" } else { message })
    }

    /// 403: `pods "x" is forbidden: …`; resource and name may be empty.
    pub fn forbidden(resource: &GroupResource, name: &str, cause: impl fmt::Display) -> Self {
        let message = match (resource.resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {cause}"),
            (false, true) => format!("{resource} is forbidden: {cause}"),
            (false, false) => format!("{resource} {} is forbidden: {cause}", quote(name)),
        };
        Self::about(403, reason::FORBIDDEN, resource, name, message)
    }

    /// 409: `Operation cannot be fulfilled on pods "x": …`.
    pub fn conflict(resource: &GroupResource, name: &str, cause: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {cause}", quote(name));
        Self::about(409, reason::CONFLICT, resource, name, message)
    }

    /// [`Status::conflict`] for an update that started from an older version of the object.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        let words = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, words)
    }

    /// 409 when applied fields belong to other managers; `causes` name the fields.
    pub fn apply_conflict(causes: Vec<Cause>, message: impl Into<String>) -> Self {
        Self::failure(409, reason::CONFLICT, message).with_details(Details { causes, ..Details::default() })
    }

    /// 410 for something that will not come back.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(410, reason::GONE, message)
    }

    /// 410 for a resource version or continue token that is too old.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, reason::EXPIRED, message)
    }

    /// 422: `Pod "x" is invalid: …`, with one cause per error.
    pub fn invalid(kind: &GroupKind, name: &str, errors: field::ErrorList) -> Self {
        let mut message = format!("{kind} {} is invalid", quote(name));
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&field::aggregate(&errors));
        }
        let causes = errors.iter().map(Cause::from).collect();
        let details = Details { group: kind.group.clone(), kind: kind.kind.clone(), name: name.into(), causes, ..Details::default() };
        Self::failure(422, reason::INVALID, message).with_details(details)
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, reason::BAD_REQUEST, message)
    }

    /// 405: `delete is not supported on resources of kind "pods"`.
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let message = format!("{action} is not supported on resources of kind \"{resource}\"");
        Self::about(405, reason::METHOD_NOT_ALLOWED, resource, "", message)
    }

    /// 405 for a path that knows other methods only.
    pub fn method_not_allowed() -> Self {
        let mut status = Self::failure(405, reason::METHOD_NOT_ALLOWED, "the server does not allow this method on the requested resource");
        status.details = Some(Box::default());
        status
    }

    /// 500: the operation could not be finished; the client should try again after `retry_after` seconds.
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after: i32) -> Self {
        let message = format!("The {operation} operation against {resource} could not be completed at this time, please try again.");
        Self::about(500, reason::SERVER_TIMEOUT, resource, operation, message).with_retry_after(retry_after)
    }

    /// 500: `Internal error occurred: …`.
    pub fn internal(cause: impl fmt::Display) -> Self {
        let cause = cause.to_string();
        Self::failure(500, reason::INTERNAL_ERROR, format!("Internal error occurred: {cause}")).with_cause("", cause, "")
    }

    /// 504: `Timeout: …`; `retry_after` 0 leaves the hint out.
    pub fn timeout(message: impl fmt::Display, retry_after: i32) -> Self {
        Self::failure(504, reason::TIMEOUT, format!("Timeout: {message}")).with_retry_after(retry_after)
    }

    /// 504 for a `resourceVersion` the store has not reached: `Too large resource version: 5, current: 3`.
    pub fn resource_version_too_large(wanted: u64, current: u64, retry_after: i32) -> Self {
        Self::timeout(format!("Too large resource version: {wanted}, current: {current}"), retry_after).with_cause(
            cause::RESOURCE_VERSION_TOO_LARGE,
            "Too large resource version",
            "",
        )
    }

    /// 429; `retry_after` in seconds.
    pub fn too_many_requests(message: impl Into<String>, retry_after: i32) -> Self {
        Self::failure(429, reason::TOO_MANY_REQUESTS, message).with_retry_after(retry_after)
    }

    /// 413: `Request entity too large: …`.
    pub fn too_large(message: impl fmt::Display) -> Self {
        Self::failure(413, reason::REQUEST_ENTITY_TOO_LARGE, format!("Request entity too large: {message}"))
    }

    /// 503.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, reason::SERVICE_UNAVAILABLE, message)
    }

    /// 415; `accepted` are the media types a body may have.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!("the body of the request was in an unknown format - accepted media types include: {}", accepted.join(", "));
        Self::failure(415, reason::UNSUPPORTED_MEDIA_TYPE, message)
    }

    /// 406; `available` are the media types an answer may have.
    pub fn not_acceptable(available: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", available.join(", "));
        Self::failure(406, reason::NOT_ACCEPTABLE, message)
    }

    fn about(code: u16, reason: &str, resource: &GroupResource, name: &str, message: String) -> Self {
        let details = Details { group: resource.group.clone(), kind: resource.resource.clone(), name: name.into(), ..Details::default() };
        Self::failure(code, reason, message).with_details(details)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Error, Path};
    use serde_json::json;

    #[test]
    fn not_found_names_resource_and_object() {
        let status = Status::not_found(&GroupResource::new("", "pods"), "x");
        let expected = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "pods \"x\" not found",
            "reason": "NotFound", "details": {"name": "x", "kind": "pods"}, "code": 404,
        });
        assert_eq!(serde_json::to_value(&status).unwrap(), expected);
        assert!(String::from_utf8(status.to_json()).unwrap().starts_with(r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status""#));
    }

    #[test]
    fn stale_update_is_told_to_start_over() {
        let status = Status::modified(&GroupResource::new("apps", "deployments"), "x");
        assert_eq!(
            status.message,
            "Operation cannot be fulfilled on deployments.apps \"x\": the object has been modified; \
             please apply your changes to the latest version and try again"
        );
    }

    #[test]
    fn invalid_lists_all_errors_and_causes() {
        let errors = vec![
            Error::invalid(&Path::new("spec").child("replicas"), -1, "must be greater than or equal to 0"),
            Error::required(&Path::new("spec").child("selector"), ""),
        ];
        let status = Status::invalid(&GroupKind::new("apps", "Deployment"), "x", errors);
        assert_eq!(
            status.message,
            "Deployment.apps \"x\" is invalid: [spec.replicas: Invalid value: -1: must be greater than or equal to 0, \
             spec.selector: Required value]"
        );
        assert_eq!(
            status.causes()[1],
            Cause { reason: "FieldValueRequired".into(), message: "Required value".into(), field: "spec.selector".into() }
        );
    }

    #[test]
    fn a_status_is_small_enough_to_be_an_error() {
        assert!(size_of::<Status>() <= 128);
    }

    #[test]
    fn a_status_reads_back_from_json() {
        let status = Status::forbidden(&GroupResource::new("", "pods"), "", "no").with_retry_after(2);
        assert_eq!(serde_json::from_slice::<Status>(&status.to_json()).unwrap(), status);
        assert_eq!(status.retry_after_seconds(), Some(2));
    }
}
