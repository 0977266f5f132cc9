//! A new node is tainted not-ready until the node lifecycle controller has seen it ready.

use apimachinery::status::Status;
use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Admission, Attributes, Operation};
use crate::request::RequestContext;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Upstream's plugin of the same name.
pub(crate) struct TaintNodesByCondition;

#[async_trait]
impl Admission for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    async fn admit(&self, _ctx: &RequestContext, attributes: &mut Attributes) -> Result<(), Status> {
        if attributes.is("", "nodes")
            && let Some(node) = attributes.object.as_mut()
        {
            taint(node.0.entry("spec").or_insert_with(|| json!({})));
        }
        Ok(())
    }
}

fn taint(spec: &mut Value) {
    let mut taints: Vec<Value> = spec.get("taints").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_ours = |taint: &Value| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule";
    if spec.is_object() && !taints.iter().any(is_ours) {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        spec["taints"] = taints.into();
    }
}

#[cfg(test)]
mod tests {
    use super::super::test::{attributes, context};
    use super::*;

    #[tokio::test]
    async fn a_new_node_is_not_ready_once() {
        let mut create = attributes("", "nodes", Operation::Create, "", "n", Some(json!({})), None);
        for _ in 0..2 {
            TaintNodesByCondition.admit(&context(""), &mut create).await.unwrap();
            let node = create.object.as_ref().unwrap();
            assert_eq!(node.pointer("/spec/taints"), Some(&json!([{"key": NOT_READY, "effect": "NoSchedule"}])));
        }
    }
}
