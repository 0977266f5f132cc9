//! What a node may do with pods: mirror its static ones, report on its own, ask tokens for them.

use apimachinery::Object;
use serde_json::Value;

use super::super::service_account::{items, names_secret};
use super::super::{Attributes, Operation};
use super::Verdict;

const MIRROR: &str = "kubernetes.io/config.mirror";

/// Only mirror pods: bound to the node, owned by it, and carrying nothing that opens the API.
pub(super) fn create(node: &str, node_uid: Option<&str>, attributes: &Attributes) -> Verdict {
    let nothing = Object::default();
    let pod = attributes.object.as_ref().unwrap_or(&nothing);
    if pod.annotation(MIRROR).is_none() {
        return Err(format!("pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods"));
    }
    if pod.str_at("/spec/nodeName") != node {
        return Err(format!("node {node:?} can only create pods with spec.nodeName set to itself"));
    }
    owner(node, node_uid, pod)?;
    let spec = pod.pointer("/spec").unwrap_or(&Value::Null);
    let refused = |what: &str| Err(format!("node {node:?} can not create pods that reference {what}"));
    if !pod.str_at("/spec/serviceAccountName").is_empty() {
        return refused("a service account");
    }
    if names_secret(spec) {
        return refused("secrets");
    }
    if names(spec, &["configMap", "configMapRef", "configMapKeyRef"]) {
        return refused("configmaps");
    }
    if items(spec, "volumes").any(|volume| volume.get("persistentVolumeClaim").is_some()) {
        return refused("persistentvolumeclaims");
    }
    if items(spec, "resourceClaims").next().is_some() {
        return refused("resourceclaims");
    }
    Ok(())
}

fn owner(node: &str, node_uid: Option<&str>, pod: &Object) -> Verdict {
    let owners = pod.owner_references();
    let owner = match owners.as_slice() {
        [] => return Err(format!("node {node:?} can only create pods with an owner reference set to itself")),
        [owner] => owner,
        _ => return Err(format!("node {node:?} can only create pods with a single owner reference set to itself")),
    };
    if owner.api_version != "v1" || owner.kind != "Node" || owner.name != node {
        return Err(format!("node {node:?} can only create pods with an owner reference set to itself"));
    }
    if owner.controller != Some(true) {
        return Err(format!("node {node:?} can only create pods with a controller owner reference set to itself"));
    }
    if owner.block_owner_deletion == Some(true) {
        return Err(format!("node {node:?} must not set blockOwnerDeletion on an owner reference"));
    }
    match node_uid {
        Some(uid) if uid == owner.uid => Ok(()),
        Some(uid) => Err(format!("node {node} UID mismatch: expected {} got {uid}", owner.uid)),
        None => Err(format!("node {node:?} not found")),
    }
}

/// Whether one of these fields appears anywhere.
fn names(value: &Value, fields: &[&str]) -> bool {
    match value {
        Value::Object(object) => object.iter().any(|(name, value)| fields.contains(&name.as_str()) || names(value, fields)),
        Value::Array(items) => items.iter().any(|item| names(item, fields)),
        _ => false,
    }
}

pub(super) fn status(node: &str, attributes: &Attributes) -> Verdict {
    if attributes.operation != Operation::Update {
        return Err(format!("unexpected operation {:?}", attributes.operation.as_str()));
    }
    let nothing = Object::default();
    let (new, old) = (attributes.object.as_ref().unwrap_or(&nothing), attributes.old_object.as_ref().unwrap_or(&nothing));
    if old.str_at("/spec/nodeName") != node {
        return Err(format!("node {node:?} can only update pod status for pods with spec.nodeName set to itself"));
    }
    if new.labels() != old.labels() {
        return Err(format!("node {node:?} cannot update labels through pod status"));
    }
    for (field, what) in
        [("resourceClaimStatuses", "resource claim statuses"), ("extendedResourceClaimStatus", "extended resource claim status")]
    {
        let pointer = format!("/status/{field}");
        if new.pointer(&pointer) != old.pointer(&pointer) {
            return Err(format!("node {node:?} cannot update {what}"));
        }
    }
    Ok(())
}

