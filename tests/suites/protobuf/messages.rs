//! A few of upstream's messages, with the numbers of its `generated.proto` files: written by `prost`, not by the server's own codec.

use std::collections::BTreeMap;

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TypeMeta {
    #[prost(string, tag = "1")]
    pub(crate) api_version: String,
    #[prost(string, tag = "2")]
    pub(crate) kind: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Unknown {
    #[prost(message, optional, tag = "1")]
    pub(crate) type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) raw: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Time {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(crate) nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ObjectMeta {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "3")]
    pub(crate) namespace: String,
    #[prost(string, tag = "5")]
    pub(crate) uid: String,
    #[prost(string, tag = "6")]
    pub(crate) resource_version: String,
    #[prost(int64, tag = "7")]
    pub(crate) generation: i64,
    #[prost(message, optional, tag = "8")]
    pub(crate) creation_timestamp: Option<Time>,
    #[prost(btree_map = "string, string", tag = "11")]
    pub(crate) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListMeta {
    #[prost(string, tag = "2")]
    pub(crate) resource_version: String,
    #[prost(string, tag = "3")]
    pub(crate) continue_token: String,
    #[prost(int64, optional, tag = "4")]
    pub(crate) remaining_item_count: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ConfigMap {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ObjectMeta>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) data: BTreeMap<String, String>,
    #[prost(btree_map = "string, bytes", tag = "3")]
    pub(crate) binary_data: BTreeMap<String, Vec<u8>>,
    #[prost(bool, optional, tag = "4")]
    pub(crate) immutable: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ConfigMapList {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) items: Vec<ConfigMap>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartialObjectMetadata {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ObjectMeta>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartialObjectMetadataList {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) items: Vec<PartialObjectMetadata>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct IntOrString {
    #[prost(int64, tag = "1")]
    pub(crate) kind: i64,
    #[prost(int32, tag = "2")]
    pub(crate) number: i32,
    #[prost(string, tag = "3")]
    pub(crate) text: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ServicePort {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) protocol: String,
    #[prost(int32, tag = "3")]
    pub(crate) port: i32,
    #[prost(message, optional, tag = "4")]
    pub(crate) target_port: Option<IntOrString>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ServiceSpec {
    #[prost(message, repeated, tag = "1")]
    pub(crate) ports: Vec<ServicePort>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) selector: BTreeMap<String, String>,
    #[prost(string, tag = "3")]
    pub(crate) cluster_ip: String,
    #[prost(string, tag = "4")]
    pub(crate) kind: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Service {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub(crate) spec: Option<ServiceSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Preconditions {
    #[prost(string, optional, tag = "1")]
    pub(crate) uid: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteOptions {
    #[prost(int64, optional, tag = "1")]
    pub(crate) grace_period_seconds: Option<i64>,
    #[prost(message, optional, tag = "2")]
    pub(crate) preconditions: Option<Preconditions>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusDetails {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "3")]
    pub(crate) kind: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(string, tag = "2")]
    pub(crate) status: String,
    #[prost(string, tag = "3")]
    pub(crate) message: String,
    #[prost(string, tag = "4")]
    pub(crate) reason: String,
    #[prost(message, optional, tag = "5")]
    pub(crate) details: Option<StatusDetails>,
    #[prost(int32, tag = "6")]
    pub(crate) code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RawExtension {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) raw: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchEvent {
    #[prost(string, tag = "1")]
    pub(crate) kind: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) object: Option<RawExtension>,
}
