//! A pod stays five minutes on a node that is not ready or unreachable, unless it says otherwise.

use apimachinery::status::Status;
use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Admission, Attributes, Operation};
use crate::request::RequestContext;

const SECONDS: i64 = 300;
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Upstream's plugin of the same name.
pub(crate) struct DefaultTolerationSeconds;

#[async_trait]
impl Admission for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    async fn admit(&self, _ctx: &RequestContext, attributes: &mut Attributes) -> Result<(), Status> {
        if attributes.is("", "pods")
            && let Some(spec) = attributes.object.as_mut().and_then(|pod| pod.pointer_mut("/spec"))
        {
            tolerate(spec);
        }
        Ok(())
    }
}

fn tolerate(spec: &mut Value) {
    let given: Vec<Value> = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
    let missing = TAINTS.iter().filter(|taint| !given.iter().any(|toleration| covers(toleration, taint)));
    let added = missing.map(|taint| json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}));
    let all: Vec<Value> = given.iter().cloned().chain(added).collect();
    if all.len() > given.len() {
        spec["tolerations"] = all.into();
    }
}

fn covers(toleration: &Value, taint: &str) -> bool {
    let text = |field| toleration.get(field).and_then(Value::as_str).unwrap_or_default();
    matches!(text("effect"), "" | "NoExecute") && (text("key").is_empty() || text("key") == taint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(tolerations: Value) -> Vec<String> {
        let mut spec = json!({"tolerations": tolerations});
        tolerate(&mut spec);
        spec["tolerations"].as_array().unwrap().iter().map(|toleration| toleration["key"].as_str().unwrap_or("").to_owned()).collect()
    }

    #[test]
    fn what_is_not_said_is_added() {
        assert_eq!(keys(json!([])), TAINTS);
        assert_eq!(keys(json!([{"key": TAINTS[0], "operator": "Exists", "effect": "NoExecute"}])), TAINTS);
        assert_eq!(keys(json!([{"key": TAINTS[0], "effect": "NoSchedule"}])), [TAINTS[0], TAINTS[0], TAINTS[1]]);
        assert_eq!(keys(json!([{"operator": "Exists"}])), [""]);
    }
}
