//! Volume sources: one table of names and checks.

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorList};

use super::downward::{self, VOLUME_FIELDS};
use super::volumes::{key_to_path, mode, no_backsteps, unreserved_path};
use crate::registry::check::At;

/// A check of one source.
pub(crate) type Check = fn(&At<'_>, &mut ErrorList);

/// Every source in the order upstream looks at them.
pub(crate) const SOURCES: [(&str, Check); 29] = [
    ("emptyDir", empty_dir),
    ("hostPath", host_path),
    ("gitRepo", |at, errs| require(at, &["repository"], errs)),
    ("gcePersistentDisk", |at, errs| require(at, &["pdName"], errs)),
    ("awsElasticBlockStore", |at, errs| require(at, &["volumeID"], errs)),
    ("secret", |at, errs| keyed(at, "secretName", errs)),
    ("nfs", nfs),
    ("iscsi", |at, errs| require(at, &["targetPortal", "iqn"], errs)),
    ("glusterfs", |at, errs| require(at, &["endpoints", "path"], errs)),
    ("persistentVolumeClaim", |at, errs| require(at, &["claimName"], errs)),
    ("rbd", |at, errs| require(at, &["monitors", "image"], errs)),
    ("cinder", |at, errs| require(at, &["volumeID"], errs)),
    ("cephfs", |at, errs| require(at, &["monitors"], errs)),
    ("flocker", |at, errs| require_one(at, &["datasetName", "datasetUUID"], errs)),
    ("downwardAPI", downward_api),
    ("fc", |at, errs| require_one(at, &["targetWWNs", "wwids"], errs)),
    ("azureFile", |at, errs| require(at, &["secretName", "shareName"], errs)),
    ("configMap", |at, errs| keyed(at, "name", errs)),
    ("vsphereVolume", |at, errs| require(at, &["volumePath"], errs)),
    ("quobyte", |at, errs| require(at, &["registry", "volume"], errs)),
    ("azureDisk", |at, errs| require(at, &["diskName", "diskURI"], errs)),
    ("portworxVolume", |at, errs| require(at, &["volumeID"], errs)),
    ("storageos", |at, errs| require(at, &["volumeName"], errs)),
    ("scaleIO", |at, errs| require(at, &["gateway", "system", "volumeName"], errs)),
    ("projected", projected),
    ("csi", csi),
    ("ephemeral", ephemeral),
    ("image", image),
    ("flexVolume", |at, errs| require(at, &["driver"], errs)),
];

fn require(source: &At<'_>, fields: &[&str], errs: &mut ErrorList) {
    for field in fields {
        let field = source.get(field);
        if field.is_empty() {
            errs.push(field.required(""));
        }
    }
}

fn require_one(source: &At<'_>, fields: &[&str], errs: &mut ErrorList) {
    if fields.iter().all(|field| source.get(field).is_empty()) {
        errs.push(source.required(&format!("one of {} is required", fields.join(" and "))));
    }
}

fn empty_dir(source: &At<'_>, errs: &mut ErrorList) {
    let limit = source.get("sizeLimit");
    if limit.quantity().is_some_and(|q| q.sign() < 0) {
        errs.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
    }
}

/// `hostPath`, in pods and persistent volumes.
pub(crate) fn host_path(source: &At<'_>, errs: &mut ErrorList) {
    const TYPES: [&str; 8] = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let path = source.get("path");
    if path.require_str("", errs) {
        no_backsteps(&path, errs);
    }
    if source.get("type").is_set() {
        source.get("type").one_of(&TYPES, errs);
    }
}

fn nfs(source: &At<'_>, errs: &mut ErrorList) {
    require(source, &["server", "path"], errs);
    if !source.get("path").str().starts_with('/') {
        errs.push(Error::invalid(&source.get("path").path, source.get("path").str(), "must be an absolute path"));
    }
}

/// Secrets and config maps: a name, a mode, keys to paths.
fn keyed(source: &At<'_>, name: &str, errs: &mut ErrorList) {
    source.get(name).require_str("", errs);
    mode(&source.get("defaultMode"), errs);
    for item in source.get("items").items() {
        key_to_path(&item, errs);
    }
}

fn downward_api(source: &At<'_>, errs: &mut ErrorList) {
    mode(&source.get("defaultMode"), errs);
    for item in source.get("items").items() {
        downward_file(&item.under(source.path.clone()), errs);
    }
}

fn downward_file(file: &At<'_>, errs: &mut ErrorList) {
    let path = file.get("path");
    if path.require_str("", errs) {
        unreserved_path(&path, errs);
    }
    let (field, resource) = (file.get("fieldRef"), file.get("resourceFieldRef"));
    if field.is_set() {
        downward::field_ref(&field, &VOLUME_FIELDS, errs);
        if resource.is_set() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errs.push(Error::invalid(&file.path, "resource", detail));
        }
    } else if resource.is_set() {
        downward::resource_ref(&resource, true, errs);
    } else {
        errs.push(file.required("one of fieldRef and resourceFieldRef is required"));
    }
    mode(&file.get("mode"), errs);
}

