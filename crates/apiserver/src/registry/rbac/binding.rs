//! Role bindings and cluster role bindings.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
    names,
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use super::GROUP;
use crate::{
    registry::{
        Column, Strategy,
        check::{At, internal_form},
        edit::{default_zero, each, ensure_object, text},
        print::age,
    },
    request::RequestContext,
};

/// The rules of bindings; `cluster` for those that bind everywhere.
pub(crate) struct Binding {
    /// Whether this is the cluster-scoped kind.
    pub(crate) cluster: bool,
}

#[async_trait]
impl Strategy for Binding {
    fn default(&self, obj: &mut Object) {
        default_zero(ensure_object(&mut obj.0, "roleRef"), "apiGroup", GROUP);
        for subject in each(&mut obj.0, "subjects") {
            if matches!(text(subject, "kind"), "User" | "Group") {
                default_zero(subject, "apiGroup", GROUP);
            }
        }
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let role = At::field(obj, "roleRef");
        role.get("apiGroup").one_of(&[GROUP], &mut errs);
        let kinds: &[&str] = if self.cluster { &["ClusterRole"] } else { &["Role", "ClusterRole"] };
        role.get("kind").one_of(kinds, &mut errs);
        role.get("name").required_name(names::is_path_segment_name, &mut errs);
        for subject in At::field(obj, "subjects").items() {
            self::subject(&subject, self.cluster, &mut errs);
        }
        errs
    }

    fn validate_update(&self, ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = self.validate(ctx, obj);
        let role = At::field(obj, "roleRef");
        if role.value != At::field(old, "roleRef").value {
            errs.push(Error::invalid(&role.path, internal_form(role.value), "cannot change roleRef"));
        }
        errs
    }

    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::is_path_segment_name(name)
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::object_name("Name of the binding."),
            Column::new("Role", "string", "The role that is granted."),
            Column::new("Age", "string", "Time since creation."),
            Column::wide("Users", "string", "Users it is granted to."),
            Column::wide("Groups", "string", "Groups it is granted to."),
            Column::wide("ServiceAccounts", "string", "Service accounts it is granted to."),
        ]
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let role = At::field(obj, "roleRef");
        let subjects = At::field(obj, "subjects").items();
        let of = |kind: &str| {
            let chosen = subjects.iter().filter(|subject| subject.get("kind").str() == kind);
            let name = |subject: &At<'_>| match kind {
                "ServiceAccount" => format!("{}/{}", subject.get("namespace").str(), subject.get("name").str()),
                _ => subject.get("name").str().to_owned(),
            };
            chosen.map(name).collect::<Vec<_>>().join(", ")
        };
        let granted = format!("{}/{}", role.get("kind").str(), role.get("name").str());
        vec![obj.name().into(), granted.into(), age(obj, now), of("User").into(), of("Group").into(), of("ServiceAccount").into()]
    }
}

fn subject(subject: &At<'_>, cluster: bool, errs: &mut ErrorList) {
    let (name, group, namespace) = (subject.get("name"), subject.get("apiGroup"), subject.get("namespace"));
    name.require_str("", errs);
    match subject.get("kind").str() {
        "ServiceAccount" => {
            name.name_if_set(names::is_dns1123_subdomain, errs);
            if !group.is_empty() {
                errs.push(group.not_supported(&[""]));
            }
            if cluster {
                namespace.require_str("", errs);
            }
        }
        "User" | "Group" => group.one_of(&[GROUP], errs),
        _ => subject.get("kind").one_of(&["ServiceAccount", "User", "Group"], errs),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_binding_cannot_refer_to_a_role() {
        let check = |obj: Value| {
            let mut obj = Object::from_value(obj).unwrap();
            let strategy = Binding { cluster: true };
            strategy.default(&mut obj);
            strategy.validate(&RequestContext::for_tests(), &obj).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            check(json!({"roleRef": {"kind": "Role", "name": "x"}})),
            [r#"roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole""#]
        );
        assert_eq!(
            check(json!({"roleRef": {"kind": "ClusterRole", "name": "x"}, "subjects": [{"kind": "ServiceAccount", "name": "x"}]})),
            ["subjects[0].namespace: Required value"]
        );
    }

    #[test]
    fn rows_list_subjects_by_kind() {
        let obj = Object::from_value(json!({"metadata": {"name": "a"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}))
        .unwrap();
        let cells = Binding { cluster: false }.cells(&obj, Timestamp::UNIX_EPOCH);
        assert_eq!((&cells[1], &cells[3..]), (&json!("Role/r"), &[json!("u"), json!("g"), json!("n/s")][..]));
    }
}
