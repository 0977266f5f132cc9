//! Who set which field: `metadata.managedFields`, as server-side apply and every update keep it.
//!
//! A [`Set`] is a tree of paths. [`compare`] tells which fields an update added, changed and removed, by the schema's list
//! types; [`Managers`] holds one set per manager and moves fields between them. The rules are those of
//! structured-merge-diff, whose output clients store and send back.

mod compare;
mod managers;
mod set;

pub use compare::{Comparison, compare, field_set};
pub use managers::{Entry, Manager, Managers, UpdateRequest, update};
pub use set::{Element, Set};
