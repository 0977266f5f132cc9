//! `pods/eviction`: deletes a pod if no disruption budget forbids it.

use apimachinery::{Object, status::Status};
use async_trait::async_trait;
use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    loopback::Loopback,
    registry::{Answer, Call, Connect, selectors},
    request::RequestContext,
};

/// Serves an Eviction.
pub(crate) struct Evict;

/// Disrupted pods a budget remembers at most; the controller clears them.
const MAX_DISRUPTED: usize = 2000;
const TRIES: usize = 5;

#[async_trait]
impl Connect for Evict {
    async fn call(&self, ctx: &RequestContext, api: &Loopback, call: Call) -> Result<Answer, Status> {
        let eviction = call.body.unwrap_or_default();
        let pods = api.namespaced("v1", "pods", ctx.namespace());
        let pod = pods.get(&call.name).await?;
        let options = eviction.0.get("deleteOptions").cloned().unwrap_or_else(|| json!({}));
        let dry_run = ctx.dry_run || options.pointer("/dryRun/0").is_some();
        if !goes_unasked(&pod) {
            take_from_budget(ctx, api, &pod, dry_run).await?;
        }
        let mut options = with_uid(options, &pod);
        if dry_run {
            options["dryRun"] = json!(["All"]);
        }
        pods.delete(&call.name, &options).await?;
        Ok(Answer::Object(StatusCode::CREATED, success()))
    }
}

/// Pods that do not run, or are going already, disrupt nobody.
fn goes_unasked(pod: &Object) -> bool {
    let phase = pod.str_at("/status/phase");
    matches!(phase, "Succeeded" | "Failed" | "Pending") || pod.deletion_timestamp().is_some()
}

fn with_uid(mut options: Value, pod: &Object) -> Value {
    if options.pointer("/preconditions/uid").is_none() {
        options["preconditions"] = json!({"uid": pod.uid()});
    }
    options
}

fn success() -> Object {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Object::from_value(status).unwrap_or_default()
}

async fn take_from_budget(ctx: &RequestContext, api: &Loopback, pod: &Object, dry_run: bool) -> Result<(), Status> {
    let budgets = api.namespaced("policy/v1", "poddisruptionbudgets", ctx.namespace());
    let mut last = None;
    for _ in 0..TRIES {
        let all = budgets.list("").await?.items;
        let mut matching = all.into_iter().filter(|budget| covers(budget, pod));
        let Some(mut budget) = matching.next() else { return Ok(()) };
        if matching.next().is_some() {
            let text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Status::failure(500, "", text));
        }
        if unhealthy_may_go(&budget, pod) {
            return Ok(());
        }
        charge(&mut budget, pod.name(), ctx.now)?;
        if dry_run {
            return Ok(());
        }
        match budgets.update_sub("status", &budget).await {
            Ok(_) => return Ok(()),
            Err(status) if status.code == 409 => last = Some(status),
            Err(status) => return Err(status),
        }
    }
    Err(last.unwrap_or_else(|| Status::internal("couldn't update PodDisruptionBudget")))
}

fn covers(budget: &Object, pod: &Object) -> bool {
    let labels = pod.meta().get("labels").and_then(Value::as_object).cloned().unwrap_or_default();
    budget.pointer("/spec/selector").is_some_and(|selector| selectors::matches(selector, &labels))
}

/// A pod that is not ready may go if the budget is met without it, or always by policy.
fn unhealthy_may_go(budget: &Object, pod: &Object) -> bool {
    let ready = |c: &Value| c["type"] == "Ready" && c["status"] == "True";
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    if conditions.is_some_and(|list| list.iter().any(ready)) {
        return false;
    }
    let number = |pointer| budget.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let (healthy, desired) = (number("/status/currentHealthy"), number("/status/desiredHealthy"));
    budget.str_at("/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow" || (healthy >= desired && desired > 0)
}

/// Takes one disruption from the budget, or says why not.
fn charge(budget: &mut Object, pod: &str, now: jiff::Timestamp) -> Result<(), Status> {
    let name = budget.name().to_owned();
    let number = |budget: &Object, pointer| budget.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let refuse = |message: String, retry| {
        Err(Status::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", retry).with_cause(
            "DisruptionBudget",
            message,
            "",
        ))
    };
    if number(budget, "/status/observedGeneration") < budget.generation() {
        return refuse(format!("The disruption budget {name} is still being processed by the server."), 10);
    }
    let allowed = number(budget, "/status/disruptionsAllowed");
    if allowed < 0 {
        return Err(Status::internal("pdb disruptions allowed is negative"));
    }
    let disrupted = budget.pointer("/status/disruptedPods").and_then(Value::as_object).map_or(0, serde_json::Map::len);
    if disrupted > MAX_DISRUPTED {
        return Err(Status::internal("DisruptedPods map too big - too many evictions not confirmed by PDB controller"));
    }
    if allowed == 0 {
        let (desired, healthy) = (number(budget, "/status/desiredHealthy"), number(budget, "/status/currentHealthy"));
        return refuse(format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"), 0);
    }
    let status = crate::registry::edit::ensure_object(&mut budget.0, "status");
    status.insert("disruptionsAllowed".into(), (allowed - 1).into());
    let pods = crate::registry::edit::ensure_object(status, "disruptedPods");
    pods.insert(pod.to_owned(), apimachinery::time::format_rfc3339_seconds(now).into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spent_budget_refuses_and_a_filled_one_is_charged() {
        let budget = |allowed: i64| {
            let status = json!({"disruptionsAllowed": allowed, "desiredHealthy": 2, "currentHealthy": 2, "observedGeneration": 1});
            Object::from_value(json!({"metadata": {"name": "b", "generation": 1}, "status": status})).unwrap()
        };
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let refused = charge(&mut budget(0), "p", now).err().unwrap();
        assert_eq!(refused.code, 429);
        assert_eq!(refused.causes()[0].message, "The disruption budget b needs 2 healthy pods and has 2 currently");
        let mut filled = budget(1);
        charge(&mut filled, "p", now).unwrap();
        assert_eq!(filled.0["status"]["disruptionsAllowed"], 0);
        assert_eq!(filled.0["status"]["disruptedPods"]["p"], "2026-01-01T00:00:00Z");
    }
}
