//! Validation of a definition's spec, on upstream's internal form of it.

use apimachinery::{
    field::{Error, ErrorList, Path},
    names as rules,
};
use serde_json::Value;

use super::{conversion, defaults, internal, label_errors, names, open_api, selectable, structural};
use crate::registry::{
    apiextensions::view::{Definition, flag, text, texts},
    check::{At, internal_form},
};

/// The fields a schema may have at its root where the status is written apart, as upstream's text names them.
const AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// How strict to be, after what the stored definition does already.
struct Strictness {
    open_api: open_api::Rules,
    structural: bool,
    pruned_defaults: bool,
    schemas_everywhere: bool,
    review_versions: bool,
    names_fixed: bool,
}

impl Strictness {
    fn of(old: Option<(&Value, Definition<'_>)>) -> Self {
        let spec = old.map_or(&Value::Null, |(spec, _)| spec);
        let schemas = internal::schemas(spec);
        let any = |holds: &dyn Fn(&Value) -> bool| schemas.iter().any(|schema| internal::any(schema, holds));
        let set = |schema: &Value| text(schema, "x-kubernetes-list-type") == "set";
        let reviews = spec.get("conversion").map(|conversion| texts(conversion, "conversionReviewVersions")).unwrap_or_default();
        Self {
            open_api: open_api::Rules {
                types: !any(&open_api::has_unknown_type),
                atomic_sets: !any(&|schema: &Value| set(schema) && schema.get("items").is_some_and(|items| !open_api::is_atomic(items))),
                keys: !any(&|schema: &Value| !open_api::key_errors(&open_api::nowhere(schema)).is_empty()),
                no_expressions: !any(&|schema: &Value| !At::new(Path::root(), schema).get("x-kubernetes-validations").is_empty()),
            },
            structural: schemas.iter().all(|schema| structural::violations(schema, &Path::root()).is_ok_and(|errs| errs.is_empty())),
            pruned_defaults: !schemas.iter().any(|schema| defaults::has_unpruned(schema)),
            schemas_everywhere: old.is_none_or(|(_, old)| old.versions().iter().all(|v| v.pointer("/schema/openAPIV3Schema").is_some())),
            review_versions: reviews.is_empty() || conversion::is_recognized(&reviews),
            names_fixed: old.is_some_and(|(_, old)| old.is("Established")),
        }
    }
}

/// Checks the spec of a definition that replaces `old`, if there is one.
pub(super) fn check(definition: Definition<'_>, old: Option<Definition<'_>>, errs: &mut ErrorList) {
    let form = internal::spec(definition.spec());
    let old_form = old.map(|old| internal::spec(old.spec()));
    let strictness = Strictness::of(old_form.as_ref().zip(old));
    let spec = At::new(Path::new("spec"), &form);
    group(&spec.get("group"), errs);
    let scope = spec.get("scope");
    if scope.require_str("", errs) {
        scope.one_of(&["Cluster", "Namespaced"], errs);
    }
    schemas_are_there(&spec, &strictness, errs);
    let before = |version: &str| old_form.as_ref().map_or(&Value::Null, |old| own_or_shared(old, version, "selectableFields"));
    versions(&spec, &strictness, &before, errs);
    for name in ["plural", "singular", "kind", "listKind"] {
        spec.get("names").get(name).require_str("", errs);
    }
    names::check(&spec.get("names"), errs);
    let status = definition.versions().iter().any(|version| version.pointer("/subresources/status").is_some());
    schema(&spec.get("validation"), status, &strictness, errs);
    names::subresources(&spec.get("subresources"), errs);
    spec.get("additionalPrinterColumns").items().iter().for_each(|column| names::column(column, errs));
    selectable_fields(&spec, &spec.get("validation"), before(""), errs);
    conversion::check(&spec.get("conversion"), !strictness.review_versions, errs);
    if let Some(old) = old {
        fixed(definition, old, strictness.names_fixed, errs);
    }
}

fn own_or_shared<'a>(spec: &'a Value, version: &str, field: &str) -> &'a Value {
    let versions = spec.get("versions").and_then(Value::as_array).into_iter().flatten();
    let own = versions.filter(|candidate| text(candidate, "name") == version).find_map(|candidate| candidate.get(field));
    own.or_else(|| spec.get(field)).unwrap_or(&Value::Null)
}

fn group(group: &At<'_>, errs: &mut ErrorList) {
    if !group.require_str("", errs) {
        return;
    }
    let errors = rules::is_dns1123_subdomain(group.str());
    if !errors.is_empty() {
        errs.push(group.invalid(errors.join(",")));
    } else if !group.str().contains('.') {
        errs.push(group.invalid("should be a domain with at least one dot"));
    }
}

fn schemas_are_there(spec: &At<'_>, strictness: &Strictness, errs: &mut ErrorList) {
    if spec.get("validation").get("openAPIV3Schema").is_set() {
        return;
    }
    for version in spec.get("versions").items() {
        let schema = version.get("schema").get("openAPIV3Schema");
        if schema.is_set() {
            continue;
        }
        if strictness.schemas_everywhere {
            errs.push(schema.required(""));
        } else if version.get("served").is_true() && !spec.get("preserveUnknownFields").is_true() {
            errs.push(schema.required("because otherwise all fields are pruned"));
        }
    }
}

