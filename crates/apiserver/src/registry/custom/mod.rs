//! Custom resources: the rules of a kind that a CustomResourceDefinition describes, and how a definition becomes resources.

mod columns;
mod convert;
mod embedded;
mod fields;
mod resource;
mod scale;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use apimachinery::{
    Object,
    field::{Error, ErrorList, Path},
    names,
    schema::{Schema, Validator},
    status::Status,
};
use async_trait::async_trait;
use serde_json::Value;

pub(crate) use resource::build;

use super::{Column, Generation, Strategy, meta, strategy::Finish};
use crate::{lazy::Lazy, loopback::Loopback, request::RequestContext};

/// Why rules that nobody checked are no reason to store an object.
const UNCHECKED: &str = "x-kubernetes-validations cannot be evaluated by this server";

/// The rules of one version of a custom resource.
pub(crate) struct Custom {
    schema: Lazy<Schema>,
    validator: Lazy<Validator>,
    scale: Option<scale::Paths>,
    columns: columns::Columns,
    fields: fields::Fields,
    /// The group and plural name, where the definition is being deleted: then nothing is created.
    terminating: bool,
    /// Whether the schema has rules that cannot be evaluated.
    has_rules: bool,
}

impl Custom {
    /// Checks of parts that are not the schema's: replicas, embedded resources, lists.
    fn validate_parts(&self, obj: &Object, value: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if let Some(paths) = &self.scale {
            errors.extend(paths.validate_spec(value));
            errors.extend(paths.validate_status(value));
        }
        errors.extend(embedded::validate(&self.schema, obj));
        errors
    }

    /// Nothing is stored on the word of rules that were not checked.
    fn refuse_rules(&self, errors: &mut ErrorList) {
        if self.has_rules && errors.is_empty() {
            errors.push(Error::internal(&Path::root(), UNCHECKED));
        }
    }
}

#[async_trait]
impl Strategy for Custom {
    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let value = obj.value();
        let mut errors = self.validator.validate(&value, &Path::root());
        errors.extend(self.validate_parts(obj, &value));
        errors.extend(self.schema.validate_lists(&value));
        self.refuse_rules(&mut errors);
        errors
    }

    async fn begin_create(&self, ctx: &RequestContext, _api: &Loopback, obj: &mut Object) -> Result<Finish, Status> {
        if self.terminating {
            let resource = apimachinery::gvk::GroupResource::new(&ctx.info.group, &ctx.info.resource);
            return Err(Status::forbidden(&resource, obj.name(), "create not allowed while custom resource definition is terminating"));
        }
        Ok(None)
    }

    fn warnings_on_create(&self, _ctx: &RequestContext, obj: &Object) -> Vec<String> {
        obj.finalizers().iter().flat_map(|finalizer| finalizer_warnings(finalizer)).collect()
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let (value, before) = (obj.value(), old.value());
        let mut errors = self.validator.validate_update(&value, Some(&before), &Path::root());
        errors.extend(self.validate_parts(obj, &value));
        // Lists that broke the rule before may go on doing so.
        if self.schema.validate_lists(&before).is_empty() {
            errors.extend(self.schema.validate_lists(&value));
        }
        self.refuse_rules(&mut errors);
        errors
    }

    fn warnings_on_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> Vec<String> {
        let before = old.finalizers();
        let mut added: Vec<String> = obj.finalizers().into_iter().filter(|finalizer| !before.contains(finalizer)).collect();
        added.sort();
        added.iter().flat_map(|finalizer| finalizer_warnings(finalizer)).collect()
    }

    /// A status update changes the status and nothing else; who manages which of its fields is part of that.
    fn prepare_for_status_update(&self, _ctx: &RequestContext, obj: &mut Object, old: &Object) {
        let managers = obj.meta().get("managedFields").cloned();
        let version = obj.resource_version().to_owned();
        *obj.meta_mut() = old.meta().clone();
        match managers {
            Some(managers) => drop(obj.meta_mut().insert("managedFields".into(), managers)),
            None => drop(obj.meta_mut().remove("managedFields")),
        }
        // The lock is checked after this.
        obj.set_resource_version(&version);
    }

    fn validate_status_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let (value, before) = (obj.value(), old.value());
        let mut errors = ErrorList::new();
        if let (Some(validator), Some(status)) = (self.validator.property("status"), value.get("status")) {
            errors.extend(validator.validate_part(status, before.get("status"), &Path::new("status")));
        }
        if let Some(paths) = &self.scale {
            errors.extend(paths.validate_status(&value));
        }
        if self.schema.validate_lists(&before).is_empty() {
            errors.extend(self.schema.validate_lists(&value));
        }
        self.refuse_rules(&mut errors);
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn wants_qualified_finalizers(&self) -> bool {
        false
    }

    fn generation(&self) -> Generation {
        Generation::AllButMetadata
    }

    fn field_labels(&self) -> Vec<Cow<'static, str>> {
        self.fields.names().map(|name| Cow::Owned(name.to_owned())).collect()
    }

    fn columns(&self) -> Vec<Column> {
        self.columns.columns()
    }

    fn cells(&self, obj: &Object, now: jiff::Timestamp) -> Vec<Value> {
        self.columns.cells(obj, now)
    }

    /// A definition's columns may look at anything.
    fn unprinted(&self) -> &'static [&'static str] {
        &[]
    }
}

/// What is odd about a finalizer.
fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    let place = format!("metadata.finalizers: {}: ", apimachinery::go::quote(finalizer));
    let mut warnings: Vec<String> = names::is_qualified_name(finalizer).into_iter().map(|text| format!("{place}{text}")).collect();
    if !finalizer.contains('/') && !meta::STANDARD_FINALIZERS.contains(&finalizer) {
        let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
        let text = format!("prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers");
        warnings.push(format!("{place}{text}"));
    }
    warnings
}
