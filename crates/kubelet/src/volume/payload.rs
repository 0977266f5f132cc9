//! The files of volumes that the API server backs: configMap, secret, downwardAPI and projected.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, Volume, VolumeProjection};

use super::atomic::{File, Files};
use crate::{
    cri::observed,
    node::Node,
    pod::{create, facts, fields},
};

/// Mode of files without one of their own.
const MODE: i32 = 0o644;

/// Whether the volume is written from API objects; such volumes are read-only in containers.
pub(crate) fn is_api_backed(volume: &Volume) -> bool {
    volume.config_map.is_some() || volume.secret.is_some() || volume.downward_api.is_some() || volume.projected.is_some()
}

/// Directory name of the volume's kind, as upstream names it.
pub(crate) fn plugin(volume: &Volume) -> &'static str {
    match volume {
        v if v.config_map.is_some() => "kubernetes.io~configmap",
        v if v.secret.is_some() => "kubernetes.io~secret",
        v if v.downward_api.is_some() => "kubernetes.io~downward-api",
        v if v.projected.is_some() => "kubernetes.io~projected",
        _ => "kubernetes.io~empty-dir",
    }
}

/// Current content of the volume.
pub(crate) async fn files(node: &Arc<Node>, pod: &Pod, volume: &Volume) -> Result<Files, String> {
    let mut files = Files::new();
    if let Some(source) = &volume.config_map {
        let mode = source.default_mode.unwrap_or(MODE);
        config_map(node, pod, (&source.name, source.optional), source.items.as_deref(), mode, &mut files).await?;
    } else if let Some(source) = &volume.secret {
        let name = source.secret_name.clone().unwrap_or_default();
        let mode = source.default_mode.unwrap_or(MODE);
        secret(node, pod, (&name, source.optional), source.items.as_deref(), mode, &mut files).await?;
    } else if let Some(source) = &volume.downward_api {
        let mode = source.default_mode.unwrap_or(MODE);
        downward(node, pod, source.items.as_deref().unwrap_or_default(), mode, &mut files).await?;
    } else if let Some(source) = &volume.projected {
        for projection in source.sources.iter().flatten() {
            project(node, pod, projection, source.default_mode.unwrap_or(MODE), &mut files).await?;
        }
    }
    Ok(files)
}

async fn project(node: &Arc<Node>, pod: &Pod, from: &VolumeProjection, mode: i32, files: &mut Files) -> Result<(), String> {
    if let Some(source) = &from.config_map {
        config_map(node, pod, (&source.name, source.optional), source.items.as_deref(), mode, files).await?;
    }
    if let Some(source) = &from.secret {
        secret(node, pod, (&source.name, source.optional), source.items.as_deref(), mode, files).await?;
    }
    if let Some(source) = &from.downward_api {
        downward(node, pod, source.items.as_deref().unwrap_or_default(), mode, files).await?;
    }
    if let Some(source) = &from.service_account_token {
        let token = node.tokens.get(pod, source, node.now()).await?;
        files.insert(source.path.clone(), file(token.as_bytes().to_vec(), token_mode(pod, mode)));
    }
    if from.cluster_trust_bundle.is_some() || from.pod_certificate.is_some() {
        return Err("this kind of projection is not supported by this kubelet".into());
    }
    Ok(())
}

/// Tokens are for the container's user alone where that is one and the same for the pod.
fn token_mode(pod: &Pod, mode: i32) -> i32 {
    let context = pod.spec.as_ref().and_then(|s| s.security_context.as_ref());
    if context.is_some_and(|c| c.fs_group.is_some()) { 0o600 } else { mode }
}

fn file(data: Vec<u8>, mode: i32) -> File {
    File { data, mode: u32::try_from(mode).unwrap_or(0o644) & 0o777 }
}

