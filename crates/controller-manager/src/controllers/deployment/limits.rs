//! How many pods a rolling update may add and take away. Pure.

use k8s_openapi::{
    api::apps::v1::{Deployment, RollingUpdateDeployment},
    apimachinery::pkg::util::intstr::IntOrString,
};

/// What upstream writes for "no limit", and reads as such.
const UNLIMITED: i32 = i32::MAX;

/// `spec.replicas`, one when absent.
pub(super) fn replicas(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Whether the strategy is a rolling update, which is the default.
pub(super) fn is_rolling(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()).is_none_or(|kind| kind == "RollingUpdate")
}

/// Pods allowed beyond `spec.replicas`.
pub(super) fn max_surge(deployment: &Deployment) -> i32 {
    if is_rolling(deployment) { fenceposts(deployment).0 } else { 0 }
}

/// Pods that may be missing from `spec.replicas`.
pub(super) fn max_unavailable(deployment: &Deployment) -> i32 {
    let wanted = replicas(deployment);
    if is_rolling(deployment) && wanted > 0 { fenceposts(deployment).1.min(wanted) } else { 0 }
}

/// Surge rounds up and unavailability down; if both come out as zero, one pod may be missing, or nothing could ever move.
fn fenceposts(deployment: &Deployment) -> (i32, i32) {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.clone()).unwrap_or(RollingUpdateDeployment {
        max_surge: Some(IntOrString::String("25%".into())),
        max_unavailable: Some(IntOrString::String("25%".into())),
    });
    let wanted = replicas(deployment);
    let surge = scaled(rolling.max_surge.as_ref(), wanted, Rounding::Up);
    let unavailable = scaled(rolling.max_unavailable.as_ref(), wanted, Rounding::Down);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

/// Which way a fraction of a pod goes.
#[derive(Clone, Copy)]
pub(crate) enum Rounding {
    Up,
    Down,
}

/// An absolute number, or a percentage of `total`; zero for what is neither.
pub(crate) fn scaled(value: Option<&IntOrString>, total: i32, rounding: Rounding) -> i32 {
    match value {
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent: i64 = text.strip_suffix('%').and_then(|percent| percent.parse().ok()).unwrap_or(0);
            let product = percent.saturating_mul(i64::from(total));
            let rounded = match rounding {
                Rounding::Up => product.div_euclid(100) + i64::from(product.rem_euclid(100) > 0),
                Rounding::Down => product.div_euclid(100),
            };
            i32::try_from(rounded).unwrap_or(i32::MAX)
        }
        None => 0,
    }
}

/// Seconds a rollout may go without progress, if that is limited.
pub(super) fn progress_deadline(deployment: &Deployment) -> Option<i32> {
    let seconds = deployment.spec.as_ref().and_then(|spec| spec.progress_deadline_seconds);
    seconds.filter(|seconds| *seconds != UNLIMITED)
}

/// Old ReplicaSets to keep, if that is limited.
pub(super) fn history_limit(deployment: &Deployment) -> Option<i32> {
    let limit = deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit);
    limit.filter(|limit| *limit != UNLIMITED)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::{Value, json};

    use super::{max_surge, max_unavailable};

    fn limits(replicas: i32, surge: Value, unavailable: Value) -> (i32, i32) {
        let deployment: Deployment = serde_json::from_value(json!({"spec": {
            "replicas": replicas, "selector": {}, "template": {},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
        }}))
        .unwrap();
        (max_surge(&deployment), max_unavailable(&deployment))
    }

    #[test]
    fn surge_rounds_up_and_unavailability_down() {
        assert_eq!(limits(3, json!("25%"), json!("25%")), (1, 0));
        assert_eq!(limits(10, json!("25%"), json!("25%")), (3, 2));
        assert_eq!(limits(10, json!(4), json!("50%")), (4, 5));
    }

    #[test]
    fn one_pod_may_always_move() {
        assert_eq!(limits(3, json!(0), json!("10%")), (0, 1));
        assert_eq!(limits(0, json!("25%"), json!("25%")), (0, 0));
    }

    #[test]
    fn no_more_pods_can_be_missing_than_there_are() {
        assert_eq!(limits(2, json!(0), json!(5)), (0, 2));
    }
}
