//! Reads the table of built-in definitions. It is our own and tested; a line that makes no sense is skipped.

use std::{collections::BTreeMap, sync::Arc};

use apimachinery::{
    gvk::GroupVersion,
    schema::{Arena, Field, Id, Kind, ListType, Node, Patch, Presence, Union},
};

use super::{Definitions, Served};

/// Builds all definitions of the table.
pub(super) fn read(text: &str) -> Definitions {
    let mut reader = Reader::default();
    let mut block: Option<(Header, Vec<Field>)> = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with("io.") {
            reader.finish(block.take());
            let header = reader.header(line);
            block = Some((header, Vec::new()));
        } else if let Some((header, fields)) = &mut block {
            fields.extend(reader.field(line, &header.package));
        }
    }
    reader.finish(block);
    Definitions { arena: Arc::new(reader.arena), kinds: reader.kinds, required_order: reader.required_order }
}

#[derive(Default)]
struct Reader {
    arena: Arena,
    kinds: BTreeMap<String, Served>,
    required_order: BTreeMap<String, Vec<String>>,
    /// Inline types are shared between the fields that have them.
    inline: BTreeMap<(String, String), Id>,
}

struct Header {
    name: String,
    package: String,
    node: Node,
    leaf: bool,
}

impl Reader {
    fn header(&mut self, line: &str) -> Header {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default().to_owned();
        let package = name.rsplit_once('.').map_or("", |(package, _)| package).to_owned();
        let mut header = Header { node: Node::new(Kind::Object(Vec::new())), leaf: false, name, package };
        for word in words {
            match word.split_once('=') {
                Some(("", leaf)) => {
                    header.node.kind = self.leaf(leaf, &header.package);
                    header.leaf = true;
                }
                Some(("gvk", "*")) => _ = self.kinds.insert(header.name.clone(), Served::Everywhere),
                Some(("gvk", list)) => {
                    let versions = list.split(',').map(|text| GroupVersion::parse(text.trim_start_matches('/')).unwrap_or_default());
                    self.kinds.insert(header.name.clone(), Served::In(versions.collect()));
                }
                Some(("required", order)) => {
                    let order = order.split(',').map(str::to_owned).collect();
                    self.required_order.insert(header.name.clone(), order);
                }
                Some(("union", union)) => header.node.unions.push(read_union(union)),
                _ => header.node.atomic |= word == "atomic",
            }
        }
        header
    }

    fn leaf(&mut self, leaf: &str, package: &str) -> Kind {
        match leaf {
            "time" => Kind::Time,
            "microtime" => Kind::MicroTime,
            "quantity" => Kind::Quantity,
            "intorstring" => Kind::IntOrString,
            "anyobject" => Kind::AnyObject,
            _ => match leaf.strip_prefix("or:") {
                Some(target) => Kind::ObjectOr(self.named(target, package)),
                None => Kind::Any,
            },
        }
    }

    fn finish(&mut self, block: Option<(Header, Vec<Field>)>) {
        let Some((mut header, fields)) = block else {
            return;
        };
        if !header.leaf {
            header.node.kind = Kind::Object(fields);
        }
        self.arena.define(&header.name, header.node);
    }

    fn named(&mut self, text: &str, package: &str) -> Id {
        match text.strip_prefix('.') {
            Some(name) => self.arena.reserve(&format!("{package}.{name}")),
            None => self.arena.reserve(&format!("io.k8s.{text}")),
        }
    }

    fn field(&mut self, line: &str, package: &str) -> Option<Field> {
        let (line, allowed) = match line.split_once(" enum=") {
            Some((line, values)) => (line, values.split('|').map(str::to_owned).collect()),
            None => (line, Vec::new()),
        };
        let mut words = line.split(' ');
        let (name, mut written) = (words.next()?, words.next()?);
        let presence = match written.as_bytes().first()? {
            b'*' => Presence::Pointer,
            b'+' => Presence::Always,
            b'^' => Presence::NullIfAbsent,
            _ => Presence::OmitEmpty,
        };
        if presence != Presence::OmitEmpty {
            written = &written[1..];
        }
        let mut field = Field { presence, allowed, ..Field::new(name, Id::default()) };
        let (mut list, mut atomic) = (None, false);
        for word in words {
            match word.split_once('=') {
                Some(("", default)) => field.default = serde_json::from_str(default).ok(),
                Some(("map", keys)) => list = Some(ListType::Map(keys.split(',').map(str::to_owned).collect())),
                Some(("patch", patch)) => field.patch = read_patch(patch),
                _ => match word {
                    "!" => field.required = true,
                    "set" => list = Some(ListType::Set),
                    "atomic" => list = Some(ListType::Atomic),
                    "map-atomic" => atomic = true,
                    _ => {}
                },
            }
        }
        field.node = self.typed(written, package, list, atomic);
        Some(field)
    }

    /// The node of a written type. Lists and maps that merge in their own way are nodes of their own.
    fn typed(&mut self, text: &str, package: &str, list: Option<ListType>, atomic: bool) -> Id {
        if text.starts_with('.') || (text.contains('.') && !text.starts_with(['[', '{']) && !text.contains(':')) {
            return self.named(text, package);
        }
        let key = (package.to_owned(), format!("{text} {list:?} {atomic}"));
        if let Some(id) = self.inline.get(&key) {
            return *id;
        }
        let (shape, go_name) = split_go_name(text);
        let kind = self.kind(shape, package);
        let mut node = Node { atomic, list: list.clone().unwrap_or_default(), list_stated: list.is_some(), ..Node::new(kind) };
        if let Some(name) = go_name {
            node.go_name = if name.contains('.') { name.to_owned() } else { format!("v1.{name}") };
        }
        let id = self.arena.add(node);
        self.inline.insert(key, id);
        id
    }

    fn kind(&mut self, shape: &str, package: &str) -> Kind {
        match shape {
            "str" => Kind::String,
            "bool" => Kind::Boolean,
            "i32" => Kind::Int32,
            "i64" => Kind::Int64,
            "f64" => Kind::Number,
            "bytes" => Kind::Bytes,
            _ => {
                let inner = shape.get(1..shape.len() - 1).unwrap_or_default();
                let inner = self.typed(inner, package, None, false);
                if shape.starts_with('[') { Kind::Array(inner) } else { Kind::Map(inner) }
            }
        }
    }
}

/// Splits `[str:Name]:Outer` at the colon outside the brackets.
fn split_go_name(text: &str) -> (&str, Option<&str>) {
    let end = text.rfind([']', '}']).map_or(0, |at| at + 1);
    match text[end..].find(':') {
        Some(at) => (&text[..end + at], Some(&text[end + at + 1..])),
        None => (text, None),
    }
}

fn read_union(text: &str) -> Union {
    let (discriminator, fields) = text.split_once(':').unwrap_or_default();
    let fields = fields.split(',').filter_map(|field| field.split_once('='));
    Union { discriminator: discriminator.to_owned(), fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() }
}

fn read_patch(text: &str) -> Patch {
    let (strategies, key) = text.split_once(':').unwrap_or((text, ""));
    let has = |strategy| strategies.split(',').any(|word| word == strategy);
    Patch { merge: has("merge"), retain_keys: has("retainKeys"), replace: has("replace"), merge_key: key.to_owned() }
}