/// A token request bound to `existing`, by a node.
pub(super) fn token(node: &str, request: &Object, existing: &Object) -> Verdict {
    let uid = request.str_at("/spec/boundObjectRef/uid");
    if uid != existing.uid() {
        return Err(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        ));
    }
    if existing.str_at("/spec/nodeName") != node {
        return Err("node requested token bound to a pod scheduled on a different node".to_owned());
    }
    let audiences: Vec<&str> =
        request.pointer("/spec/audiences").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    match audiences.as_slice() {
        [] | [""] => Ok(()),
        [audience] if projects(existing, audience) => Ok(()),
        [audience] => Err(format!(
            "audience {audience:?} not found in pod spec volume, node {node:?} not authorized to request-serviceaccounts-token-audience this audience"
        )),
        _ => Err("node may only request 0 or 1 audiences".to_owned()),
    }
}

/// Whether a volume of the pod projects a token for this audience.
fn projects(pod: &Object, audience: &str) -> bool {
    let spec = pod.pointer("/spec").unwrap_or(&Value::Null);
    let mut sources = items(spec, "volumes").filter_map(|volume| volume.get("projected")).flat_map(|projected| items(projected, "sources"));
    sources.any(|source| source.pointer("/serviceAccountToken/audience").and_then(Value::as_str) == Some(audience))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::test::attributes;
    use super::*;

    fn mirror(spec: Value) -> Attributes {
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u", "controller": true}]);
        let pod = json!({"metadata": {"annotations": {MIRROR: "x"}, "ownerReferences": owner}, "spec": spec});
        attributes("", "pods", Operation::Create, "n", "p", Some(pod), None)
    }

    #[test]
    fn a_node_creates_mirror_pods_of_its_own() {
        assert_eq!(create("a", Some("u"), &mirror(json!({"nodeName": "a"}))), Ok(()));
        assert!(create("a", Some("v"), &mirror(json!({"nodeName": "a"}))).is_err());
        assert!(create("a", Some("u"), &mirror(json!({"nodeName": "b"}))).is_err());
        let plain = attributes("", "pods", Operation::Create, "n", "p", Some(json!({"spec": {"nodeName": "a"}})), None);
        let text = r#"pod does not have "kubernetes.io/config.mirror" annotation, node "a" can only create mirror pods"#;
        assert_eq!(create("a", Some("u"), &plain), Err(text.to_owned()));
        let with_map = json!({"nodeName": "a", "volumes": [{"configMap": {"name": "c"}}]});
        assert_eq!(create("a", Some("u"), &mirror(with_map)), Err(r#"node "a" can not create pods that reference configmaps"#.to_owned()));
    }

    #[test]
    fn a_node_reports_on_its_own_pods_and_leaves_labels_alone() {
        let pod = |node: &str, labels: Value| Some(json!({"metadata": {"labels": labels}, "spec": {"nodeName": node}}));
        let update = |new, old| status("a", &attributes("", "pods/status", Operation::Update, "n", "p", new, old));
        assert_eq!(update(pod("a", json!({})), pod("a", json!({}))), Ok(()));
        assert!(update(pod("b", json!({})), pod("b", json!({}))).is_err());
        assert_eq!(
            update(pod("a", json!({"x": "y"})), pod("a", json!({}))),
            Err(r#"node "a" cannot update labels through pod status"#.to_owned())
        );
    }

    #[test]
    fn a_node_asks_tokens_of_its_pods_for_audiences_they_project() {
        let pod = json!({
            "metadata": {"uid": "u"},
            "spec": {"nodeName": "a", "volumes": [{"projected": {"sources": [{"serviceAccountToken": {"audience": "vault"}}]}}]},
        });
        let pod = Object::from_value(pod).unwrap();
        let ask = |node: &str, uid: &str, audiences: Value| {
            let request = json!({"spec": {"audiences": audiences, "boundObjectRef": {"uid": uid}}});
            token(node, &Object::from_value(request).unwrap(), &pod)
        };
        assert_eq!(ask("a", "u", json!([])), Ok(()));
        assert_eq!(ask("a", "u", json!(["vault"])), Ok(()));
        assert!(ask("a", "u", json!(["other"])).is_err());
        assert!(ask("a", "v", json!([])).is_err());
        assert!(ask("b", "u", json!([])).is_err());
    }
}
