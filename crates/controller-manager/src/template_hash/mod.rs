//! The name a pod template gives its ReplicaSet or revision: exactly the one upstream's controllers give it, so that either
//! of them can take over from the other without rolling pods. Pure.
//!
//! Upstream hashes the text that Go's `spew` makes of the typed template. [`go_types.txt`] lists the Go structs that text
//! shows, field by field in their order: `Name:Type`, and `=json` where the JSON name is not the Go name with a small
//! initial; an embedded struct has an empty JSON name.

mod go_quantity;

use std::{collections::HashMap, sync::LazyLock};

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

/// Letters and digits without vowels and look-alikes, as upstream's generated names use them.
pub(crate) const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash of a template; `collisions` tells templates apart whose plain hashes are equal.
pub(crate) fn template_hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let value = serde_json::to_value(template).unwrap_or_default();
    let mut hash = Fnv1a::default();
    hash.write(dump("v1.PodTemplateSpec", &value).as_bytes());
    if let Some(collisions) = collisions {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&collisions.to_le_bytes());
        hash.write(&bytes);
    }
    safe_encode(&hash.0.to_string())
}

/// The name ending of a ControllerRevision with this data (upstream: `HashControllerRevision`): plain FNV-1.
pub(crate) fn revision_hash(data: &str, collisions: Option<i32>) -> String {
    let probe = collisions.map(|collisions| collisions.to_string()).unwrap_or_default();
    let bytes = data.bytes().chain(probe.bytes());
    let hash = bytes.fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u32::from(byte));
    safe_encode(&hash.to_string())
}

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// 32-bit FNV-1a.
struct Fnv1a(u32);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(OFFSET)
    }
}

impl Fnv1a {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(PRIME);
        }
    }
}

fn safe_encode(text: &str) -> String {
    text.bytes().map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()])).collect()
}

struct Field {
    name: &'static str,
    kind: &'static str,
    json: String,
}

static TYPES: LazyLock<HashMap<&'static str, Vec<Field>>> = LazyLock::new(|| parse(include_str!("go_types.txt")));

fn parse(text: &'static str) -> HashMap<&'static str, Vec<Field>> {
    let mut types: HashMap<&'static str, Vec<Field>> = HashMap::new();
    let mut current = "";
    for line in text.lines() {
        match line.strip_prefix("  ").and_then(|field| field.split_once(':')) {
            None => current = line,
            Some((name, rest)) => {
                let (kind, json) = rest.split_once('=').map_or_else(|| (rest, lower_first(name)), |(kind, json)| (kind, json.to_owned()));
                types.entry(current).or_default().push(Field { name, kind, json });
            }
        }
    }
    types
}

fn lower_first(name: &str) -> String {
    let mut characters = name.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}

/// The text of a value of Go type `kind`, its type included.
fn dump(kind: &str, value: &Value) -> String {
    let mut text = String::new();
    typed(&mut text, kind, value);
    text
}

fn typed(text: &mut String, kind: &str, value: &Value) {
    text.push_str(&format!("({kind})"));
    untyped(text, kind, value);
}

fn untyped(text: &mut String, kind: &str, value: &Value) {
    if let Some(pointee) = kind.strip_prefix('*') {
        if value.is_null() { text.push_str("<nil>") } else { untyped(text, pointee, value) }
    } else if let Some(element) = kind.strip_prefix("[]") {
        list(text, element, value);
    } else if let Some(fields) = TYPES.get(kind) {
        structure(text, fields, value);
    } else {
        scalar(text, kind, value);
    }
}

fn scalar(text: &mut String, kind: &str, value: &Value) {
    match kind {
        "bool" => text.push_str(if value.as_bool().unwrap_or(false) { "true" } else { "false" }),
        "int32" | "int64" => text.push_str(&value.as_i64().unwrap_or(0).to_string()),
        "map[string]string" => map(text, value, |text, value| text.push_str(value.as_str().unwrap_or_default())),
        "v1.ResourceList" => map(text, value, |text, value| go_quantity::write(text, value.as_str().unwrap_or_default())),
        "resource.Quantity" => go_quantity::write(text, value.as_str().unwrap_or_default()),
        "intstr.IntOrString" => {
            let (kind, number, string) = (i32::from(value.is_string()), value.as_i64().unwrap_or(0), value.as_str().unwrap_or_default());
            text.push_str(&format!("{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){string}}}"));
        }
        // A template has no times of its own: what stands there is always zero.
        "v1.Time" => text.push_str("{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"),
        // All other named types are strings.
        _ => text.push_str(value.as_str().unwrap_or_default()),
    }
}

fn structure(text: &mut String, fields: &[Field], value: &Value) {
    text.push('{');
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            text.push(' ');
        }
        text.push_str(field.name);
        text.push(':');
        let inner = if field.json.is_empty() { value } else { &value[field.json.as_str()] };
        typed(text, field.kind, inner);
    }
    text.push('}');
}

