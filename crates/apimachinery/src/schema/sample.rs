//! A small kind for tests, shaped like a Pod.

use std::sync::Arc;

use serde_json::json;

use super::{Arena, Field, Id, Kind, ListType, Node, Patch, Presence, Schema};

fn list(arena: &mut Arena, item: Id, list: ListType) -> Id {
    arena.add(Node { list, ..Node::new(Kind::Array(item)) })
}

fn field(name: &str, node: Id, presence: Presence) -> Field {
    Field { presence, ..Field::new(name, node) }
}

fn merged(mut field: Field, key: &str) -> Field {
    field.patch = Patch { merge: true, merge_key: key.into(), ..Patch::default() };
    field
}

fn object(fields: Vec<Field>) -> Node {
    Node::new(Kind::Object(fields))
}

/// A schema with every kind of field the modules here tell apart.
pub(crate) fn pod() -> Schema {
    use Presence::{Always, OmitEmpty, Pointer};
    let mut arena = Arena::default();
    let [text, int32, int64, flag] = [Kind::String, Kind::Int32, Kind::Int64, Kind::Boolean].map(|kind| arena.add(Node::new(kind)));
    let time = arena.define("io.test.v1.Time", Node::new(Kind::Time));
    let amount = arena.define("io.test.v1.Quantity", Node::new(Kind::Quantity));
    let texts = arena.add(Node::new(Kind::Map(text)));
    let limits = arena.add(Node { go_name: "v1.ResourceList".into(), ..Node::new(Kind::Map(amount)) });
    let pull = arena.add(Node { go_name: "v1.PullPolicy".into(), ..Node::new(Kind::String) });
    let either = arena.add(Node::new(Kind::IntOrString));
    let finalizers = list(&mut arena, text, ListType::Set);
    let args = list(&mut arena, text, ListType::Atomic);

    let any = arena.add(Node::new(Kind::AnyObject));
    let managed = list(&mut arena, any, ListType::Atomic);
    let meta = arena.define(
        "io.test.v1.ObjectMeta",
        object(vec![
            field("name", text, OmitEmpty),
            field("labels", texts, OmitEmpty),
            field("annotations", texts, OmitEmpty),
            field("created", time, OmitEmpty),
            merged(field("finalizers", finalizers, OmitEmpty), ""),
            field("managedFields", managed, Pointer),
            field("uid", text, OmitEmpty),
        ]),
    );
    let protocol = Field { default: Some(json!("TCP")), ..field("protocol", text, OmitEmpty) };
    let port = arena.define("io.test.v1.Port", object(vec![field("port", int32, Always), field("name", text, OmitEmpty), protocol]));
    let ports = list(&mut arena, port, ListType::Map(vec!["port".into(), "protocol".into()]));
    let resources = arena.define("io.test.v1.Resources", object(vec![field("limits", limits, OmitEmpty)]));
    let env = arena.define("io.test.v1.Env", object(vec![field("name", text, Always), field("value", text, OmitEmpty)]));
    let envs = list(&mut arena, env, ListType::Map(vec!["name".into()]));
    let container = arena.define(
        "io.test.v1.Container",
        object(vec![
            field("name", text, Always),
            field("image", text, OmitEmpty),
            field("pull", pull, OmitEmpty),
            field("args", args, OmitEmpty),
            field("limits", limits, OmitEmpty),
            field("port", either, OmitEmpty),
            field("resources", resources, Always),
            merged(field("env", envs, OmitEmpty), "name"),
            merged(field("ports", ports, OmitEmpty), "port"),
        ]),
    );
    let containers = list(&mut arena, container, ListType::Map(vec!["name".into()]));
    let strategy = arena.define("io.test.v1.Strategy", object(vec![field("type", text, OmitEmpty), field("rolling", texts, Pointer)]));
    let retained = Field { patch: Patch { retain_keys: true, ..Patch::default() }, ..field("strategy", strategy, Pointer) };
    let selector = arena.define("io.test.v1.Selector", Node { atomic: true, ..object(vec![field("matchLabels", texts, OmitEmpty)]) });
    let spec = arena.define(
        "io.test.v1.PodSpec",
        object(vec![
            field("grace", int64, Pointer),
            field("count", int32, OmitEmpty),
            field("host", flag, OmitEmpty),
            field("class", text, Pointer),
            merged(field("containers", containers, Always), "name"),
            field("volumes", args, OmitEmpty),
            field("selector", selector, Pointer),
            retained,
        ]),
    );
    let (api_version, kind) = (field("apiVersion", text, OmitEmpty), field("kind", text, OmitEmpty));
    let fields = vec![api_version, kind, field("metadata", meta, Always), field("spec", spec, Pointer)];
    arena.define("io.test.v1.Pod", object(fields));
    Schema::named(&Arc::new(arena), "io.test.v1.Pod").unwrap()
}
