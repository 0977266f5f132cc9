//! What kinds look like: types, required fields, defaults, list types and merge keys.
//!
//! An [`Arena`] holds the definitions of a set of kinds (all built-in ones, or those of one custom resource version); a [`Schema`] is one
//! definition in it. Schemas drive decoding, pruning, defaulting, strategic merge and server-side apply. Built-in kinds are read and
//! written the way Go's structs would: empty values of optional fields vanish, fields that are always written appear.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

mod decode;
mod embedded;
mod fill;
mod leaf;
mod lists;
mod prune;
mod structural;
mod validate;

pub use decode::{DecodeError, Decoded};
pub use structural::{structural, structural_part};
pub use validate::{Validator, is_known_format};

/// Index of a node in its arena.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u32);

impl Id {
    /// Where it stands among the nodes of its arena.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Anything, kept as it is.
    Any,
    /// Any object, kept as it is (`runtime.RawExtension`, `FieldsV1`).
    AnyObject,
    /// An object of `Id`, or anything else kept as it is (`JSONSchemaPropsOrBool`).
    ObjectOr(Id),
    /// A struct with these fields, sorted by name.
    Object(Vec<Field>),
    /// A map from text to values of one type.
    Map(Id),
    /// A list.
    Array(Id),
    /// A text.
    String,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A floating-point number.
    Number,
    /// True or false.
    Boolean,
    /// A whole number or a text such as a percentage.
    IntOrString,
    /// A resource quantity.
    Quantity,
    /// An instant to the second.
    Time,
    /// An instant to the microsecond.
    MicroTime,
    /// Bytes, base64 in JSON.
    Bytes,
}

/// How a list merges under server-side apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ListType {
    /// As one value.
    #[default]
    Atomic,
    /// As a set of scalars.
    Set,
    /// As a map, its items told apart by these fields.
    Map(Vec<String>),
}

/// One type, with what applies to all values of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The type.
    pub kind: Kind,
    /// Name of the definition, such as `io.k8s.api.core.v1.Pod`; empty for inline types.
    pub name: String,
    /// Go's name of the type where it is a named one, such as `v1.PullPolicy`.
    pub go_name: String,
    /// Whether an object merges as one value under server-side apply.
    pub atomic: bool,
    /// How a list merges under server-side apply.
    pub list: ListType,
    /// Whether the list type was stated, rather than assumed.
    pub list_stated: bool,
    /// Whether unknown fields are kept.
    pub preserve_unknown: bool,
    /// Whether the object carries `apiVersion`, `kind` and `metadata` (`x-kubernetes-embedded-resource`).
    pub embedded: bool,
    /// Whether null is a value of its own.
    pub nullable: bool,
    /// Fields of a struct of which at most one is set, and the field that names it.
    pub unions: Vec<Union>,
}

/// A group of fields of which the discriminator chooses one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Union {
    /// The field that names the chosen one; may be empty.
    pub discriminator: String,
    /// Field names with the discriminator's value for them.
    pub fields: Vec<(String, String)>,
}

/// How an empty or absent value of a field is written, after the Go field's type and tag.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Presence {
    /// As it was read: custom resources, which have no Go type.
    #[default]
    Kept,
    /// A pointer with `omitempty`: an absent field stays away, an empty value stays.
    Pointer,
    /// A value with `omitempty`: an empty value vanishes.
    OmitEmpty,
    /// A value without `omitempty`: an absent field is written as its zero value.
    Always,
    /// A pointer without `omitempty`: an absent field is written as null.
    NullIfAbsent,
}

/// One field of a struct.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Name in JSON.
    pub name: String,
    /// Type of the value.
    pub node: Id,
    /// Whether it must be there.
    pub required: bool,
    /// What an absent field means.
    pub default: Option<Value>,
    /// How emptiness is written.
    pub presence: Presence,
    /// How the field merges under a strategic merge patch.
    pub patch: Patch,
    /// The values a text may have (for lists: its items), for documents; validation has its own list.
    pub allowed: Vec<String>,
}

/// How a field merges under a strategic merge patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// Whether lists merge, rather than replace.
    pub merge: bool,
    /// Whether keys that the patch does not name are dropped.
    pub retain_keys: bool,
    /// Whether objects are replaced rather than merged.
    pub replace: bool,
    /// The field that tells list items apart; empty for lists of scalars.
    pub merge_key: String,
}

/// The definitions of a set of kinds.
#[derive(Debug, Default)]
pub struct Arena {
    nodes: Vec<Node>,
    names: BTreeMap<String, Id>,
    /// The custom resource the arena is for, which is decoded by other rules than built-in kinds.
    custom: Option<Id>,
}

/// One definition, with the arena it lives in. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Schema {
    arena: Arc<Arena>,
    id: Id,
}

impl Node {
    /// An inline type.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            name: String::new(),
            go_name: String::new(),
            atomic: false,
            list: ListType::Atomic,
            list_stated: false,
            preserve_unknown: false,
            embedded: false,
            nullable: false,
            unions: Vec::new(),
        }
    }
}

impl Field {
    /// An optional field.
    pub fn new(name: impl Into<String>, node: Id) -> Self {
        Self {
            name: name.into(),
            node,
            required: false,
            default: None,
            presence: Presence::Kept,
            patch: Patch::default(),
            allowed: Vec::new(),
        }
    }
}

