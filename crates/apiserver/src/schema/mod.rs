//! The schemas of the built-in kinds.
//!
//! They come from `builtin.txt`, a compact table that is read once, on first use. Descriptions are not in it: they are only wanted for
//! documents and come from `k8s-openapi` there (see [`crate::openapi`]).

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use apimachinery::{
    gvk::GroupVersion,
    schema::{Arena, Field, Kind, Node, Presence, Schema},
};

mod table;
mod written;

pub(crate) use written::Written;

static BUILTIN: LazyLock<Definitions> = LazyLock::new(|| table::read(include_str!("builtin.txt")));

/// Definition of the metadata of every object.
pub(crate) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// All built-in definitions, by upstream's names.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    arena: Arc<Arena>,
    kinds: BTreeMap<String, Served>,
    required_order: BTreeMap<String, Vec<String>>,
}

/// In which groups and versions a definition is a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Served {
    /// In these.
    In(Vec<GroupVersion>),
    /// In all (`WatchEvent`, `DeleteOptions`).
    Everywhere,
}

impl Definitions {
    /// The built-in definitions.
    pub(crate) fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// A definition, such as `io.k8s.api.apps.v1.Deployment`.
    pub(crate) fn get(&self, name: &str) -> Option<Schema> {
        Schema::named(&self.arena, name)
    }

    /// All definitions.
    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// The required fields in upstream's order, where that is not the alphabet's.
    pub(crate) fn required_order(&self, name: &str) -> Option<&[String]> {
        self.required_order.get(name).map(Vec::as_slice)
    }

    /// Where the definition is a kind of its own, if anywhere.
    pub(crate) fn served(&self, name: &str) -> Option<&Served> {
        self.kinds.get(name)
    }
}

/// The schema of a built-in kind; for a name that is not in the table, an object with metadata and anything else.
pub(crate) fn builtin(name: &str) -> Arc<Schema> {
    Arc::new(Definitions::builtin().get(name).unwrap_or_else(|| unstructured(name)))
}

/// The schema of an object of which only type and metadata are known.
pub(crate) fn unstructured(name: &str) -> Schema {
    let mut arena = Arena::default();
    let text = arena.add(Node::new(Kind::String));
    let meta = match Definitions::builtin().get(OBJECT_META) {
        Some(schema) => arena.import(&schema),
        None => arena.add(Node::new(Kind::AnyObject)),
    };
    let fields = vec![
        Field { presence: Presence::OmitEmpty, ..Field::new("apiVersion", text) },
        Field { presence: Presence::OmitEmpty, ..Field::new("kind", text) },
        Field { presence: Presence::Always, ..Field::new("metadata", meta) },
    ];
    let id = arena.define(name, Node { preserve_unknown: true, ..Node::new(Kind::Object(fields)) });
    Schema::at(&Arc::new(arena), id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn decode(definition: &str, value: Value) -> Value {
        let schema = builtin(definition);
        let mut value = schema.decode_value(&value).unwrap().value;
        schema.default(&mut value);
        value
    }

    #[test]
    fn every_definition_of_the_table_is_filled_in() {
        let definitions = Definitions::builtin();
        assert!(definitions.arena().names().count() > 580);
        let loose = [".JSON", ".RawExtension", ".FieldsV1", ".Patch"];
        for name in definitions.arena().names().filter(|name| !loose.iter().any(|end| name.ends_with(end))) {
            assert_ne!(definitions.get(name).unwrap().node().kind, Kind::Any, "{name}");
        }
    }

    #[test]
    fn a_pod_template_gets_its_static_defaults_and_what_go_always_writes() {
        let template = json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}], "stdin": false}]}});
        let deployment = decode("io.k8s.api.apps.v1.Deployment", json!({"spec": {"template": template}}));
        let container = json!({"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}], "resources": {}});
        assert_eq!(
            deployment,
            json!({
                "metadata": {},
                "spec": {"selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": [container]}}},
                "status": {},
            })
        );
    }

    #[test]
    fn pointers_keep_empty_values() {
        let claim = decode("io.k8s.api.core.v1.PersistentVolumeClaim", json!({"spec": {"storageClassName": "", "volumeName": ""}}));
        assert_eq!(claim["spec"], json!({"storageClassName": "", "resources": {}}));
        let pod = decode("io.k8s.api.core.v1.Pod", json!({"spec": {"terminationGracePeriodSeconds": 0, "hostNetwork": false}}));
        assert_eq!(pod["spec"], json!({"containers": null, "terminationGracePeriodSeconds": 0}));
    }

    #[test]
    fn type_errors_name_gos_types() {
        let error = |definition: &str, value| builtin(definition).decode_value(&value).unwrap_err().to_string();
        assert_eq!(
            error("io.k8s.api.core.v1.Service", json!({"spec": {"ports": [{"port": "x"}]}})),
            "json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32"
        );
        assert_eq!(
            error("io.k8s.api.core.v1.ConfigMap", json!({"metadata": "x"})),
            "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta"
        );
        assert_eq!(
            error("io.k8s.api.core.v1.Pod", json!({"spec": {"containers": [{"imagePullPolicy": 1}]}})),
            "json: cannot unmarshal number into Go struct field Container.spec.containers.imagePullPolicy of type v1.PullPolicy"
        );
    }

    #[test]
    fn merge_keys_and_list_types_are_those_of_the_table() {
        let spec = builtin("io.k8s.api.core.v1.Pod").descend("spec").unwrap();
        let containers = spec.field("containers").unwrap();
        assert_eq!((containers.patch.merge, &*containers.patch.merge_key), (true, "name"));
        assert!(spec.field("volumes").unwrap().patch.retain_keys);
        let ports = builtin("io.k8s.api.core.v1.Service").descend("spec.ports").unwrap();
        assert_eq!(ports.node().list, apimachinery::schema::ListType::Map(vec!["port".into(), "protocol".into()]));
    }

    #[test]
    fn schemas_of_custom_resources_definitions_nest() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "pattern": ""}}}});
        let crd = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}});
        let crd = decode("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition", crd);
        let items = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"]["items"];
        assert_eq!(items, &json!({"type": "string"}));
    }

    #[test]
    fn kinds_know_their_groups() {
        let definitions = Definitions::builtin();
        let deployment = definitions.served("io.k8s.api.apps.v1.Deployment");
        assert_eq!(deployment, Some(&Served::In(vec![GroupVersion::new("apps", "v1")])));
        assert_eq!(definitions.served("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"), Some(&Served::Everywhere));
        assert_eq!(definitions.served("io.k8s.api.apps.v1.DeploymentSpec"), None);
    }
}
