//! The words that describe kinds and fields. They are upstream's, and come with `k8s-openapi`; nothing keeps them after a document is
//! written.

use std::{borrow::Cow, collections::BTreeSet};

use k8s_openapi as k8s;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use super::Descriptions;

type Kind = (fn() -> Cow<'static, str>, fn(&mut SchemaGenerator) -> Schema);

macro_rules! kinds {
    (@one ($($part:ident)::+) $kind:ident) => {
        (<k8s::$($part)::+::$kind as JsonSchema>::schema_name, SchemaGenerator::subschema_for::<k8s::$($part)::+::$kind>)
    };
    ($($module:tt { $($kind:ident)+ })+) => {
        &[$($(kinds!(@one $module $kind),)+)+]
    };
}

/// The kinds from which all definitions can be reached.
const KINDS: &[Kind] = kinds! {
    (api::admissionregistration::v1) {
        MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
        ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
    }
    (api::apps::v1) { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet }
    (api::authentication::v1) { SelfSubjectReview TokenRequest TokenReview }
    (api::authorization::v1) { LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview }
    (api::autoscaling::v1) { HorizontalPodAutoscaler Scale }
    (api::autoscaling::v2) { HorizontalPodAutoscaler }
    (api::batch::v1) { CronJob Job }
    (api::certificates::v1) { CertificateSigningRequest }
    (api::coordination::v1) { Lease }
    (api::core::v1) {
        Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod
        PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount
    }
    (api::discovery::v1) { EndpointSlice }
    (api::events::v1) { Event }
    (api::flowcontrol::v1) { FlowSchema PriorityLevelConfiguration }
    (api::networking::v1) { IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR }
    (api::node::v1) { RuntimeClass }
    (api::policy::v1) { Eviction PodDisruptionBudget }
    (api::rbac::v1) { ClusterRole ClusterRoleBinding Role RoleBinding }
    (api::resource::v1) { DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice }
    (api::scheduling::v1) { PriorityClass }
    (api::storage::v1) { CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass }
    (apiextensions_apiserver::pkg::apis::apiextensions::v1) { CustomResourceDefinition }
    (apimachinery::pkg::apis::meta::v1) { APIGroup APIResourceList DeleteOptions ListMeta ObjectMeta Status }
    (kube_aggregator::pkg::apis::apiregistration::v1) { APIService }
};

/// The descriptions of the named kinds and all they refer to.
pub(super) fn of(kinds: &BTreeSet<String>) -> Descriptions {
    let mut generator = SchemaGenerator::default();
    for (name, generate) in KINDS {
        if kinds.contains(&*name()) {
            generate(&mut generator);
        }
    }
    generator.take_definitions(false).into_iter().map(|(name, schema)| (name, read(&schema))).collect()
}

/// The description of one field of a kind of the table above; empty where there is none.
pub(crate) fn field(kind: &str, field: &str) -> String {
    let described = of(&BTreeSet::from([kind.to_owned()])).remove(kind);
    described.and_then(|(_, mut fields)| fields.remove(field)).unwrap_or_default()
}

fn read(schema: &Value) -> (String, std::collections::BTreeMap<String, String>) {
    let text = |value: &Value| value.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    (text(schema), fields.map(|(name, field)| (name.clone(), text(field))).collect())
}
