//! Volume mounts and block devices of a container.

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorList};

use super::volumes::{Volumes, descending_path};
use crate::registry::check::At;

/// `volumeMounts`.
pub(crate) fn mounts(container: &At<'_>, volumes: &Volumes<'_>, errs: &mut ErrorList) {
    let devices = container.get("volumeDevices").items();
    let mut paths = BTreeSet::new();
    for mount in container.get("volumeMounts").items() {
        let (name, path) = (mount.get("name"), mount.get("mountPath"));
        name.require_str("", errs);
        if !volumes.contains(name.str()) {
            errs.push(Error::not_found(&name.path, name.str()));
        }
        path.require_str("", errs);
        if !paths.insert(path.str()) {
            errs.push(path.invalid("must be unique"));
        }
        if devices.iter().any(|device| device.get("name").str() == name.str()) {
            errs.push(name.invalid("must not already exist in volumeDevices"));
        }
        if devices.iter().any(|device| device.get("devicePath").str() == path.str()) {
            errs.push(path.invalid("must not already exist as a path in volumeDevices"));
        }
        sub_paths(&mount, errs);
        mount.get("mountPropagation").one_of_if_set(&["None", "HostToContainer", "Bidirectional"], errs);
    }
}

fn sub_paths(mount: &At<'_>, errs: &mut ErrorList) {
    let (path, expr) = (mount.get("subPath"), mount.get("subPathExpr"));
    if !path.is_empty() {
        descending_path(&path, errs);
    }
    if !expr.is_empty() {
        if !path.is_empty() {
            errs.push(expr.invalid("subPathExpr and subPath are mutually exclusive"));
        }
        descending_path(&expr, errs);
    }
}

/// `volumeDevices`.
pub(crate) fn devices(container: &At<'_>, volumes: &Volumes<'_>, errs: &mut ErrorList) {
    let mounts = container.get("volumeMounts").items();
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for device in container.get("volumeDevices").items() {
        let (name, path) = (device.get("name"), device.get("devicePath"));
        if name.require_str("", errs) {
            device_name(&name, volumes, &mut names, errs);
        }
        if path.require_str("", errs) {
            if !paths.insert(path.str()) {
                errs.push(path.invalid("must be unique"));
            } else if path.str().split('/').any(|part| part == "..") {
                errs.push(path.invalid("can not contain backsteps ('..')"));
            }
        }
        if mounts.iter().any(|mount| mount.get("name").str() == name.str()) {
            errs.push(name.invalid("must not already exist in volumeMounts"));
        }
        if mounts.iter().any(|mount| mount.get("mountPath").str() == path.str()) {
            errs.push(path.invalid("must not already exist as a path in volumeMounts"));
        }
    }
}

fn device_name<'a>(name: &At<'a>, volumes: &Volumes<'_>, names: &mut BTreeSet<&'a str>, errs: &mut ErrorList) {
    if !names.insert(name.str()) {
        errs.push(name.invalid("must be unique"));
    }
    if !volumes.contains(name.str()) {
        errs.push(Error::not_found(&name.path, name.str()));
    } else if !volumes.is_claim(name.str()) {
        errs.push(name.invalid("can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"));
    }
}