fn projected(source: &At<'_>, errs: &mut ErrorList) {
    mode(&source.get("defaultMode"), errs);
    let mut paths = BTreeSet::new();
    for part in source.get("sources").items() {
        let mut found = false;
        for kind in ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"] {
            let at = part.get(kind);
            if !at.is_set() {
                continue;
            }
            if found {
                errs.push(at.forbidden("may not specify more than 1 volume type"));
            } else {
                projection(source, &at, kind, &mut paths, errs);
            }
            found = true;
        }
    }
}

fn projection<'a>(volume: &At<'_>, at: &At<'a>, kind: &str, paths: &mut BTreeSet<&'a str>, errs: &mut ErrorList) {
    match kind {
        "secret" | "configMap" => {
            let name = at.get("name");
            name.require_str("", errs);
            for item in at.get("items").items() {
                key_to_path(&item, errs);
                unique_path(volume, item.get("path").str(), name.str(), paths, errs);
            }
        }
        "downwardAPI" => {
            for item in at.get("items").items() {
                downward_file(&item.under(volume.path.child("downwardAPI")), errs);
                unique_path(volume, item.get("path").str(), item.get("path").str(), paths, errs);
            }
        }
        "serviceAccountToken" => token(volume, at, paths, errs),
        _ => {
            let path = at.get("path");
            if kind == "clusterTrustBundle" && path.require_str("", errs) {
                unreserved_path(&path, errs);
                unique_path(volume, path.str(), path.str(), paths, errs);
            }
        }
    }
}

fn token<'a>(volume: &At<'_>, token: &At<'a>, paths: &mut BTreeSet<&'a str>, errs: &mut ErrorList) {
    let seconds = token.get("expirationSeconds");
    if seconds.int().is_some_and(|n| n < 600) {
        errs.push(seconds.invalid("may not specify a duration less than 10 minutes"));
    }
    if seconds.int().is_some_and(|n| n > 1 << 32) {
        errs.push(seconds.invalid("may not specify a duration larger than 2^32 seconds"));
    }
    let path = token.get("path").under(volume.path.child("path"));
    if path.require_str("", errs) {
        unreserved_path(&path, errs);
        unique_path(volume, path.str(), path.str(), paths, errs);
    }
}

fn unique_path<'a>(volume: &At<'_>, path: &'a str, shown: &str, paths: &mut BTreeSet<&'a str>, errs: &mut ErrorList) {
    if !path.is_empty() && !paths.insert(path) {
        errs.push(Error::invalid(&volume.path, shown, "conflicting duplicate paths"));
    }
}

fn csi(source: &At<'_>, errs: &mut ErrorList) {
    driver_name(&source.get("driver"), errs);
    let secret = source.get("nodePublishSecretRef");
    if secret.is_set() {
        secret.get("name").require_str("", errs);
    }
}

/// The name of a CSI driver: a domain of at most 63 characters.
pub(crate) fn driver_name(name: &At<'_>, errs: &mut ErrorList) {
    if !name.require_str("", errs) {
        return;
    }
    if name.str().len() > 63 {
        errs.push(Error::too_long(&name.path, name.value.clone(), 63));
    }
    name.each_of(apimachinery::names::is_dns1123_subdomain(&name.str().to_lowercase()), errs);
}

fn ephemeral(source: &At<'_>, errs: &mut ErrorList) {
    let template = source.get("volumeClaimTemplate");
    if !template.is_set() {
        errs.push(template.required(""));
        return;
    }
    super::claims::validate_spec(&template.get("spec"), errs);
}

fn image(source: &At<'_>, errs: &mut ErrorList) {
    source.get("reference").require_str("", errs);
    source.get("pullPolicy").one_of(&["Always", "IfNotPresent", "Never"], errs);
}
