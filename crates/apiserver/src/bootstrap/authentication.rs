//! The config map `extension-apiserver-authentication`: how other API servers may check who calls them.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::status::Status;
use serde_json::{Value, json};

use super::{BootstrapConfig, object};
use crate::authn::front_proxy::Headers;
use crate::loopback::Loopback;

const NAME: &str = "extension-apiserver-authentication";
/// Since when no tokens are made for accounts unasked; its presence is what counts.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

pub(super) async fn ensure(api: Loopback, config: Arc<BootstrapConfig>) -> Result<(), Status> {
    let maps = api.namespaced("v1", "configmaps", "kube-system");
    let mut tracking = object("v1", "ConfigMap", "kube-system", TRACKING);
    let today = component::clock::now().strftime("%Y-%m-%d").to_string();
    tracking.0.insert("data".into(), json!({"since": today}));
    super::ensure(&maps, &tracking).await?;
    if config.authentication.is_empty() {
        return Ok(());
    }
    let data: Value = config.authentication.iter().map(|(key, value)| (key.clone(), Value::from(value.clone()))).collect();
    match maps.get_opt(NAME).await? {
        None => {
            let mut map = object("v1", "ConfigMap", "kube-system", NAME);
            map.0.insert("data".into(), data);
            super::ensure(&maps, &map).await
        }
        Some(found) if found.pointer("/data") == Some(&data) => Ok(()),
        Some(_) => maps.merge_patch(NAME, &json!({"data": data})).await.map(drop),
    }
}

/// The config map's data: authorities in PEM, and the front proxy's headers.
pub(crate) fn data(client_ca: Option<String>, front_proxy: Option<(String, &Headers)>) -> BTreeMap<String, String> {
    let mut data = BTreeMap::new();
    if let Some(pem) = client_ca {
        data.insert("client-ca-file".to_owned(), pem);
    }
    if let Some((pem, headers)) = front_proxy {
        let list = |entries: &[String]| json!(entries).to_string();
        data.insert("requestheader-client-ca-file".to_owned(), pem);
        data.insert("requestheader-allowed-names".to_owned(), list(&headers.allowed_names));
        data.insert("requestheader-username-headers".to_owned(), list(&headers.username));
        data.insert("requestheader-group-headers".to_owned(), list(&headers.group));
        data.insert("requestheader-extra-headers-prefix".to_owned(), list(&headers.extra_prefix));
        if !headers.uid.is_empty() {
            data.insert("requestheader-uid-headers".to_owned(), list(&headers.uid));
        }
    }
    data
}
