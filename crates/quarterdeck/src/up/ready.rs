//! When a cluster counts as up.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use crate::layout::Layout;
use crate::status::admin_client;

/// Between two looks; a look costs the API server next to nothing.
const INTERVAL: Duration = Duration::from_millis(20);
/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Returns once `/readyz` is ok and the default namespaces exist; bounded by the caller.
pub(crate) async fn apiserver(layout: &Layout) {
    loop {
        if let Ok(client) = admin_client(layout).await
            && crate::status::readyz(&client).await.is_ok()
            && namespaces_exist(&client).await
        {
            return;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn namespaces_exist(client: &kube::Client) -> bool {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in NAMESPACES {
        if namespaces.get_metadata(name).await.is_err() {
            return false;
        }
    }
    true
}
