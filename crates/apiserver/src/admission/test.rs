//! Admission questions and contexts for the plugins' tests.

use std::sync::Arc;

use apimachinery::Object;
use serde_json::Value;

use super::{Attributes, Operation};
use crate::registry::namespaced;
use crate::request::{RequestContext, RequestInfo, UserInfo, Warnings};

/// A question about an object; the kind does not matter to plugins.
pub(super) fn attributes(
    group: &str,
    resource: &str,
    operation: Operation,
    namespace: &str,
    name: &str,
    object: Option<Value>,
    old: Option<Value>,
) -> Attributes {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let parse = |value: Option<Value>| value.map(|value| Object::from_value(value).unwrap());
    Attributes {
        resource: Arc::new(namespaced(group, "v1", "Kind", resource)),
        subresource: subresource.to_owned(),
        operation,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        object: parse(object),
        old_object: parse(old),
        options: Value::Null,
    }
}

/// A request by a node, or by somebody else when `node` is empty.
pub(super) fn context(node: &str) -> RequestContext {
    let user = match node {
        "" => UserInfo::new("somebody", &["system:authenticated"]),
        node => UserInfo::new(format!("system:node:{node}"), &["system:nodes"]),
    };
    RequestContext {
        user,
        info: RequestInfo::default(),
        dry_run: false,
        field_manager: String::new(),
        field_validation: Default::default(),
        now: jiff::Timestamp::UNIX_EPOCH,
        warnings: Warnings::default(),
    }
}
