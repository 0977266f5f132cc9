//! The `immutable` flag of config maps and secrets.

use apimachinery::{Object, field::ErrorList};

use crate::registry::check::At;

/// Once set, the flag stays and the data fields do not change.
pub(crate) fn check(obj: &Object, old: &Object, data: &[&str], errs: &mut ErrorList) {
    const TEXT: &str = "field is immutable when `immutable` is set";
    if !At::field(old, "immutable").is_true() {
        return;
    }
    let flag = At::field(obj, "immutable");
    if !flag.is_true() {
        errs.push(flag.forbidden(TEXT));
    }
    for field in data {
        let new = At::field(obj, field);
        if new.value != At::field(old, field).value {
            errs.push(new.forbidden(TEXT));
        }
    }
}
