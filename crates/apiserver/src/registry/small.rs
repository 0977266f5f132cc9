//! Kinds whose rules fit in a few functions: a [`Strategy`] made of function pointers.

use apimachinery::{Object, field::ErrorList};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use super::{Column, Generation, Strategy, print};
use crate::request::RequestContext;

/// One column: heading, type, what it tells, and an object's cell in it.
pub(crate) type Cells = (&'static str, &'static str, &'static str, fn(&Object) -> Value);

/// A kind without hooks; what is not said is plain.
#[derive(Clone, Copy)]
pub(crate) struct Small {
    /// Defaults.
    pub(crate) default: fn(&mut Object),
    /// What a new or changed object must satisfy.
    pub(crate) validate: fn(&Object) -> ErrorList,
    /// What may not change.
    pub(crate) validate_update: fn(&Object, &Object) -> ErrorList,
    /// Warnings.
    pub(crate) warnings: fn(&Object) -> Vec<String>,
    /// When the generation counts up.
    pub(crate) generation: Generation,
    /// Whether PUT without a resourceVersion overwrites whatever is stored.
    pub(crate) unconditional_update: bool,
    /// Metadata that a write to `/status` leaves as it was.
    pub(crate) kept_by_status: &'static [&'static str],
    /// The columns between name and age, with their cells.
    pub(crate) columns: &'static [Cells],
}

impl Small {
    /// No rules, and a table of name and age.
    pub(crate) const PLAIN: Self = Self {
        default: |_| {},
        validate: |_| ErrorList::new(),
        validate_update: |_, _| ErrorList::new(),
        warnings: |_| Vec::new(),
        generation: Generation::Never,
        unconditional_update: true,
        kept_by_status: &[],
        columns: &[],
    };
}

#[async_trait]
impl Strategy for Small {
    fn default(&self, obj: &mut Object) {
        (self.default)(obj);
    }

    fn validate(&self, _ctx: &RequestContext, obj: &Object) -> ErrorList {
        (self.validate)(obj)
    }

    fn validate_update(&self, _ctx: &RequestContext, obj: &Object, old: &Object) -> ErrorList {
        let mut errs = (self.validate)(obj);
        errs.extend((self.validate_update)(obj, old));
        errs
    }

    fn warnings_on_create(&self, _ctx: &RequestContext, obj: &Object) -> Vec<String> {
        (self.warnings)(obj)
    }

    fn generation(&self) -> Generation {
        self.generation
    }

    fn allow_unconditional_update(&self) -> bool {
        self.unconditional_update
    }

    fn kept_by_status(&self) -> &'static [&'static str] {
        self.kept_by_status
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![Column::object_name("Name of the object.")];
        columns.extend(self.columns.iter().map(|(name, kind, text, _)| Column::new(name, kind, text)));
        columns.push(Column::new("Age", "string", "Time since creation."));
        columns
    }

    fn cells(&self, obj: &Object, now: Timestamp) -> Vec<Value> {
        let mut cells = vec![Value::from(obj.name())];
        cells.extend(self.columns.iter().map(|(.., cell)| cell(obj)));
        cells.push(print::age(obj, now));
        cells
    }
}
