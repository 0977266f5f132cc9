//! What a disruption budget says to the eviction of a pod. Pure.

use apimachinery::{
    Object,
    gvk::GroupResource,
    status::{Status, cause},
    time::format_rfc3339_seconds,
};
use serde_json::{Value, json};

use crate::registry::{
    edit::{default_to, ensure_object},
    selectors,
};

/// Disrupted pods a budget remembers at most; the controller clears them.
const MAX_DISRUPTED: usize = 2000;
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Pods that do not run yet or any more, or are going already, disrupt nobody.
pub(super) fn ignores(pod: &Object) -> bool {
    matches!(pod.str_at("/status/phase"), "Succeeded" | "Failed" | "Pending") || pod.deletion_timestamp().is_some()
}

/// Whether the budget is about the pod.
pub(super) fn covers(budget: &Object, pod: &Object) -> bool {
    let labels = pod.meta().get("labels").and_then(Value::as_object).cloned().unwrap_or_default();
    budget.pointer("/spec/selector").is_some_and(|selector| selectors::matches(selector, &labels))
}

/// Whether the pod may go without a charge: it is not ready, so that the budget does not count it, and either the budget is
/// met all the same or lets such pods go always.
pub(super) fn spares(budget: &Object, pod: &Object) -> bool {
    let ready = |c: &Value| c["type"] == "Ready" && c["status"] == "True";
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    if conditions.is_some_and(|list| list.iter().any(ready)) {
        return false;
    }
    let (healthy, desired) = (count(budget, "currentHealthy"), count(budget, "desiredHealthy"));
    budget.str_at("/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow" || (healthy >= desired && desired > 0)
}

/// Takes one disruption from the budget, or says why not.
pub(super) fn charge(budget: &mut Object, pod: &str, now: jiff::Timestamp) -> Result<(), Status> {
    let name = budget.name().to_owned();
    if count(budget, "observedGeneration") < budget.generation() {
        return Err(being_processed(&name));
    }
    let allowed = count(budget, "disruptionsAllowed");
    let forbid = |why: &str| Err(Status::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), &name, why));
    if allowed < 0 {
        return forbid("pdb disruptions allowed is negative");
    }
    let disrupted = budget.pointer("/status/disruptedPods").and_then(Value::as_object).map_or(0, serde_json::Map::len);
    if disrupted > MAX_DISRUPTED {
        return forbid("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        let (desired, healthy) = (count(budget, "desiredHealthy"), count(budget, "currentHealthy"));
        return Err(refused(format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"), 0));
    }
    let generation = count(budget, "observedGeneration");
    let status = ensure_object(&mut budget.0, "status");
    status.insert("disruptionsAllowed".into(), (allowed - 1).into());
    if allowed == 1 {
        exhausted(status, generation, now);
    }
    ensure_object(status, "disruptedPods").insert(pod.to_owned(), format_rfc3339_seconds(now).into());
    Ok(())
}

/// The refusal while the budget's status is not up to date.
pub(super) fn being_processed(name: &str) -> Status {
    refused(format!("The disruption budget {name} is still being processed by the server."), 10)
}

/// The refusal of a pod with several budgets.
pub(super) fn more_than_one() -> Status {
    Status::failure(500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
}

fn refused(why: String, retry_after: i32) -> Status {
    Status::too_many_requests(REFUSED, retry_after).with_cause(cause::DISRUPTION_BUDGET, why, "")
}

fn count(budget: &Object, field: &str) -> i64 {
    budget.pointer(&format!("/status/{field}")).and_then(Value::as_i64).unwrap_or(0)
}

/// Shows at once that nothing more may go; the controller would say so a little later.
fn exhausted(status: &mut serde_json::Map<String, Value>, generation: i64, now: jiff::Timestamp) {
    default_to(status, "conditions", json!([]));
    let Some(Value::Array(conditions)) = status.get_mut("conditions") else { return };
    let wanted = json!({"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
        "observedGeneration": generation, "lastTransitionTime": format_rfc3339_seconds(now)});
    match conditions.iter_mut().find(|condition| condition["type"] == "DisruptionAllowed") {
        Some(current) if current["status"] == "False" => {
            let since = current["lastTransitionTime"].take();
            *current = wanted;
            current["lastTransitionTime"] = since;
        }
        Some(current) => *current = wanted,
        None => conditions.push(wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(allowed: i64) -> Object {
        let status = json!({"disruptionsAllowed": allowed, "desiredHealthy": 2, "currentHealthy": 2, "observedGeneration": 1,
            "conditions": [{"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
                "lastTransitionTime": "2025-01-01T00:00:00Z"}]});
        Object::from_value(json!({"metadata": {"name": "b", "generation": 1}, "status": status})).unwrap()
    }

    fn now() -> jiff::Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_spent_budget_refuses() {
        let refused = charge(&mut budget(0), "p", now()).err().unwrap();
        assert_eq!((refused.code, refused.message.as_str(), refused.retry_after_seconds()), (429, REFUSED, None));
        let cause = &refused.causes()[0];
        assert_eq!(
            (cause.reason.as_str(), cause.message.as_str()),
            ("DisruptionBudget", "The disruption budget b needs 2 healthy pods and has 2 currently")
        );
    }

    #[test]
    fn a_filled_budget_is_charged_and_says_when_it_is_spent() {
        let mut filled = budget(2);
        charge(&mut filled, "p", now()).unwrap();
        assert_eq!(filled.0["status"]["disruptionsAllowed"], 1);
        assert_eq!(filled.0["status"]["disruptedPods"]["p"], "2026-01-01T00:00:00Z");
        assert_eq!(filled.0["status"]["conditions"][0]["status"], "True");
        charge(&mut filled, "q", now()).unwrap();
        let condition = &filled.0["status"]["conditions"][0];
        assert_eq!(
            (&condition["status"], &condition["reason"], &condition["lastTransitionTime"]),
            (&json!("False"), &json!("InsufficientPods"), &json!("2026-01-01T00:00:00Z"))
        );
    }

    #[test]
    fn a_budget_whose_status_lags_asks_for_patience() {
        let mut stale = budget(1);
        stale.set_generation(2);
        let refused = charge(&mut stale, "p", now()).err().unwrap();
        assert_eq!((refused.code, refused.retry_after_seconds()), (429, Some(10)));
        assert_eq!(refused.causes()[0].message, "The disruption budget b is still being processed by the server.");
    }

    #[test]
    fn a_negative_budget_forbids() {
        let refused = charge(&mut budget(-1), "p", now()).err().unwrap();
        assert_eq!(refused.code, 403);
        assert_eq!(refused.message, "poddisruptionbudget.policy \"b\" is forbidden: pdb disruptions allowed is negative");
    }

    #[test]
    fn a_pod_that_is_not_ready_is_spared_when_the_budget_is_met_or_always_allows() {
        let pod = |ready: &str| {
            let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
            Object::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap()
        };
        let mut short = budget(0);
        assert!(spares(&short, &pod("False")) && !spares(&short, &pod("True")));
        short.0["status"]["currentHealthy"] = json!(1);
        assert!(!spares(&short, &pod("False")));
        ensure_object(&mut short.0, "spec").insert("unhealthyPodEvictionPolicy".into(), "AlwaysAllow".into());
        assert!(spares(&short, &pod("False")) && !spares(&short, &pod("True")));
    }
}
