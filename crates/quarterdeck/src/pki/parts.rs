//! A directory for each part of a control plane that runs in a place of its own: copies of the files it needs, and no others,
//! so that a hole in one part gives away no more than that part's keys.

use std::path::Path;

use super::files::{read, write, write_private};
use crate::layout::Layout;

/// Keys stand before their certificates, in the order in which they are replaced.
const PARTS: [(&str, &[&str]); 4] = [
    ("store", &["pki/etcd/ca.crt", "pki/etcd/server.key", "pki/etcd/server.crt", "pki/etcd/peer.key", "pki/etcd/peer.crt"]),
    (
        "apiserver",
        &[
            "pki/ca.crt",
            "pki/etcd/ca.crt",
            "pki/front-proxy-ca.crt",
            "pki/apiserver.key",
            "pki/apiserver.crt",
            "pki/apiserver-etcd-client.key",
            "pki/apiserver-etcd-client.crt",
            "pki/apiserver-kubelet-client.key",
            "pki/apiserver-kubelet-client.crt",
            "pki/front-proxy-client.key",
            "pki/front-proxy-client.crt",
            "pki/sa.key",
            "pki/sa.pub",
        ],
    ),
    ("controller-manager", &["controller-manager.conf", "pki/ca.crt", "pki/sa.key"]),
    ("scheduler", &["scheduler.conf"]),
];

/// Writes what is missing or differs from the file it is a copy of.
pub(crate) fn write_directories(layout: &Layout) -> anyhow::Result<()> {
    for (part, files) in PARTS {
        let directory = layout.part(part);
        for file in files {
            copy(&layout.root().join(file), &directory.root().join(file))?;
        }
    }
    Ok(())
}

fn copy(original: &Path, copy: &Path) -> anyhow::Result<()> {
    let text = read(original)?;
    if read(copy).ok().as_ref() == Some(&text) {
        return Ok(());
    }
    let public = original.extension().is_some_and(|extension| extension == "crt" || extension == "pub");
    if public { write(copy, &text) } else { write_private(copy, &text) }
}
