//! Kubeconfig files with embedded certificates, as kubeadm writes them.

use std::path::Path;

use anyhow::Context;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::pki::{self, Pair};

/// Writes a kubeconfig by which `user` reaches `server`.
pub(crate) fn write(path: &Path, server: &str, ca: &str, user: &str, pair: &Pair) -> anyhow::Result<()> {
    let encode = |pem: &str| BASE64_STANDARD.encode(pem);
    let context = format!("{user}@quarterdeck");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "quarterdeck", "cluster": {"server": server, "certificate-authority-data": encode(ca)}}],
        "users": [{"name": user, "user": {"client-certificate-data": encode(&pair.cert), "client-key-data": encode(&pair.key)}}],
        "contexts": [{"name": context, "context": {"cluster": "quarterdeck", "user": user}}],
        "current-context": context,
    });
    let text = serde_yaml_ng::to_string(&config).context("encode kubeconfig")?;
    pki::write_private(path, &text)
}
