//! `quarterdeck pki`: keys, certificates and kubeconfigs of a cluster whose parts run on hosts of their own.

use std::process::ExitCode;

use anyhow::{Context, bail};
use http::Uri;

use super::roster::{NodeFiles, Roster};
use super::{files, parts};
use crate::cli::PkiFlags;
use crate::layout::Layout;

/// Writes what is missing or soon to expire.
pub(crate) fn run(flags: &PkiFlags) -> anyhow::Result<ExitCode> {
    let layout = Layout::new(&flags.data_dir)?;
    let roster = roster(flags, &layout)?;
    std::fs::create_dir_all(layout.root()).with_context(|| format!("create {}", layout.root().display()))?;
    roster.write(&layout)?;
    roster.write_node_directories(&layout)?;
    parts::write_directories(&layout)?;
    files::hand_to_owner(layout.root())?;
    println!("keys, certificates and kubeconfigs are in {}", layout.root().display());
    Ok(ExitCode::SUCCESS)
}

fn roster(flags: &PkiFlags, layout: &Layout) -> anyhow::Result<Roster> {
    let host = host(&flags.control_plane_endpoint).context("--control-plane-endpoint")?;
    let admin_endpoint = flags.admin_endpoint.as_ref().unwrap_or(&flags.control_plane_endpoint);
    let nodes = flags.node_names.iter().map(|name| node(layout, name)).collect::<anyhow::Result<_>>()?;
    Ok(Roster {
        endpoint: flags.control_plane_endpoint.clone(),
        admin_endpoint: admin_endpoint.clone(),
        apiserver_hosts: [host].into_iter().chain(flags.apiserver_cert_extra_sans.iter().cloned()).collect(),
        store_hosts: flags.store_names.clone(),
        apiserver_ips: Vec::new(),
        nodes,
    })
}

fn node(layout: &Layout, name: &str) -> anyhow::Result<NodeFiles> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        bail!("--node-names: {name:?} is no name for a node");
    }
    Ok(NodeFiles { node: name.to_owned(), layout: layout.node(name), base: "kubelet".to_owned() })
}

