//! Service accounts.

mod token;

use apimachinery::Object;
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::registry::{Column, Resource, Strategy, Subresource, Wiring, namespaced, print::age};

/// The resource `serviceaccounts` with its `token` subresource.
pub(crate) fn resource(wiring: &Wiring) -> Resource {
    let token = token::Token(wiring.issuer.clone());
    namespaced("", "v1", "ServiceAccount", "serviceaccounts")
        .short(&["sa"])
        .strategy(ServiceAccount)
        .returns_deleted()
        .sub(Subresource::call("token", &["create"], ("authentication.k8s.io", "v1", "TokenRequest"), token))
}

/// The rules of service accounts.
struct ServiceAccount;

#[async_trait]
impl Strategy for ServiceAccount {
    fn columns(&self) -> Vec<Column> {
        vec![Column::object_name("Name of the service account."), Column::new("Age", "string", "Time since creation.")]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        vec![obj.name().into(), age(obj, now)]
    }
}
