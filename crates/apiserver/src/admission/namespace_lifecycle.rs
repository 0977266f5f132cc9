//! Nothing is created in a namespace that is missing or going away; the built-in namespaces stay.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::gvk::GroupResource;
use apimachinery::status::{Cause, Status, cause};
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Admission, Attributes, Operation};
use crate::informer::{Cache, feed};
use crate::loopback::Loopback;
use crate::request::RequestContext;

const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];
/// For so long after a namespace's deletion its state is read from the store: the informer may not know yet.
const DISTRUST: Duration = Duration::from_secs(30);

/// Upstream's plugin of the same name.
pub(crate) struct NamespaceLifecycle {
    api: Loopback,
    phases: Arc<Cache<Phase>>,
    deleted: Mutex<HashMap<String, Instant>>,
}

/// Whether a namespace takes new objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Active,
    Terminating,
}

fn phase(namespace: &apimachinery::Object) -> Phase {
    let terminating = namespace.str_at("/status/phase") == "Terminating";
    if terminating { Phase::Terminating } else { Phase::Active }
}

impl NamespaceLifecycle {
    pub(crate) fn new(api: Loopback) -> Self {
        Self { api, phases: Cache::new(|namespace| Some(phase(&namespace))), deleted: Mutex::default() }
    }

    /// Follows namespaces; runs until dropped.
    pub(crate) async fn run(&self, api: &Loopback) {
        feed(api.api("v1", "namespaces"), self.phases.clone()).await;
    }

    fn distrusts(&self, namespace: &str) -> bool {
        let mut deleted = self.deleted.lock();
        deleted.retain(|_, at| at.elapsed() < DISTRUST);
        deleted.contains_key(namespace)
    }

    /// The namespace's phase. Errors: its `NotFound`.
    async fn phase(&self, namespace: &str) -> Result<Phase, Status> {
        match self.phases.get("", namespace) {
            Some(known) if !self.distrusts(namespace) => Ok(*known),
            _ => self
                .api
                .api("v1", "namespaces")
                .get(namespace)
                .await
                .map(|found| phase(&found))
                .map_err(|status| not_found(status, namespace)),
        }
    }
}

fn not_found(status: Status, namespace: &str) -> Status {
    if status.code == 404 { Status::not_found(&GroupResource::new("", "namespaces"), namespace) } else { status }
}

#[async_trait]
impl Admission for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation != Operation::Connect
    }

    async fn admit(&self, ctx: &RequestContext, attributes: &mut Attributes) -> Result<(), Status> {
        if attributes.resource.group.is_empty() && attributes.resource.plural == "namespaces" {
            return self.admit_namespace(ctx, attributes);
        }
        let review = attributes.resource.group == "authorization.k8s.io";
        if attributes.namespace.is_empty() || attributes.operation == Operation::Delete || review {
            return Ok(());
        }
        let phase = self.phase(&attributes.namespace).await?;
        if attributes.operation == Operation::Create && phase == Phase::Terminating {
            return Err(terminating(attributes));
        }
        Ok(())
    }
}

impl NamespaceLifecycle {
    fn admit_namespace(&self, ctx: &RequestContext, attributes: &Attributes) -> Result<(), Status> {
        if attributes.operation != Operation::Delete {
            return Ok(());
        }
        if PROTECTED.contains(&attributes.name.as_str()) {
            return Err(attributes.forbidden("this namespace may not be deleted"));
        }
        if !ctx.dry_run {
            self.deleted.lock().insert(attributes.name.clone(), Instant::now());
        }
        Ok(())
    }
}

fn terminating(attributes: &Attributes) -> Status {
    let namespace = &attributes.namespace;
    let mut status = attributes.forbidden(format!("unable to create new content in namespace {namespace} because it is being terminated"));
    let why = Cause {
        reason: cause::NAMESPACE_TERMINATING.to_owned(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    };
    status.details.get_or_insert_default().causes.push(why);
    status
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test::{attributes, context};
    use super::*;
    use crate::informer::Sink as _;

    fn plugin() -> NamespaceLifecycle {
        let plugin = NamespaceLifecycle::new(Loopback::default());
        for (name, phase) in [("a", "Active"), ("t", "Terminating")] {
            let namespace = json!({"metadata": {"name": name}, "status": {"phase": phase}});
            plugin.phases.upsert(apimachinery::Object::from_value(namespace).unwrap());
        }
        plugin
    }

    #[tokio::test]
    async fn nothing_new_in_a_namespace_that_goes_away() {
        let create = |namespace: &str| attributes("", "configmaps", Operation::Create, namespace, "x", Some(json!({})), None);
        assert!(plugin().admit(&context(""), &mut create("a")).await.is_ok());
        let refused = plugin().admit(&context(""), &mut create("t")).await.unwrap_err();
        let text = r#"configmaps "x" is forbidden: unable to create new content in namespace t because it is being terminated"#;
        assert_eq!((refused.code, refused.message.as_str()), (403, text));
        assert_eq!(refused.causes()[0].reason, "NamespaceTerminating");
        let mut update = attributes("", "configmaps", Operation::Update, "t", "x", Some(json!({})), Some(json!({})));
        assert!(plugin().admit(&context(""), &mut update).await.is_ok());
        let mut delete = attributes("", "configmaps", Operation::Delete, "gone", "x", None, Some(json!({})));
        assert!(plugin().admit(&context(""), &mut delete).await.is_ok());
    }

    #[tokio::test]
    async fn the_built_in_namespaces_stay() {
        let delete = |name: &str| attributes("", "namespaces", Operation::Delete, name, name, None, Some(json!({})));
        let refused = plugin().admit(&context(""), &mut delete("default")).await.unwrap_err();
        assert_eq!(refused.message, r#"namespaces "default" is forbidden: this namespace may not be deleted"#);
        assert!(plugin().admit(&context(""), &mut delete("kube-node-lease")).await.is_ok());
    }

    #[tokio::test]
    async fn a_deleted_namespace_is_looked_up_anew() {
        let plugin = plugin();
        let mut delete = attributes("", "namespaces", Operation::Delete, "a", "a", None, Some(json!({})));
        plugin.admit(&context(""), &mut delete).await.unwrap();
        assert!(plugin.distrusts("a") && !plugin.distrusts("t"));
    }
}
