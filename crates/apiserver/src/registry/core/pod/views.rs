//! `pods/ephemeralcontainers` and `pods/resize`: the parts of a running pod that have doors of their own.

use apimachinery::{
    Object,
    field::{Error, ErrorList},
};
use async_trait::async_trait;
use serde_json::Value;

use crate::{
    registry::{
        Generation, Strategy,
        check::At,
        core::pod_spec::{self, defaults, resources},
        edit::{self, copy, ensure_object},
        strategy::SPEC,
    },
    request::RequestContext,
};

/// Adds ephemeral containers; nothing else of the pod changes.
pub(crate) struct EphemeralContainers;

#[async_trait]
impl Strategy for EphemeralContainers {
    fn default(&self, obj: &mut Object) {
        defaults::pod_spec(ensure_object(&mut obj.0, "spec"));
    }

    fn prepare_for_update(&self, _ctx: &RequestContext, obj: &mut Object, old: &Object) {
        let wanted = obj.pointer("/spec/ephemeralContainers").cloned();
        obj.0.insert("spec".into(), old.0.get("spec").cloned().unwrap_or_default());
        copy(&mut obj.0, &old.0, "status");
        if let Some(wanted) = wanted {
            ensure_object(&mut obj.0, "spec").insert("ephemeralContainers".into(), wanted);
        }
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let (spec, was) = (At::field(obj, "spec"), At::field(old, "spec"));
        pod_spec::validate(&spec, &mut errs);
        let list = spec.get("ephemeralContainers");
        for before in was.get("ephemeralContainers").items() {
            let name = before.get("name").str();
            match list.items().iter().find(|container| container.get("name").str() == name) {
                None => errs.push(list.forbidden(format!("existing ephemeral containers {name:?} may not be removed\n"))),
                Some(now) if now.value != before.value => {
                    errs.push(list.forbidden(format!("existing ephemeral containers {name:?} may not be changed\n")));
                }
                Some(_) => {}
            }
        }
        errs
    }

    fn generation(&self) -> Generation {
        SPEC
    }
}

/// Changes containers' cpu and memory in place.
pub(crate) struct Resize;

#[async_trait]
impl Strategy for Resize {
    fn default(&self, obj: &mut Object) {
        defaults::pod_spec(ensure_object(&mut obj.0, "spec"));
    }

    fn prepare_for_update(&self, _ctx: &RequestContext, obj: &mut Object, old: &Object) {
        let wanted = obj.clone();
        obj.0.insert("spec".into(), old.0.get("spec").cloned().unwrap_or_default());
        copy(&mut obj.0, &old.0, "status");
        for list in ["containers", "initContainers"] {
            let news = At::field(&wanted, "spec").get(list).items();
            for container in edit::each(ensure_object(&mut obj.0, "spec"), list) {
                let name = edit::text(container, "name").to_owned();
                let Some(new) = news.iter().find(|new| new.get("name").str() == name).and_then(At::map) else { continue };
                for field in ["resources", "resizePolicy"] {
                    copy(container, new, field);
                }
            }
        }
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = ErrorList::new();
        let (spec, was) = (At::field(obj, "spec"), At::field(old, "spec"));
        pod_spec::validate(&spec, &mut errs);
        let class = resources::qos_class(&was);
        if resources::qos_class(&spec) != class {
            errs.push(Error::invalid(&spec.path, class, "Pod QOS Class may not change as a result of resizing"));
        }
        for (new, old) in spec.get("containers").items().iter().zip(was.get("containers").items()) {
            container(&spec, &new.get("resources"), &old.get("resources"), &mut errs);
        }
        errs
    }

    fn generation(&self) -> Generation {
        SPEC
    }
}

fn container(spec: &At<'_>, new: &At<'_>, old: &At<'_>, errs: &mut ErrorList) {
    for (list, words) in [("limits", "resource limits"), ("requests", "resource requests")] {
        let (now, before) = (new.get(list), old.get(list));
        let mutable = |name: &str| ["cpu", "memory"].contains(&name);
        if before.entries().iter().any(|(name, _)| mutable(name) && !now.key(name).is_set()) {
            errs.push(now.forbidden(format!("{words} cannot be removed")));
        }
        let fixed = |at: &At<'_>| -> Vec<(String, Value)> {
            let others = at.entries().into_iter().filter(|(name, _)| !mutable(name));
            others.map(|(name, quantity)| (name.to_owned(), quantity.value.clone())).collect()
        };
        if fixed(&now) != fixed(&before) {
            errs.push(spec.forbidden("only cpu and memory resources are mutable"));
        }
    }
}
