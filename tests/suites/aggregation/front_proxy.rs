//! A proxy in front of the API server, which names the user in headers.

use http::{HeaderName, HeaderValue, Request};
use kube::{
    Client, Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tests::Cluster;

/// Whom the API server takes somebody for who shows a certificate and says to speak for jane; `None` for the admin's own.
async fn taken_for(cluster: &Cluster, identity: Option<&str>) -> Value {
    let file = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    if let Some(name) = identity {
        let file = |kind: &str| Some(cluster.directory().join(format!("pki/{name}.{kind}")).display().to_string());
        config.auth_info = AuthInfo { client_certificate: file("crt"), client_key: file("key"), ..AuthInfo::default() };
    }
    let headers = [("x-remote-user", "jane"), ("x-remote-group", "crew"), ("x-remote-extra-team", "red")];
    config.headers = headers.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).into();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string().into_bytes();
    let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews").header("content-type", "application/json");
    let review: Value = Client::try_from(config).unwrap().request(request.body(review).unwrap()).await.unwrap();
    review["status"]["userInfo"].clone()
}

/// Only whom the front proxy's certificate proves is believed about others.
pub(crate) fn a_front_proxy_speaks_for_others(cluster: &Cluster) {
    component::install_crypto_provider();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let jane = runtime.block_on(taken_for(cluster, Some("front-proxy-client")));
    assert_eq!((&jane["username"], &jane["groups"]), (&json!("jane"), &json!(["crew", "system:authenticated"])));
    assert_eq!(jane["extra"], json!({"team": ["red"]}));
    let admin = runtime.block_on(taken_for(cluster, None));
    assert_eq!(admin["username"], "kubernetes-admin");
}
