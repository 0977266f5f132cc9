//! When a cluster counts as up.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, Config};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::cluster::Cluster;
use crate::layout::Layout;
use crate::status::admin_client;

/// Between two looks; a look costs the API server next to nothing.
const INTERVAL: Duration = Duration::from_millis(20);
/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Returns once each API server's `/readyz` is ok and the default namespaces exist; bounded by the caller.
pub(crate) async fn apiservers(cluster: &Cluster) {
    for address in &cluster.apiservers {
        apiserver(&cluster.layout, &cluster.server_at(*address)).await;
    }
}

async fn apiserver(layout: &Layout, server: &str) {
    loop {
        if let Ok(client) = admin_client(layout, server).await
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

/// Returns once every member answers `/readyz`; bounded by the caller.
pub(crate) async fn store(cluster: &Cluster) {
    let pki = |name: &str| cluster.layout.pki(&format!("etcd/{name}"));
    for member in &cluster.members {
        while !ask(&member.client_url(), &pki("ca.crt"), &pki("healthcheck-client")).await.unwrap_or(false) {
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

/// Whether a member says it is ready, to the operator's certificate.
async fn ask(url: &str, ca: &Path, client: &Path) -> anyhow::Result<bool> {
    let mut config = Config::new(url.parse()?);
    let identity = [client.with_extension("crt"), client.with_extension("key")].map(|file| file.display().to_string());
    config.root_cert = Some(vec![CertificateDer::from_pem_file(ca)?.to_vec()]);
    config.auth_info.client_certificate = Some(identity[0].clone());
    config.auth_info.client_key = Some(identity[1].clone());
    let request = http::Request::get("/readyz").body(Vec::new())?;
    let answer = tokio::time::timeout(Duration::from_secs(2), Client::try_from(config)?.request_text(request)).await;
    Ok(matches!(answer, Ok(Ok(_))))
}