fn host(endpoint: &str) -> anyhow::Result<String> {
    let uri: Uri = endpoint.parse().with_context(|| format!("{endpoint:?} is no URL"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("https"), Some(host)) => Ok(host.to_owned()),
        _ => bail!("{endpoint:?} is not of the form https://HOST:PORT"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    use x509_parser::pem::parse_x509_pem;

    use super::*;

    fn flags(directory: &Path) -> PkiFlags {
        PkiFlags {
            data_dir: directory.to_owned(),
            control_plane_endpoint: "https://apiserver:6443".into(),
            admin_endpoint: Some("https://127.0.0.1:7443".into()),
            apiserver_cert_extra_sans: vec![],
            store_names: vec!["store-1".into(), "store-2".into()],
            node_names: vec!["node-1".into(), "node-2".into()],
        }
    }

    fn contents(directory: &Path, found: &mut BTreeMap<PathBuf, String>) {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            if entry.path().is_dir() {
                contents(&entry.path(), found);
            } else {
                found.insert(entry.path(), std::fs::read_to_string(entry.path()).unwrap());
            }
        }
    }

    fn written(flags: &PkiFlags) -> BTreeMap<PathBuf, String> {
        run(flags).unwrap();
        let mut found = BTreeMap::new();
        contents(&flags.data_dir, &mut found);
        found
    }

    #[test]
    fn a_second_run_changes_nothing_and_keys_are_their_owners() {
        let directory = tempfile::tempdir().unwrap();
        let flags = flags(directory.path());
        let first = written(&flags);
        assert_eq!(written(&flags), first);
        for path in first.keys() {
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            let secret = path.extension().is_some_and(|extension| extension == "key" || extension == "conf");
            assert_eq!(mode, if secret { 0o600 } else { 0o644 }, "{}", path.display());
        }
    }

    #[test]
    fn what_is_lost_is_made_again_under_the_same_authority() {
        let directory = tempfile::tempdir().unwrap();
        let flags = flags(directory.path());
        let first = written(&flags);
        let lost = directory.path().join("pki/apiserver.crt");
        std::fs::remove_file(&lost).unwrap();
        let second = written(&flags);
        let changed: Vec<_> = first.iter().filter(|(path, text)| second[*path] != **text).map(|(path, _)| path).collect();
        let expected = ["parts/apiserver/pki/apiserver.crt", "parts/apiserver/pki/apiserver.key", "pki/apiserver.crt", "pki/apiserver.key"];
        assert_eq!(changed, expected.map(|path| directory.path().join(path)).iter().collect::<Vec<_>>());
    }

    /// The flags of a cluster with one of each.
    fn small(directory: &Path) -> PkiFlags {
        PkiFlags { store_names: vec!["store-1".into()], node_names: vec!["node-1".into()], ..flags(directory) }
    }

    #[test]
    fn a_run_that_was_killed_after_any_write_is_completed_by_the_next() {
        let whole = tempfile::tempdir().unwrap();
        let count = written(&small(whole.path())).len();
        for writes in 0.. {
            let directory = tempfile::tempdir().unwrap();
            let flags = small(directory.path());
            files::kill::after(Some(writes));
            let ended = run(&flags);
            files::kill::after(None);
            let Err(error) = ended else {
                assert_eq!(writes, count, "a kill after each of them was tried");
                break;
            };
            assert!(format!("{error:#}").ends_with("killed"), "{error:#}");
            let completed = written(&flags);
            assert_eq!(completed.len(), count, "after {writes} writes: {:?}", completed.keys());
            assert_eq!(written(&flags), completed, "after {writes} writes");
        }
    }

    #[test]
    fn any_file_that_is_lost_is_made_again_but_for_an_authoritys_key() {
        let directory = tempfile::tempdir().unwrap();
        let flags = small(directory.path());
        for (lost, text) in written(&flags) {
            std::fs::remove_file(&lost).unwrap();
            if lost.ends_with("ca.key") || lost.ends_with("front-proxy-ca.key") {
                let error = format!("{:#}", run(&flags).unwrap_err());
                assert!(error.contains(&format!("{} is missing", lost.display())), "{error}");
                std::fs::write(&lost, text).unwrap();
            } else {
                assert!(written(&flags).contains_key(&lost), "{}", lost.display());
            }
        }
    }

    #[test]
    fn a_node_has_its_own_keys_and_no_others() {
        let directory = tempfile::tempdir().unwrap();
        let all = written(&flags(directory.path()));
        let own = directory.path().join("nodes/node-1");
        let names: Vec<_> = all.keys().filter_map(|path| path.strip_prefix(&own).ok()).map(|path| path.display().to_string()).collect();
        assert_eq!(names, ["kube-proxy.conf", "kubelet.conf", "pki/ca.crt", "pki/kubelet.crt", "pki/kubelet.key"]);
    }

    #[test]
    fn a_part_has_copies_of_its_own_files() {
        let directory = tempfile::tempdir().unwrap();
        let all = written(&flags(directory.path()));
        let mut copies = 0;
        for (path, text) in &all {
            let Ok(relative) = path.strip_prefix(directory.path().join("parts")) else { continue };
            let original: PathBuf = relative.components().skip(1).collect();
            assert_eq!(all[&directory.path().join(original)], *text, "{}", path.display());
            copies += 1;
        }
        assert_eq!(copies, 22);
    }

    #[test]
    fn kubeconfigs_lead_to_the_endpoint_of_their_user() {
        let directory = tempfile::tempdir().unwrap();
        let all = written(&flags(directory.path()));
        for (path, text) in all.iter().filter(|(path, _)| path.extension().is_some_and(|extension| extension == "conf")) {
            let server = if path.ends_with("admin.conf") { "https://127.0.0.1:7443" } else { "https://apiserver:6443" };
            assert!(text.contains(&format!("server: {server}\n")), "{}: {text}", path.display());
        }
    }

    #[test]
    fn servers_answer_to_every_name_they_are_called_by() {
        let directory = tempfile::tempdir().unwrap();
        let all = written(&flags(directory.path()));
        for (file, names) in [
            ("pki/apiserver.crt", vec!["apiserver", "kubernetes.default.svc", "localhost"]),
            ("pki/etcd/server.crt", vec!["store-1", "store-2", "localhost"]),
            ("pki/etcd/peer.crt", vec!["store-1", "store-2", "localhost"]),
            ("nodes/node-2/pki/kubelet.crt", vec!["node-2", "localhost"]),
        ] {
            let (_, pem) = parse_x509_pem(all[&directory.path().join(file)].as_bytes()).unwrap();
            let cert = pem.parse_x509().unwrap();
            let found = format!("{:?}", cert.subject_alternative_name().unwrap().unwrap().value.general_names);
            for name in names {
                assert!(found.contains(&format!("DNSName(\"{name}\")")), "{file}: {name} is not in {found}");
            }
            assert!(found.contains("IPAddress([127, 0, 0, 1])"), "{file}: {found}");
        }
    }

    #[test]
    fn bad_flags_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let refuse = |change: fn(&mut PkiFlags)| {
            let mut flags = flags(directory.path());
            change(&mut flags);
            format!("{:#}", run(&flags).unwrap_err())
        };
        assert!(refuse(|flags| flags.node_names = vec!["../x".into()]).contains("\"../x\" is no name for a node"));
        let endpoint = refuse(|flags| flags.control_plane_endpoint = "apiserver:6443".into());
        assert!(endpoint.contains("--control-plane-endpoint") && endpoint.contains("https://HOST:PORT"), "{endpoint}");
        assert!(!directory.path().join("pki").exists());
    }
}
