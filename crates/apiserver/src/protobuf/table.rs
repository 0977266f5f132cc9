//! Field numbers, read from `fields.txt` on first use.

use std::{collections::BTreeMap, sync::LazyLock};

/// What a field number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The field of that name.
    Field(&'static str),
    /// A message whose fields lie in the one around it (Go's embedded structs).
    Inline(&'static str),
}

type Message = BTreeMap<u64, Target>;

static TABLE: LazyLock<BTreeMap<&'static str, Message>> = LazyLock::new(|| {
    let lines = include_str!("fields.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).map(|(name, fields)| (name, message(fields))).collect()
});

fn message(fields: &'static str) -> Message {
    let target = |name: &'static str| name.strip_prefix('@').map_or(Target::Field(name), Target::Inline);
    fields
        .split(' ')
        .filter_map(|field| field.rsplit_once('='))
        .filter_map(|(name, number)| Some((number.parse().ok()?, target(name))))
        .collect()
}

/// The fields of a definition such as `io.k8s.api.core.v1.Pod`, with or without the `io.k8s.`.
pub(super) fn find(definition: &str) -> Option<&'static Message> {
    TABLE.get(definition.strip_prefix("io.k8s.").unwrap_or(definition))
}
