//! Which field number stands for what.

use std::{collections::BTreeMap, sync::Arc};

use crate::schema::{Arena, Field, Kind, Node};

/// The field numbers of the definitions of an arena.
#[derive(Debug)]
pub struct Forms {
    pub(super) arena: Arc<Arena>,
    messages: Vec<Option<Message>>,
}

/// One message: its slots, sorted by number.
pub(super) type Message = Vec<Slot>;

/// What a field number stands for.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) number: u32,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// The definition's field at that place.
    Field(usize),
    /// A message whose fields lie in the definition around it (Go's embedded structs).
    Inline(Message),
}

/// Embedded structs lie at most this deep in each other.
const MAX_INLINE: usize = 4;

impl Forms {
    /// Reads a table: lines of `message name=number …`, where `@message=number` is a message whose fields lie in the one around it. The
    /// messages are named as the definitions of `arena`, with or without the `io.k8s.`; what the arena does not know is left out.
    pub fn read(arena: &Arc<Arena>, text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let table: Table<'_> = lines.map(|line| line.split_once(' ').unwrap_or((line, ""))).collect();
        let mut messages = Vec::new();
        for (name, slots) in &table {
            let Some(id) = arena.find(&format!("io.k8s.{name}")).or_else(|| arena.find(name)) else { continue };
            let Kind::Object(fields) = &arena.node(id).kind else { continue };
            if messages.len() <= id.index() {
                messages.resize_with(id.index() + 1, || None);
            }
            messages[id.index()] = Some(message(&table, fields, slots, 0));
        }
        Self { arena: arena.clone(), messages }
    }

    pub(super) fn message(&self, id: crate::schema::Id) -> Option<&Message> {
        self.messages.get(id.index())?.as_ref()
    }

    /// The fields of a definition that have no number, `apiVersion` and `kind` of objects among them. `None` without any numbers.
    pub fn unnumbered(&self, definition: &str) -> Option<Vec<&str>> {
        let id = self.arena.find(definition)?;
        let (Kind::Object(fields), Some(message)) = (&self.arena.node(id).kind, self.message(id)) else { return None };
        let mut numbered = vec![false; fields.len()];
        mark(message, &mut numbered);
        Some(fields.iter().zip(numbered).filter(|(_, has)| !has).map(|(field, _)| field.name.as_str()).collect())
    }
}

fn mark(message: &Message, numbered: &mut [bool]) {
    for slot in message {
        match &slot.what {
            What::Field(at) => numbered[*at] = true,
            What::Inline(inner) => mark(inner, numbered),
        }
    }
}

type Table<'a> = BTreeMap<&'a str, &'a str>;

fn message(table: &Table<'_>, fields: &[Field], slots: &str, depth: usize) -> Message {
    let mut message: Message = slots.split(' ').filter_map(|text| slot(table, fields, text, depth)).collect();
    message.sort_by_key(|slot| slot.number);
    message
}

fn slot(table: &Table<'_>, fields: &[Field], text: &str, depth: usize) -> Option<Slot> {
    let (name, number) = text.rsplit_once('=')?;
    let what = match name.strip_prefix('@') {
        Some(inner) if depth < MAX_INLINE => What::Inline(message(table, fields, table.get(inner)?, depth + 1)),
        Some(_) => return None,
        None => What::Field(fields.binary_search_by(|field| field.name.as_str().cmp(name)).ok()?),
    };
    Some(Slot { number: number.parse().ok()?, what })
}

/// Whether a list is a message of its own, its items being field 1. Upstream: the types marked `+protobuf.nullable=true`.
pub(super) fn is_message(list: &Node) -> bool {
    matches!(list.go_name.as_str(), "v1.ExtraValue" | "v1.Verbs")
}