fn versions<'a>(spec: &At<'_>, strictness: &Strictness, before: &dyn Fn(&str) -> &'a Value, errs: &mut ErrorList) {
    let all = spec.get("versions");
    let (items, names): (Vec<At<'_>>, Vec<&str>) = (all.items(), all.items().iter().map(|version| version.get("name").str()).collect());
    for version in &items {
        let name = version.get("name");
        if let Some(errors) = label_errors(name.str()) {
            errs.push(name.invalid(errors));
        }
        self::version(version, spec, strictness, before(name.str()), errs);
    }
    let mut whole = |detail: &str| errs.push(Error::invalid(&all.path, internal_form(all.value), detail));
    if names.iter().enumerate().any(|(at, name)| names[..at].contains(name)) {
        whole("must contain unique version names");
    }
    if items.iter().filter(|version| version.get("storage").is_true()).count() != 1 {
        whole("must have exactly one version marked as storage version");
    }
    let first = spec.get("version");
    if let Some(errors) = label_errors(first.str()).filter(|_| !first.is_empty()) {
        errs.push(first.invalid(errors));
    }
}

fn version(version: &At<'_>, spec: &At<'_>, strictness: &Strictness, before: &Value, errs: &mut ErrorList) {
    deprecation(version, errs);
    let own = version.get("subresources");
    let subresources = if own.is_set() { own.clone() } else { spec.get("subresources") };
    schema(&version.get("schema"), subresources.get("status").is_set(), strictness, errs);
    names::subresources(&own, errs);
    version.get("additionalPrinterColumns").items().iter().for_each(|column| names::column(column, errs));
    let shared = spec.get("validation");
    let schema = if version.get("schema").is_set() { version.get("schema") } else { shared };
    selectable_fields(version, &schema, before, errs);
}

fn deprecation(version: &At<'_>, errs: &mut ErrorList) {
    let warning = version.get("deprecationWarning");
    let Some(text) = warning.value.as_str() else { return };
    if !version.get("deprecated").is_true() {
        return errs.push(warning.invalid("can only be set for deprecated versions"));
    }
    if text.len() > 256 {
        errs.push(warning.invalid("must be <= 256 characters long"));
    }
    if text.is_empty() {
        errs.push(warning.invalid("must not be an empty string"));
    }
    if let Some((at, _)) = text.char_indices().find(|(_, c)| c.is_control() || (c.is_whitespace() && *c != ' ')) {
        let detail = format!("must only contain printable UTF-8 characters; non-printable character found at index {at}");
        errs.push(warning.invalid(detail));
    }
}

fn selectable_fields(at: &At<'_>, schema: &At<'_>, before: &Value, errs: &mut ErrorList) {
    let fields = at.get("selectableFields");
    if fields.size() == 0 {
        return;
    }
    let schema = schema.get("openAPIV3Schema");
    if !schema.is_set() {
        return errs.push(Error::invalid(&fields.path, "", "may only be set when validations.schema is included"));
    }
    selectable::check(&fields, schema.value, fields.value == before, errs);
}

/// A version's schema, or the one of all.
fn schema(at: &At<'_>, status: bool, strictness: &Strictness, errs: &mut ErrorList) {
    let schema = at.get("openAPIV3Schema");
    if !schema.is_set() {
        return;
    }
    let mut found = ErrorList::new();
    if status {
        root_of_status(&schema, &mut found);
    }
    if flag(schema.value, "nullable") {
        found.push(schema.get("nullable").forbidden("nullable cannot be true at the root"));
    }
    let mut unsupported = None;
    match structural::violations(schema.value, &schema.path) {
        Err(why) => unsupported = Some(why),
        Ok(violations) if !strictness.structural && !violations.is_empty() => {}
        Ok(violations) if violations.is_empty() => defaults::check(&schema, strictness.pruned_defaults, &mut found),
        Ok(violations) => found.extend(violations),
    }
    open_api::check(&schema, strictness.open_api, &mut found);
    if let Some(why) = unsupported.filter(|_| found.is_empty() && strictness.structural) {
        found.push(Error::invalid(&schema.path, "", why));
    }
    errs.extend(found);
}

/// Where the status is written apart its schema stands alone: the root may say nothing about it.
fn root_of_status(schema: &At<'_>, errs: &mut ErrorList) {
    let kind = schema.get("type");
    if !kind.is_empty() && kind.str() != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errs.push(kind.invalid(detail));
    }
    let other = schema.map().into_iter().flatten().map(|(name, _)| go_name(name)).find(|name| !AT_ROOT.contains(&name.as_str()));
    if other.is_some() {
        let detail =
            format!("only [{}] fields are allowed at the root of the schema if the status subresource is enabled", AT_ROOT.join(" "));
        errs.push(Error::invalid(&schema.path, internal_form(schema.value), detail));
    }
}

/// Go's name of a schema's field.
fn go_name(name: &str) -> String {
    let words = name.strip_prefix("x-kubernetes-").map_or_else(|| name.to_owned(), |rest| format!("x-{rest}"));
    words.split('-').map(|word| word[..1].to_ascii_uppercase() + &word[1..]).collect()
}

/// What the key in the store depends on never changes, and kind and scope do not once they are served.
fn fixed(new: Definition<'_>, old: Definition<'_>, names_fixed: bool, errs: &mut ErrorList) {
    let (new_spec, old_spec) = (At::new(Path::new("spec"), new.spec()), At::new(Path::new("spec"), old.spec()));
    if names_fixed {
        new_spec.get("scope").immutable(&old_spec.get("scope"), errs);
        new_spec.get("names").get("kind").immutable(&old_spec.get("names").get("kind"), errs);
    }
    new_spec.get("group").immutable(&old_spec.get("group"), errs);
    new_spec.get("names").get("plural").immutable(&old_spec.get("names").get("plural"), errs);
}