async fn config_map(
    node: &Node,
    pod: &Pod,
    (name, optional): (&str, Option<bool>),
    items: Option<&[KeyToPath]>,
    mode: i32,
    files: &mut Files,
) -> Result<(), String> {
    let found = match optional {
        Some(true) => node.objects.config_map_if_any(facts::namespace(pod), name).await,
        _ => node.objects.config_map(facts::namespace(pod), name).await.map(Some),
    };
    let data = found.map_err(|e| e.to_string())?.map(|map| config_map_data(&map)).unwrap_or_default();
    pick(&data, items, mode, optional == Some(true), files)
}

async fn secret(
    node: &Node,
    pod: &Pod,
    (name, optional): (&str, Option<bool>),
    items: Option<&[KeyToPath]>,
    mode: i32,
    files: &mut Files,
) -> Result<(), String> {
    let found = match optional {
        Some(true) => node.objects.secret_if_any(facts::namespace(pod), name).await,
        _ => node.objects.secret(facts::namespace(pod), name).await.map(Some),
    };
    let data = found.map_err(|e| e.to_string())?.map(|secret| secret_data(&secret)).unwrap_or_default();
    pick(&data, items, mode, optional == Some(true), files)
}

fn config_map_data(map: &ConfigMap) -> BTreeMap<String, Vec<u8>> {
    let text = map.data.iter().flatten().map(|(k, v)| (k.clone(), v.clone().into_bytes()));
    text.chain(map.binary_data.iter().flatten().map(|(k, v)| (k.clone(), v.0.clone()))).collect()
}

fn secret_data(secret: &Secret) -> BTreeMap<String, Vec<u8>> {
    secret.data.iter().flatten().map(|(k, v)| (k.clone(), v.0.clone())).collect()
}

/// All keys as files of their own name, or the chosen ones under theirs.
fn pick(data: &BTreeMap<String, Vec<u8>>, items: Option<&[KeyToPath]>, mode: i32, optional: bool, files: &mut Files) -> Result<(), String> {
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        files.extend(data.iter().map(|(key, bytes)| (key.clone(), file(bytes.clone(), mode))));
        return Ok(());
    };
    for item in items {
        match data.get(&item.key) {
            Some(bytes) => {
                files.insert(item.path.clone(), file(bytes.clone(), item.mode.unwrap_or(mode)));
            }
            None if optional => {}
            None => return Err(format!("references non-existent config key: {}", item.key)),
        }
    }
    Ok(())
}

async fn downward(node: &Arc<Node>, pod: &Pod, items: &[DownwardAPIVolumeFile], mode: i32, files: &mut Files) -> Result<(), String> {
    let seen = observed::observe(&*node.cri, facts::uid(pod)).await.unwrap_or_default();
    let sandbox = seen.usable_sandbox().cloned().unwrap_or_default();
    let known = create::node_facts(node, &sandbox);
    for item in items {
        let text = match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), _) => fields::field(pod, &field.field_path, &known)?,
            (None, Some(resource)) => fields::resource(pod, None, resource, &known)?,
            (None, None) => return Err(format!("downwardAPI item {:?} has no source", item.path)),
        };
        files.insert(item.path.clone(), file(text.into_bytes(), item.mode.unwrap_or(mode)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(key: &str, path: &str) -> KeyToPath {
        KeyToPath { key: key.into(), path: path.into(), mode: Some(0o400) }
    }

    #[test]
    fn chosen_keys_get_their_own_path_and_mode() {
        let data = BTreeMap::from([("a".to_owned(), b"1".to_vec()), ("b".to_owned(), b"2".to_vec())]);
        let mut files = Files::new();
        pick(&data, Some(&[key("a", "etc/a.conf")]), 0o644, false, &mut files).unwrap();
        assert_eq!(files.len(), 1);
        assert_eq!(files["etc/a.conf"], File { data: b"1".to_vec(), mode: 0o400 });
        assert!(pick(&data, Some(&[key("c", "c")]), 0o644, false, &mut files).is_err());
        assert!(pick(&data, Some(&[key("c", "c")]), 0o644, true, &mut files).is_ok());
    }
}
