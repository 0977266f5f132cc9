//! What `kubectl apply` on the client left behind: the annotation with the configuration it applied last.

use serde_json::Value;

use super::typed::Type;
use super::{Context, members, set, walk};
use crate::object::Object;

pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields whose live values are those of the last client-side apply, as printed paths; `kubectl` may take these over.
pub(super) fn last_applied_fields(live: &Object, cx: &Context<'_>) -> Vec<String> {
    let Some(last) = live.annotation(LAST_APPLIED).and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return Vec::new();
    };
    let ty = Type::of(cx.schema);
    let comparison = walk::compare(ty, &live.0, members(&last));
    let same = walk::fields(ty, &last).difference(&comparison.changed()).difference(&comparison.removed);
    same.paths().iter().map(|path| set::print(path)).collect()
}

/// The annotation that client-side apply would have written.
pub(super) fn last_applied(config: &Value) -> String {
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.pointer_mut("/metadata/annotations") {
        annotations.remove(LAST_APPLIED);
    }
    format!("{}\n", crate::go::json(&config))
}
