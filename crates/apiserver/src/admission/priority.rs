//! A pod's priority is that of its class.

use std::sync::Arc;

use apimachinery::{Object, status::Status};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Admission, Attributes, Operation};
use crate::informer::{Cache, feed};
use crate::loopback::Loopback;
use crate::request::RequestContext;

const GROUP: &str = "scheduling.k8s.io";

/// Upstream's plugin of the same name.
pub(crate) struct Priority {
    api: Loopback,
    classes: Arc<Cache<Class>>,
}

/// What a class gives its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Class {
    name: String,
    value: i64,
    preemption: String,
    default: bool,
}

impl Class {
    fn of(object: &Object) -> Self {
        let preemption = match object.str_at("/preemptionPolicy") {
            "" => "PreemptLowerPriority",
            given => given,
        };
        Self {
            name: object.name().to_owned(),
            value: object.pointer("/value").and_then(Value::as_i64).unwrap_or(0),
            preemption: preemption.to_owned(),
            default: object.pointer("/globalDefault").and_then(Value::as_bool).unwrap_or(false),
        }
    }

    /// What pods get where no class is the default.
    fn none() -> Self {
        Self::of(&Object::default())
    }
}

impl Priority {
    pub(crate) fn new(api: Loopback) -> Self {
        Self { api, classes: Cache::new(|object| Some(Class::of(&object))) }
    }

    /// Follows priority classes; runs until dropped.
    pub(crate) async fn run(&self, api: &Loopback) {
        feed(api.api("scheduling.k8s.io/v1", "priorityclasses"), self.classes.clone()).await;
    }

    /// The default class: of several, the one of the lowest value.
    fn default_class(&self) -> Option<Class> {
        let classes = self.classes.list("").into_iter().map(|(_, class)| class).filter(|class| class.default);
        classes.min_by_key(|class| class.value).map(|class| (*class).clone())
    }

    /// A class by name; `None` if there is none.
    async fn class(&self, name: &str) -> Result<Option<Class>, Status> {
        if let Some(known) = self.classes.get("", name) {
            return Ok(Some((*known).clone()));
        }
        let found = self.api.api("scheduling.k8s.io/v1", "priorityclasses").get_opt(name).await?;
        Ok(found.map(|object| Class::of(&object)))
    }

    async fn admit_pod(&self, attributes: &mut Attributes) -> Result<(), Status> {
        let text = |attributes: &Attributes, pointer: &str| {
            attributes.object.as_ref().map(|pod| pod.str_at(pointer).to_owned()).unwrap_or_default()
        };
        let name = text(attributes, "/spec/priorityClassName");
        let class = if name.is_empty() {
            self.default_class().unwrap_or_else(Class::none)
        } else {
            let missing = || attributes.forbidden(format!("no PriorityClass with name {name} was found"));
            self.class(&name).await?.ok_or_else(missing)?
        };
        let given = attributes.object.as_ref().and_then(|pod| pod.pointer("/spec/priority")).and_then(Value::as_i64);
        if let Some(given) = given.filter(|given| *given != class.value) {
            let computed = class.value;
            return Err(attributes.forbidden(format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
            )));
        }
        let given = text(attributes, "/spec/preemptionPolicy");
        if !given.is_empty() && given != class.preemption {
            let computed = &class.preemption;
            return Err(attributes.forbidden(format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
            )));
        }
        if let Some(spec) = attributes.object.as_mut().and_then(|pod| pod.pointer_mut("/spec")) {
            give(spec, &class);
        }
        Ok(())
    }
}

fn give(spec: &mut Value, class: &Class) {
    if !class.name.is_empty() {
        spec["priorityClassName"] = class.name.clone().into();
    }
    spec["priority"] = class.value.into();
    spec["preemptionPolicy"] = class.preemption.clone().into();
}

/// What was given at creation stays; validation refuses other changes.
fn keep(attributes: &mut Attributes) {
    let Some(old) = &attributes.old_object else { return };
    for field in ["priority", "preemptionPolicy"] {
        let old = old.pointer(&format!("/spec/{field}")).cloned();
        if let (Some(old), Some(Value::Object(spec))) = (old, attributes.object.as_mut().and_then(|pod| pod.pointer_mut("/spec"))) {
            spec.entry(field).or_insert(old);
        }
    }
}

#[async_trait]
impl Admission for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    async fn admit(&self, _ctx: &RequestContext, attributes: &mut Attributes) -> Result<(), Status> {
        match attributes.operation {
            _ if !attributes.is("", "pods") => Ok(()),
            Operation::Create => self.admit_pod(attributes).await,
            _ => {
                keep(attributes);
                Ok(())
            }
        }
    }

    async fn validate(&self, _ctx: &RequestContext, attributes: &Attributes) -> Result<(), Status> {
        let becomes_default = attributes.object.as_ref().and_then(|class| class.pointer("/globalDefault")) == Some(&json!(true));
        if !attributes.is(GROUP, "priorityclasses") || !becomes_default {
            return Ok(());
        }
        match self.default_class() {
            Some(class) if attributes.operation == Operation::Create || class.name != attributes.name => {
                let name = class.name;
                Err(attributes.forbidden(format!("PriorityClass {name} is already marked as default. Only one default can exist")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test::{attributes, context};
    use super::*;
    use crate::informer::Sink as _;

    fn plugin(default: bool) -> Priority {
        let plugin = Priority::new(Loopback::default());
        let class = json!({"metadata": {"name": "gold"}, "value": 77, "preemptionPolicy": "Never", "globalDefault": default});
        plugin.classes.upsert(Object::from_value(class).unwrap());
        plugin
    }

    async fn admit(plugin: &Priority, spec: Value) -> Result<Value, String> {
        let mut create = attributes("", "pods", Operation::Create, "n", "p", Some(json!({"spec": spec})), None);
        plugin.admit(&context(""), &mut create).await.map_err(|status| status.message)?;
        Ok(create.object.unwrap().pointer("/spec").cloned().unwrap())
    }

    #[tokio::test]
    async fn a_pod_takes_value_and_policy_of_its_class() {
        let spec = admit(&plugin(false), json!({"priorityClassName": "gold"})).await.unwrap();
        assert_eq!(spec, json!({"priorityClassName": "gold", "priority": 77, "preemptionPolicy": "Never"}));
        let spec = admit(&plugin(true), json!({})).await.unwrap();
        assert_eq!(spec["priorityClassName"], "gold");
        let spec = admit(&plugin(false), json!({})).await.unwrap();
        assert_eq!(spec, json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}));
    }

    #[tokio::test]
    async fn a_pod_may_not_say_another_priority() {
        let refused = admit(&plugin(false), json!({"priorityClassName": "gold", "priority": 5})).await.unwrap_err();
        assert!(
            refused
                .contains("the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 77")
        );
    }

    #[tokio::test]
    async fn an_update_keeps_what_creation_gave() {
        let (new, old) = (json!({"spec": {}}), json!({"spec": {"priority": 3, "preemptionPolicy": "Never"}}));
        let mut update = attributes("", "pods", Operation::Update, "n", "p", Some(new), Some(old.clone()));
        plugin(false).admit(&context(""), &mut update).await.unwrap();
        assert_eq!(update.object.unwrap().value(), old);
    }

    #[tokio::test]
    async fn there_is_one_default_class() {
        let class =
            |name: &str| attributes(GROUP, "priorityclasses", Operation::Create, "", name, Some(json!({"globalDefault": true})), None);
        assert!(plugin(true).validate(&context(""), &class("x")).await.is_err());
        assert!(plugin(false).validate(&context(""), &class("x")).await.is_ok());
    }
}
