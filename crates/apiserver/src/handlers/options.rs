//! Create, update, patch, delete and list options from query and body, checked as upstream checks them.

use apimachinery::{
    field::{Error, ErrorList, Path},
    gvk::GroupKind,
    status::Status,
};
use http::{HeaderMap, header};
use serde_json::{Value, json};

use crate::{
    negotiate::{BodyKind, to_value},
    registry::{DeleteOptions, meta},
    request::{FieldValidation, is_true},
    schema,
};

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

type Query = [(String, String)];

fn get<'a>(query: &'a Query, key: &str) -> Option<&'a str> {
    query.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
}

/// `?fieldValidation=`; what it may be is checked by [`write`].
pub(crate) fn field_validation(query: &Query) -> FieldValidation {
    match get(query, "fieldValidation") {
        Some("Strict") => FieldValidation::Strict,
        Some("Ignore") => FieldValidation::Ignore,
        _ => FieldValidation::Warn,
    }
}

/// `?fieldManager=`, else the user agent up to the first slash.
pub(crate) fn field_manager(query: &Query, headers: &HeaderMap) -> String {
    if let Some(name) = get(query, "fieldManager").filter(|n| !n.is_empty()) {
        return name.to_owned();
    }
    let agent = headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let printable = agent.split('/').next().unwrap_or_default().chars().filter(|c| !c.is_control());
    let mut name = String::new();
    for letter in printable {
        if name.len() + letter.len_utf8() > meta::MAX_MANAGER {
            break;
        }
        name.push(letter);
    }
    name
}

/// The options of a write.
pub(crate) struct WriteOptions {
    /// `dryRun=All`.
    pub(crate) dry_run: bool,
    /// As admission plugins see them.
    pub(crate) value: Value,
}

/// Reads and checks CreateOptions, UpdateOptions or PatchOptions; `apply` is whether a patch is an apply.
pub(crate) fn write(query: &Query, kind: &str, apply: Option<bool>) -> Result<WriteOptions, Status> {
    let mut errors = ErrorList::new();
    let dry_run: Vec<_> = query.iter().filter(|(k, v)| k == "dryRun" && !v.is_empty()).map(|(_, v)| v.clone()).collect();
    let manager = get(query, "fieldManager").unwrap_or_default();
    let validation = get(query, "fieldValidation").unwrap_or_default();
    let force = get(query, "force");
    if apply == Some(true) && manager.is_empty() {
        errors.push(Error::required(&Path::new("fieldManager"), "is required for apply patch"));
    }
    if apply == Some(false) && force.is_some() {
        errors.push(Error::forbidden(&Path::new("force"), "may not be specified for non-apply patch"));
    }
    errors.extend(meta::manager(manager, &Path::new("fieldManager")));
    errors.extend(check_dry_run(&dry_run));
    if !["", "Ignore", "Warn", "Strict"].contains(&validation) {
        errors.push(Error::not_supported(&Path::new("fieldValidation"), validation, &["Ignore", "Warn", "Strict", ""]));
    }
    if !errors.is_empty() {
        return Err(invalid(kind, errors));
    }
    let mut value = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    for (key, text) in [("fieldManager", manager), ("fieldValidation", validation)] {
        if !text.is_empty() {
            value[key] = text.into();
        }
    }
    if !dry_run.is_empty() {
        value["dryRun"] = json!(dry_run);
    }
    if let Some(force) = force {
        value["force"] = is_true(force).into();
    }
    Ok(WriteOptions { dry_run: !dry_run.is_empty(), value })
}

fn invalid(kind: &str, errors: ErrorList) -> Status {
    Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", errors)
}

fn check_dry_run(values: &[String]) -> ErrorList {
    let path = Path::new("dryRun");
    if values.iter().all(|v| v == "All") { ErrorList::new() } else { vec![Error::not_supported(&path, json!(values), &["All"])] }
}

/// Reads and checks DeleteOptions: the body if there is one, else the query.
pub(crate) fn delete(query: &Query, headers: &HeaderMap, cbor: bool, body: &[u8]) -> Result<(DeleteOptions, Value), Status> {
    let mut value = if body.is_empty() {
        delete_query(query)?
    } else {
        to_value(BodyKind::of(headers, cbor)?, body, &schema::builtin(DELETE_OPTIONS))
            .map_err(|e| Status::bad_request(format!("error decoding DeleteOptions: {e}")))?
    };
    if !value.is_object() {
        value = json!({});
    }
    let options: Wire =
        serde_json::from_value(value.clone()).map_err(|e| Status::bad_request(format!("error decoding DeleteOptions: {e}")))?;
    let errors = options.check();
    if !errors.is_empty() {
        return Err(invalid("DeleteOptions", errors));
    }
    value["kind"] = "DeleteOptions".into();
    value["apiVersion"] = "meta.k8s.io/v1".into();
    Ok((options.into(), value))
}

fn delete_query(query: &Query) -> Result<Value, Status> {
    let mut value = json!({});
    let dry_run: Vec<_> = query.iter().filter(|(k, _)| k == "dryRun").map(|(_, v)| v.as_str()).collect();
    if !dry_run.is_empty() {
        value["dryRun"] = json!(dry_run);
    }
    if let Some(text) = get(query, "gracePeriodSeconds") {
        value["gracePeriodSeconds"] = integer(text)?.into();
    }
    if let Some(policy) = get(query, "propagationPolicy") {
        value["propagationPolicy"] = policy.into();
    }
    if let Some(orphan) = get(query, "orphanDependents") {
        value["orphanDependents"] = is_true(orphan).into();
    }
    Ok(value)
}

