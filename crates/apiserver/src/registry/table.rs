//! The columns of a resource's Table form.

use std::borrow::Cow;

/// One column definition of `meta.k8s.io/v1 Table`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// The heading, e.g. `Up-to-date`.
    pub(crate) name: Cow<'static, str>,
    /// OpenAPI type: string, integer, number, boolean, date.
    pub(crate) kind: Cow<'static, str>,
    /// OpenAPI format; `name` for the first column.
    pub(crate) format: Cow<'static, str>,
    /// 0 = shown always, above = with `-o wide`.
    pub(crate) priority: i32,
    /// What the column tells.
    pub(crate) description: Cow<'static, str>,
}

impl Column {
    /// A column shown always.
    pub(crate) const fn new(name: &'static str, kind: &'static str, description: &'static str) -> Self {
        Self::with(name, kind, "", 0, description)
    }

    /// The column of object names that every table begins with.
    pub(crate) const fn object_name(description: &'static str) -> Self {
        Self::with("Name", "string", "name", 0, description)
    }

    /// A column shown with `-o wide` only.
    pub(crate) const fn wide(name: &'static str, kind: &'static str, description: &'static str) -> Self {
        Self::with(name, kind, "", 1, description)
    }

    const fn with(name: &'static str, kind: &'static str, format: &'static str, priority: i32, description: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            kind: Cow::Borrowed(kind),
            format: Cow::Borrowed(format),
            priority,
            description: Cow::Borrowed(description),
        }
    }
}