impl Arena {
    /// Adds an inline type.
    pub fn add(&mut self, node: Node) -> Id {
        let id = Id(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        id
    }

    /// The place of a definition, reserved until [`Arena::define`] fills it, so that definitions may refer to each other.
    pub fn reserve(&mut self, name: &str) -> Id {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = self.add(Node { name: name.into(), ..Node::new(Kind::Any) });
        self.names.insert(name.into(), id);
        id
    }

    /// Fills in a definition. Fields of a struct are sorted here.
    pub fn define(&mut self, name: &str, mut node: Node) -> Id {
        if let Kind::Object(fields) = &mut node.kind {
            fields.sort_by(|a, b| a.name.cmp(&b.name));
        }
        node.name = name.into();
        let id = self.reserve(name);
        self.nodes[id.index()] = node;
        id
    }

    /// Copies a definition of another arena, with all it refers to.
    pub fn import(&mut self, schema: &Schema) -> Id {
        let mut copied = BTreeMap::new();
        self.copy(&schema.arena, schema.id, &mut copied)
    }

    fn copy(&mut self, from: &Arena, id: Id, copied: &mut BTreeMap<Id, Id>) -> Id {
        if let Some(done) = copied.get(&id) {
            return *done;
        }
        let mut node = from.node(id).clone();
        let target = if node.name.is_empty() { self.add(node.clone()) } else { self.reserve(&node.name) };
        copied.insert(id, target);
        match &mut node.kind {
            Kind::Map(inner) | Kind::Array(inner) | Kind::ObjectOr(inner) => *inner = self.copy(from, *inner, copied),
            Kind::Object(fields) => fields.iter_mut().for_each(|field| field.node = self.copy(from, field.node, copied)),
            _ => {}
        }
        self.nodes[target.index()] = node;
        target
    }

    /// A node by its index.
    pub fn node(&self, id: Id) -> &Node {
        &self.nodes[id.index()]
    }

    /// The index of a definition.
    pub fn find(&self, name: &str) -> Option<Id> {
        self.names.get(name).copied()
    }

    /// The names of all definitions, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Go's name of a type, as error messages print it: `[]v1.Container`, `map[string]string`.
    pub fn go_type(&self, id: Id) -> String {
        let node = self.node(id);
        if !node.go_name.is_empty() {
            return node.go_name.clone();
        }
        match &node.kind {
            Kind::Map(inner) => format!("map[string]{}", self.go_type(*inner)),
            Kind::Array(inner) => format!("[]{}", self.go_type(*inner)),
            Kind::String => "string".into(),
            Kind::Int32 => "int32".into(),
            Kind::Int64 => "int64".into(),
            Kind::Number => "float64".into(),
            Kind::Boolean => "bool".into(),
            Kind::Bytes => "[]uint8".into(),
            Kind::Any => "interface {}".into(),
            _ => short_name(&node.name),
        }
    }
}

/// `v1.Pod` of `io.k8s.api.core.v1.Pod`.
fn short_name(definition: &str) -> String {
    let mut parts = definition.rsplitn(3, '.');
    let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if package.is_empty() { name.into() } else { format!("{package}.{name}") }
}

impl Schema {
    /// The definition `name` of an arena.
    pub fn named(arena: &Arc<Arena>, name: &str) -> Option<Self> {
        Some(Self { arena: arena.clone(), id: arena.find(name)? })
    }

    /// The node `id` of an arena.
    pub fn at(arena: &Arc<Arena>, id: Id) -> Self {
        Self { arena: arena.clone(), id }
    }

    /// The arena this definition lives in.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// The place in the arena.
    pub fn id(&self) -> Id {
        self.id
    }

    /// The type.
    pub fn node(&self) -> &Node {
        self.arena.node(self.id)
    }

    /// The name of the definition; empty for inline types.
    pub fn name(&self) -> &str {
        &self.node().name
    }

    /// Whether this is a custom resource, which is read by other rules than built-in kinds.
    pub fn is_custom(&self) -> bool {
        self.arena.custom == Some(self.id)
    }

    /// Whether reading an object of this custom resource changes nothing but its metadata: nothing is dropped or filled in.
    pub fn is_open(&self) -> bool {
        let known = self.fields().iter().all(|field| matches!(field.name.as_str(), "apiVersion" | "kind" | "metadata"));
        self.node().preserve_unknown && known
    }

    /// The fields of a struct; empty for other types.
    pub fn fields(&self) -> &[Field] {
        fields(self.node())
    }

    /// One field of a struct.
    pub fn field(&self, name: &str) -> Option<&Field> {
        field(self.node(), name)
    }

    /// The type of a member: a field of a struct, or the values of a map.
    pub fn member(&self, name: &str) -> Option<Self> {
        match &self.node().kind {
            Kind::Map(inner) => Some(Self::at(&self.arena, *inner)),
            _ => self.field(name).map(|field| Self::at(&self.arena, field.node)),
        }
    }

    /// The type of a list's items.
    pub fn items(&self) -> Option<Self> {
        match self.node().kind {
            Kind::Array(inner) => Some(Self::at(&self.arena, inner)),
            _ => None,
        }
    }

    /// The type at a path of members and items, such as `spec.template.spec.containers`; lists are passed through.
    pub fn descend(&self, path: &str) -> Option<Self> {
        path.split('.').filter(|part| !part.is_empty()).try_fold(self.clone(), |schema, name| {
            let schema = schema.items().unwrap_or(schema);
            schema.member(name)
        })
    }
}

pub(crate) fn fields(node: &Node) -> &[Field] {
    match &node.kind {
        Kind::Object(fields) => fields,
        _ => &[],
    }
}

pub(crate) fn field<'a>(node: &'a Node, name: &str) -> Option<&'a Field> {
    let fields = fields(node);
    fields.binary_search_by(|field| field.name.as_str().cmp(name)).ok().map(|index| &fields[index])
}

#[cfg(test)]
pub(crate) mod sample;
