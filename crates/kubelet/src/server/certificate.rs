//! The server's certificate: the given one, or one of its own making as upstream's (`kubelet.crt` in the cert directory).

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use component::tls::{ClientAuth, ServerTls};

use crate::{Config, start::kubeconfig};

/// The files to serve TLS with.
pub(super) fn server_tls(config: &Config) -> anyhow::Result<ServerTls> {
    let (cert_file, key_file) = match (&config.tls_cert_file, &config.tls_private_key_file) {
        (Some(cert), Some(key)) => (cert.clone(), key.clone()),
        (None, None) => self_signed(config)?,
        _ => bail!("--tls-cert-file and --tls-private-key-file go together"),
    };
    let client_ca_file = match &config.client_ca_file {
        Some(file) => Some(file.clone()),
        None => kubeconfig_ca(config)?,
    };
    let client_auth = if client_ca_file.is_some() { ClientAuth::Optional } else { ClientAuth::None };
    Ok(ServerTls { cert_file, key_file, client_ca_file, client_auth })
}

fn self_signed(config: &Config) -> anyhow::Result<(PathBuf, PathBuf)> {
    let directory = &config.cert_dir;
    let (cert, key) = (directory.join("kubelet.crt"), directory.join("kubelet.key"));
    if cert.exists() && key.exists() {
        return Ok((cert, key));
    }
    fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    let mut names: Vec<String> = config.nodes.iter().take(100).cloned().collect();
    names.extend(config.node_ip.map(|ip| ip.to_string()));
    names.extend(["localhost".to_owned(), "127.0.0.1".to_owned()]);
    let made = rcgen::generate_simple_self_signed(names).context("make a self-signed certificate")?;
    fs::write(&cert, made.cert.pem()).with_context(|| format!("write {}", cert.display()))?;
    write_secret(&key, &made.signing_key.serialize_pem()).with_context(|| format!("write {}", key.display()))?;
    Ok((cert, key))
}

fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    use io::Write;
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// Without a client CA of its own the server trusts the CA of its kubeconfig: in clusters with one CA they are the same.
fn kubeconfig_ca(config: &Config) -> anyhow::Result<Option<PathBuf>> {
    let node = config.nodes.first().map(String::as_str).unwrap_or_default();
    let path = kubeconfig(&config.kubeconfig, node);
    let kubeconfig = kube::config::Kubeconfig::read_from(&path).with_context(|| format!("read kubeconfig {}", path.display()))?;
    let cluster = kubeconfig.clusters.into_iter().filter_map(|c| c.cluster).next();
    let Some(cluster) = cluster else { return Ok(None) };
    if let Some(file) = cluster.certificate_authority {
        // Kubeconfig paths are relative to the kubeconfig.
        return Ok(Some(path.parent().unwrap_or(Path::new(".")).join(file)));
    }
    let Some(data) = cluster.certificate_authority_data else { return Ok(None) };
    let pem = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data.trim()).context("decode the kubeconfig's CA")?;
    let file = config.cert_dir.join("client-ca.crt");
    fs::create_dir_all(&config.cert_dir).with_context(|| format!("create {}", config.cert_dir.display()))?;
    fs::write(&file, pem).with_context(|| format!("write {}", file.display()))?;
    Ok(Some(file))
}