/// A whole number, refused as Go refuses it.
pub(crate) fn integer(text: &str) -> Result<i64, Status> {
    text.parse().map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))
}

/// DeleteOptions as sent.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    grace_period_seconds: Option<i64>,
    preconditions: Option<Preconditions>,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
    dry_run: Option<Vec<String>>,
    ignore_store_read_error_with_cluster_breaking_potential: Option<bool>,
}

#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Wire {
    fn check(&self) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("propagationPolicy");
        if let (Some(_), Some(policy)) = (self.orphan_dependents, &self.propagation_policy) {
            errors.push(Error::invalid(&path, policy.as_str(), "orphanDependents and deletionPropagation cannot be both set"));
        }
        if let Some(policy) = self.propagation_policy.as_deref().filter(|p| !["Foreground", "Background", "Orphan"].contains(p)) {
            errors.push(Error::not_supported(&path, policy, &["Foreground", "Background", "Orphan", "nil"]));
        }
        errors.extend(check_dry_run(self.dry_run.as_deref().unwrap_or_default()));
        errors
    }
}

impl From<Wire> for DeleteOptions {
    fn from(wire: Wire) -> Self {
        let preconditions = wire.preconditions.unwrap_or_default();
        Self {
            // A negative period means the shortest there is.
            grace_period_seconds: wire.grace_period_seconds.map(|s| if s < 0 { 1 } else { s }),
            uid: preconditions.uid,
            resource_version: preconditions.resource_version,
            propagation_policy: wire.propagation_policy,
            orphan_dependents: wire.orphan_dependents,
            dry_run: wire.dry_run.is_some_and(|d| !d.is_empty()),
            ignore_store_read_error: wire.ignore_store_read_error_with_cluster_breaking_potential.unwrap_or_default(),
        }
    }
}

/// ListOptions, for list, watch and deletecollection.
#[derive(Debug, Default)]
pub(crate) struct ListQuery {
    /// `resourceVersion`, empty if unset.
    pub(crate) resource_version: String,
    /// `resourceVersionMatch`.
    pub(crate) version_match: String,
    /// `limit`, 0 = all.
    pub(crate) limit: u64,
    /// `continue`.
    pub(crate) continue_token: String,
    /// `sendInitialEvents`.
    pub(crate) initial_events: Option<bool>,
    /// `allowWatchBookmarks`.
    pub(crate) bookmarks: bool,
    /// `timeoutSeconds`.
    pub(crate) timeout_seconds: Option<u64>,
}

/// Reads and checks ListOptions.
pub(crate) fn list(query: &Query, watch: bool) -> Result<ListQuery, Status> {
    let text = |key: &str| get(query, key).unwrap_or_default().to_owned();
    let number = |key: &str| get(query, key).filter(|t| !t.is_empty()).map(integer).transpose();
    let options = ListQuery {
        resource_version: text("resourceVersion"),
        version_match: text("resourceVersionMatch"),
        limit: u64::try_from(number("limit")?.unwrap_or_default()).unwrap_or_default(),
        continue_token: text("continue"),
        initial_events: get(query, "sendInitialEvents").map(is_true),
        bookmarks: get(query, "allowWatchBookmarks").is_some_and(is_true),
        timeout_seconds: number("timeoutSeconds")?.and_then(|s| u64::try_from(s).ok()),
    };
    let errors = if watch { options.check_watch() } else { options.check_list() };
    if errors.is_empty() { Ok(options) } else { Err(invalid("ListOptions", errors)) }
}

impl ListQuery {
    fn check_watch(&self) -> ErrorList {
        let path = Path::new("resourceVersionMatch");
        let mut errors = ErrorList::new();
        let not_older = self.version_match == "NotOlderThan";
        if self.initial_events.is_some() && !not_older {
            errors.push(Error::forbidden(&path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
        }
        if !self.version_match.is_empty() {
            if self.initial_events.is_none() {
                errors.push(Error::forbidden(&path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"));
            }
            if !not_older {
                errors.push(Error::not_supported(&path, self.version_match.as_str(), &["NotOlderThan"]));
            }
            if !self.continue_token.is_empty() {
                errors.push(Error::forbidden(&path, "resourceVersionMatch is forbidden when continue is provided"));
            }
        }
        errors
    }

    fn check_list(&self) -> ErrorList {
        let path = Path::new("resourceVersionMatch");
        let mut errors = ErrorList::new();
        if !self.version_match.is_empty() {
            if self.resource_version.is_empty() {
                errors.push(Error::forbidden(&path, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
            }
            if !self.continue_token.is_empty() {
                errors.push(Error::forbidden(&path, "resourceVersionMatch is forbidden when continue is provided"));
            }
            if !["Exact", "NotOlderThan"].contains(&self.version_match.as_str()) {
                errors.push(Error::not_supported(&path, self.version_match.as_str(), &["Exact", "NotOlderThan", ""]));
            }
            if self.version_match == "Exact" && self.resource_version == "0" {
                errors.push(Error::forbidden(&path, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
            }
        }
        if self.initial_events.is_some() {
            errors.push(Error::forbidden(&Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list"));
        }
        errors
    }
}