/// Empty lists and maps are nil: the wire format upstream's controller reads does not tell them apart.
fn list(text: &mut String, element: &str, value: &Value) {
    let Some(items) = value.as_array().filter(|items| !items.is_empty()) else { return text.push_str("<nil>") };
    text.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(' ');
        }
        untyped(text, element, item);
    }
    text.push(']');
}

fn map(text: &mut String, value: &Value, write: impl Fn(&mut String, &Value)) {
    let Some(entries) = value.as_object().filter(|entries| !entries.is_empty()) else { return text.push_str("<nil>") };
    text.push_str("map[");
    // Sorted by key, as this map is.
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            text.push(' ');
        }
        text.push_str(key);
        text.push(':');
        write(text, value);
    }
    text.push(']');
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{dump, template_hash};

    fn hash(template: Value) -> String {
        template_hash(&serde_json::from_value(template).unwrap(), None)
    }

    /// The defaults a server puts into every template.
    fn defaulted(containers: Value, more: Value) -> Value {
        let mut spec = json!({
            "containers": containers, "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "golden-none",
            "securityContext": {}, "terminationGracePeriodSeconds": 30,
        });
        spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        json!({"metadata": {"labels": {"a": "b"}}, "spec": spec})
    }

    fn container(more: Value) -> Value {
        let mut container = json!({
            "image": "img:1", "imagePullPolicy": "IfNotPresent", "name": "c", "resources": {},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        });
        container.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        container
    }

    #[test]
    fn names_a_plain_template_as_upstream_does() {
        assert_eq!(hash(defaulted(json!([container(Value::Null)]), Value::Null)), "7bcf46fb88");
    }

    #[test]
    fn a_collision_count_changes_the_name() {
        let template = serde_json::from_value(defaulted(json!([container(Value::Null)]), Value::Null)).unwrap();
        assert_ne!(template_hash(&template, Some(1)), template_hash(&template, None));
    }

    #[test]
    fn shows_pointers_lists_maps_and_quantities_as_go_does() {
        let port = json!({"port": "web", "scheme": "HTTP"});
        let expected = "(v1.HTTPGetAction){Path:(string) Port:(intstr.IntOrString){Type:(intstr.Type)1 IntVal:(int32)0 \
             StrVal:(string)web} Host:(string) Scheme:(v1.URIScheme)HTTP HTTPHeaders:([]v1.HTTPHeader)<nil>}";
        assert_eq!(dump("v1.HTTPGetAction", &port), expected);
        let expected = "(v1.ResourceList)map[cpu:{i:(resource.int64Amount){value:(int64)100 scale:(resource.Scale)-3} \
             d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)100m Format:(resource.Format)DecimalSI}]";
        assert_eq!(dump("v1.ResourceList", &json!({"cpu": "100m"})), expected);
        assert_eq!(dump("*int64", &json!(30)), "(*int64)30");
        assert_eq!(dump("*v1.Affinity", &Value::Null), "(*v1.Affinity)<nil>");
        assert_eq!(dump("[]string", &json!(["a", "b"])), "([]string)[a b]");
    }
}
