//! The volumes of a pod: names, one source each, and the checks that paths and modes share.

use std::collections::BTreeMap;

use apimachinery::field::ErrorList;
use apimachinery::names;

use super::volume_sources;
use crate::registry::check::At;

/// The valid volumes of a pod, by name.
pub(crate) struct Volumes<'a>(BTreeMap<&'a str, At<'a>>);

impl<'a> Volumes<'a> {
    /// Checks the list and keeps what is sound.
    pub(crate) fn validate(list: &At<'a>, errs: &mut ErrorList) -> Self {
        let mut volumes = Volumes(BTreeMap::new());
        for volume in list.items() {
            let mut found = ErrorList::new();
            source(&volume, &mut found);
            let name = volume.get("name");
            name.required_name(names::is_dns1123_label, &mut found);
            if volumes.contains(name.str()) {
                found.push(name.duplicate());
            }
            if found.is_empty() {
                volumes.0.insert(name.str(), volume);
            }
            errs.append(&mut found);
        }
        volumes
    }

    /// Whether a sound volume of that name exists.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether the volume is a claim, existing or made for the pod.
    pub(crate) fn is_claim(&self, name: &str) -> bool {
        let claim = |volume: &At<'_>| volume.get("persistentVolumeClaim").is_set() || volume.get("ephemeral").is_set();
        self.0.get(name).is_some_and(claim)
    }
}

fn source(volume: &At<'_>, errs: &mut ErrorList) {
    let mut found = false;
    for (name, check) in volume_sources::SOURCES {
        let source = volume.get(name);
        if !source.is_set() {
            continue;
        }
        if found {
            errs.push(source.forbidden("may not specify more than 1 volume type"));
        } else {
            check(&source, errs);
        }
        found = true;
    }
    if !found {
        errs.push(volume.required("must specify a volume type"));
    }
}

/// A path inside a volume: relative, without `..`.
pub(crate) fn descending_path(path: &At<'_>, errs: &mut ErrorList) {
    if path.str().starts_with('/') {
        errs.push(path.invalid("must be a relative path"));
    }
    no_backsteps(path, errs);
}

/// No `..` among the path's parts.
pub(crate) fn no_backsteps(path: &At<'_>, errs: &mut ErrorList) {
    if path.str().split('/').any(|part| part == "..") {
        errs.push(path.invalid("must not contain '..'"));
    }
}

/// [`descending_path`] that does not begin with two dots either, as the kubelet's own directories do.
pub(crate) fn unreserved_path(path: &At<'_>, errs: &mut ErrorList) {
    descending_path(path, errs);
    if path.str().starts_with("..") && !path.str().starts_with("../") {
        errs.push(path.invalid("must not start with '..'"));
    }
}

/// Permission bits of a file.
pub(crate) fn mode(mode: &At<'_>, errs: &mut ErrorList) {
    if mode.int().is_some_and(|bits| !(0..=0o777).contains(&bits)) {
        errs.push(mode.invalid("must be a number between 0 and 0777 (octal), both inclusive"));
    }
}

/// One entry of `items`: a key, where it goes, its mode.
pub(crate) fn key_to_path(item: &At<'_>, errs: &mut ErrorList) {
    item.get("key").require_str("", errs);
    let path = item.get("path");
    if path.require_str("", errs) {
        unreserved_path(&path, errs);
    }
    mode(&item.get("mode"), errs);
}
