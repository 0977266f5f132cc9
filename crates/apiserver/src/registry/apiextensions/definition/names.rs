//! Names, subresources and columns of a definition.

use apimachinery::field::ErrorList;

use super::label_errors;
use crate::registry::check::At;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// The names of a resource: each may be absent, but what is there must be a name.
pub(super) fn check(names: &At<'_>, errs: &mut ErrorList) {
    for field in ["plural", "singular"] {
        let name = names.get(field);
        if let Some(errors) = label_errors(name.str()).filter(|_| !name.is_empty()) {
            errs.push(name.invalid(errors));
        }
    }
    for field in ["kind", "listKind"] {
        let name = names.get(field);
        if let Some(errors) = label_errors(&name.str().to_lowercase()).filter(|_| !name.is_empty()) {
            errs.push(name.invalid(format!("may have mixed case, but should otherwise match: {errors}")));
        }
    }
    labels(&names.get("shortNames"), errs);
    let (kind, list) = (names.get("kind"), names.get("listKind"));
    if !kind.is_empty() && kind.str() == list.str() {
        errs.push(list.invalid("kind and listKind may not be the same"));
    }
    labels(&names.get("categories"), errs);
}

fn labels(list: &At<'_>, errs: &mut ErrorList) {
    errs.extend(list.items().iter().filter_map(|item| label_errors(item.str()).map(|errors| item.invalid(errors))));
}

/// `subresources`: where replicas and selector lie.
pub(super) fn subresources(subresources: &At<'_>, errs: &mut ErrorList) {
    let scale = subresources.get("scale");
    if !scale.is_set() {
        return;
    }
    for (field, root) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let path = scale.get(field);
        if path.is_empty() {
            errs.push(path.required(""));
        } else if simple_path(&path, errs) && !path.str().starts_with(root) {
            errs.push(path.invalid(format!("should be a json path under {}", root.trim_end_matches('.'))));
        }
    }
    let selector = scale.get("labelSelectorPath");
    let below = [".spec.", ".status."].iter().any(|root| selector.str().starts_with(root));
    if !selector.is_empty() && simple_path(&selector, errs) && !below {
        errs.push(selector.invalid("should be a json path under either .spec or .status"));
    }
}

fn simple_path(path: &At<'_>, errs: &mut ErrorList) -> bool {
    let simple = path.str().starts_with('.');
    if !simple {
        errs.push(path.invalid("must be a simple json path starting with ."));
    }
    simple
}

/// One of `additionalPrinterColumns`.
pub(super) fn column(column: &At<'_>, errs: &mut ErrorList) {
    column.get("name").require_str("", errs);
    let kind = column.get("type");
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    if kind.is_empty() {
        errs.push(kind.required(&types));
    } else if !COLUMN_TYPES.contains(&kind.str()) {
        errs.push(kind.invalid(types));
    }
    let format = column.get("format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format.str()) {
        errs.push(format.invalid(format!("must be one of {}", COLUMN_FORMATS.join(","))));
    }
    let path = column.get("jsonPath").under(column.path.child("JSONPath"));
    if path.is_empty() {
        errs.push(path.required(""));
    } else {
        simple_path(&path, errs);
    }
}
