//! Admission: plugins that change (`admit`) or refuse (`validate`) a request between decoding and storage.

pub(crate) mod default_toleration_seconds;
pub(crate) mod namespace_lifecycle;
pub(crate) mod node_restriction;
pub(crate) mod plugins;
pub(crate) mod priority;
pub(crate) mod service_account;
pub(crate) mod taint_nodes_by_condition;
#[cfg(test)]
mod test;

use std::sync::Arc;

use apimachinery::{Object, status::Status};
use async_trait::async_trait;
use serde_json::Value;

use crate::{registry::Resource, request::RequestContext};

/// What kind of change is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A new object, also the creation of a subresource such as `pods/binding`.
    Create,
    /// A changed object, by PUT, PATCH or apply.
    Update,
    /// A deleted object; `old_object` is what goes.
    Delete,
    /// `exec`, `attach`, `portforward`, `proxy`.
    Connect,
}

impl Operation {
    /// As AdmissionReview spells it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// One admission question.
#[derive(Clone, Debug)]
pub(crate) struct Attributes {
    /// The resource addressed.
    pub(crate) resource: Arc<Resource>,
    /// The subresource addressed, empty if none.
    pub(crate) subresource: String,
    /// What happens to it.
    pub(crate) operation: Operation,
    /// The namespace, empty for cluster scope.
    pub(crate) namespace: String,
    /// The object's name; may be empty on create with generateName.
    pub(crate) name: String,
    /// The object after the change; absent on delete.
    pub(crate) object: Option<Object>,
    /// The object before the change; absent on create.
    pub(crate) old_object: Option<Object>,
    /// CreateOptions, UpdateOptions, PatchOptions or DeleteOptions as sent.
    #[allow(dead_code, reason = "admission webhooks are shown them; no built-in plugin looks")]
    pub(crate) options: Value,
}

impl Attributes {
    /// Whether this is about the resource of that name in the group, the object itself and no subresource.
    pub(crate) fn is(&self, group: &str, resource: &str) -> bool {
        self.subresource.is_empty() && self.resource.group == group && self.resource.plural == resource
    }

    /// A 403 that names the object. Upstream: `admission.NewForbidden`.
    pub(crate) fn forbidden(&self, cause: impl std::fmt::Display) -> Status {
        let generated = self.object.as_ref().map(Object::generate_name).unwrap_or_default();
        let name = if self.name.is_empty() { generated } else { &self.name };
        Status::forbidden(&self.resource.group_resource(), name, cause)
    }
}

/// One admission plugin.
#[async_trait]
pub(crate) trait Admission: Send + Sync {
    /// The name `--enable-admission-plugins` knows.
    fn name(&self) -> &'static str;

    /// Whether the plugin wants to see this kind of operation at all.
    fn handles(&self, _operation: Operation) -> bool {
        true
    }

    /// The mutating pass: may change `attributes.object`.
    async fn admit(&self, _ctx: &RequestContext, _attributes: &mut Attributes) -> Result<(), Status> {
        Ok(())
    }

    /// The validating pass, after the strategy validated the object.
    async fn validate(&self, _ctx: &RequestContext, _attributes: &Attributes) -> Result<(), Status> {
        Ok(())
    }
}

/// The enabled plugins in their fixed order.
#[derive(Clone, Default)]
pub(crate) struct Chain(Arc<Vec<Arc<dyn Admission>>>);

impl Chain {
    /// A chain that asks the plugins in the order given.
    pub(crate) fn new(plugins: Vec<Arc<dyn Admission>>) -> Self {
        Self(Arc::new(plugins))
    }

    /// The mutating pass of all plugins; the first error ends it.
    pub(crate) async fn admit(&self, ctx: &RequestContext, attributes: &mut Attributes) -> Result<(), Status> {
        let operation = attributes.operation;
        for plugin in self.0.iter().filter(|p| p.handles(operation)) {
            plugin.admit(ctx, attributes).await?;
        }
        Ok(())
    }

    /// The validating pass of all plugins; the first error ends it.
    pub(crate) async fn validate(&self, ctx: &RequestContext, attributes: &Attributes) -> Result<(), Status> {
        for plugin in self.0.iter().filter(|p| p.handles(attributes.operation)) {
            plugin.validate(ctx, attributes).await?;
        }
        Ok(())
    }
}
