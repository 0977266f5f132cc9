//! Kubeconfig files with embedded certificates, as kubeadm writes them.

use std::path::Path;

use anyhow::Context;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use serde_yaml_ng::Value;

use super::files::{read, write_private};
use super::{Authority, Pair, Subject, fresh};

/// Sees to it that the file takes `subject` to `server`; what still does is kept.
pub(crate) fn keep(path: &Path, server: &str, ca: &Authority, subject: &Subject<'_>) -> anyhow::Result<()> {
    if let Ok(text) = read(path)
        && let Some(pair) = embedded(&text)
        && fresh::serves(&pair, &ca.cert, subject)
        && render(server, &ca.cert, subject.name, &pair)? == text
    {
        return Ok(());
    }
    write_private(path, &render(server, &ca.cert, subject.name, &ca.issue(subject)?)?)
}

fn render(server: &str, ca: &str, user: &str, pair: &Pair) -> anyhow::Result<String> {
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
    serde_yaml_ng::to_string(&config).context("encode kubeconfig")
}

/// Certificate and key of the first user.
fn embedded(text: &str) -> Option<Pair> {
    let config: Value = serde_yaml_ng::from_str(text).ok()?;
    let user = config.get("users")?.get(0)?.get("user")?;
    let field = |name: &str| String::from_utf8(BASE64_STANDARD.decode(user.get(name)?.as_str()?).ok()?).ok();
    Some(Pair { cert: field("client-certificate-data")?, key: field("client-key-data")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    #[test]
    fn a_kubeconfig_is_kept_until_its_server_changes() {
        let directory = tempfile::tempdir().unwrap();
        let ca = Authority::open(&Layout::new(directory.path()).unwrap(), "ca", "kubernetes").unwrap();
        let path = directory.path().join("admin.conf");
        let write = |server: &str| {
            keep(&path, server, &ca, &Subject::client("kubernetes-admin", &["system:masters"])).unwrap();
            std::fs::read_to_string(&path).unwrap()
        };
        let first = write("https://127.0.0.1:6443");
        assert_eq!(write("https://127.0.0.1:6443"), first);
        let moved = write("https://127.0.0.1:7443");
        assert!(moved.contains("https://127.0.0.1:7443") && embedded(&moved).is_some());
    }
}
