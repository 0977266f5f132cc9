//! Request bodies into objects: type meta, schema, strictness, defaults; errors in upstream's words.

use apimachinery::{
    Object, cbor,
    field::{Error, Path},
    gvk::GroupVersionKind,
    raw::{self, Node},
    schema::Schema,
    status::Status,
};
use serde_json::Value;

use super::{Strategy, catalog::Served};
use crate::{
    negotiate::BodyKind,
    protobuf,
    request::{FieldValidation, RequestContext},
};

/// What a body is to be read as.
pub(crate) struct Expect<'a> {
    /// Kind a body without type meta has, and every other must have.
    pub(crate) gvk: GroupVersionKind,
    /// Its schema.
    pub(crate) schema: &'a Schema,
    /// Defaults across fields.
    pub(crate) strategy: Option<&'a dyn Strategy>,
}

impl Served {
    /// What bodies for the resource itself are read as.
    pub(crate) fn expect(&self) -> Expect<'_> {
        Expect { gvk: self.resource.gvk(), schema: &self.schema, strategy: Some(&*self.resource.strategy) }
    }
}

/// Reads a body as an object, defaulted. Errors: 400.
pub(crate) fn decode(ctx: &RequestContext, expect: &Expect<'_>, kind: BodyKind, bytes: &[u8]) -> Result<Object, Status> {
    let unrecognized = |why: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({})",
            expect.gvk.kind,
            summary(bytes)
        ))
    };
    if kind == BodyKind::Protobuf {
        return decode_protobuf(expect, bytes);
    }
    let node = parse(kind, bytes).map_err(|e| {
        let what = match kind {
            BodyKind::Json => "couldn't get version/kind; json parse error: ",
            BodyKind::Cbor => "unable to determine group/version/kind: ",
            BodyKind::Yaml | BodyKind::Protobuf => "",
        };
        unrecognized(format!("{what}{e}"))
    })?;
    let (api_version, own_kind) = node.type_meta().map_err(|e| unrecognized(e.to_string()))?;
    let gvk = actual(expect, api_version, own_kind).map_err(unrecognized)?;
    if expect.schema.is_custom() {
        check_custom(expect, &gvk, &node)?;
    }
    check_type(expect, &gvk)?;
    let cannot = |why: String| cannot(expect, &gvk, &why);
    let decoded = expect.schema.decode(&node).map_err(|e| cannot(e.to_string()))?;
    let mut strict = decoded.strict;
    if kind == BodyKind::Yaml {
        // The YAML reader reports duplicates itself.
        strict.dedup();
    }
    complain(ctx, strict, |text| cannot(format!("strict decoding error: {text}")))?;
    Ok(finish(expect, decoded.value))
}

/// Reads a protobuf body: unknown fields are dropped silently there, as upstream does.
fn decode_protobuf(expect: &Expect<'_>, bytes: &[u8]) -> Result<Object, Status> {
    let unrecognized = |why: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({})",
            expect.gvk.kind,
            summary(bytes)
        ))
    };
    let unknown = protobuf::open(bytes).map_err(|e| unrecognized(e.to_string()))?;
    let gvk = actual(expect, unknown.api_version, unknown.kind).map_err(unrecognized)?;
    check_type(expect, &gvk)?;
    let value = match protobuf::decode(expect.schema, unknown.raw) {
        Ok(value) => value,
        Err(protobuf::Error::NoForm(_)) => return Err(Status::unsupported_media_type(&["application/json", "application/yaml"])),
        Err(error) => return Err(cannot(expect, &gvk, &error.to_string())),
    };
    let decoded = expect.schema.decode_value(&value).map_err(|e| cannot(expect, &gvk, &e.to_string()))?;
    Ok(finish(expect, decoded.value))
}

/// Custom resources have no type that could refuse another kind: validation does.
fn check_custom(expect: &Expect<'_>, gvk: &GroupVersionKind, node: &Node<'_>) -> Result<(), Status> {
    if gvk.kind == expect.gvk.kind || gvk.group_version() != expect.gvk.group_version() {
        return Ok(());
    }
    let name = node.get("metadata").and_then(|meta| meta.get("name")).and_then(Node::as_str).unwrap_or_default();
    let error = Error::invalid(&Path::new("kind"), gvk.kind.as_str(), format!("must be {}", expect.gvk.kind));
    Err(Status::invalid(&expect.gvk.group_kind(), name, vec![error]))
}

fn check_type(expect: &Expect<'_>, gvk: &GroupVersionKind) -> Result<(), Status> {
    if gvk.kind != expect.gvk.kind {
        return Err(cannot(expect, gvk, &unregistered(expect, &gvk.api_version(), &gvk.kind)));
    }
    if gvk.group_version() != expect.gvk.group_version() {
        let text = format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            gvk.api_version(),
            expect.gvk.api_version()
        );
        return Err(Status::bad_request(text));
    }
    Ok(())
}

fn cannot(expect: &Expect<'_>, gvk: &GroupVersionKind, why: &str) -> Status {
    Status::bad_request(format!("{} in version {:?} cannot be handled as a {}: {why}", gvk.kind, gvk.version, expect.gvk.kind))
}

/// Warns of or refuses what strict decoding found.
pub(crate) fn complain(ctx: &RequestContext, strict: Vec<String>, refuse: impl FnOnce(String) -> Status) -> Result<(), Status> {
    match ctx.field_validation {
        _ if strict.is_empty() => Ok(()),
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            strict.into_iter().for_each(|text| ctx.warn(text));
            Ok(())
        }
        FieldValidation::Strict => Err(refuse(strict.join(", "))),
    }
}

/// Type meta and defaults.
pub(crate) fn finish(expect: &Expect<'_>, mut value: Value) -> Object {
    expect.schema.default(&mut value);
    let mut object = Object::from_value(value).unwrap_or_default();
    object.set_gvk(&expect.gvk);
    if !object.0.contains_key("metadata") {
        object.0.insert("metadata".into(), Value::Object(serde_json::Map::new()));
    }
    if let Some(strategy) = expect.strategy {
        strategy.default(&mut object);
    }
    object
}

/// A document in any encoding that needs no schema.
pub(crate) fn parse(kind: BodyKind, bytes: &[u8]) -> Result<Node<'_>, String> {
    match kind {
        BodyKind::Json | BodyKind::Protobuf => raw::parse_json(bytes).map_err(|e| e.to_string()),
        BodyKind::Cbor => cbor::decode(bytes).map_err(|e| e.to_string()),
        BodyKind::Yaml => {
            let text = std::str::from_utf8(bytes).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
            raw::parse_yaml(text).map_err(|e| e.to_string())
        }
    }
}

fn actual(expect: &Expect<'_>, api_version: &str, kind: &str) -> Result<GroupVersionKind, String> {
    let kind = if kind.is_empty() { &expect.gvk.kind } else { kind };
    if api_version.is_empty() {
        return Ok(GroupVersionKind::new(&expect.gvk.group, &expect.gvk.version, kind));
    }
    GroupVersionKind::from_api_version(api_version, kind).map_err(|e| e.to_string())
}

/// Why a body of another kind than expected cannot be read.
pub(crate) fn unregistered(expect: &Expect<'_>, api_version: &str, kind: &str) -> String {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let package = match expect.gvk.group.split('.').next().unwrap_or_default() {
        "" => "core",
        first => first,
    };
    format!("converting ({version}.{kind}) to ({package}.{}): unknown conversion", expect.gvk.kind)
}

/// The beginning of a body, as error texts show it.
fn summary(bytes: &[u8]) -> String {
    const MAX: usize = 30;
    let (head, more) = if bytes.len() > MAX { (&bytes[..MAX], " ...") } else { (bytes, "") };
    match bytes.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => format!("{}{more}", head.iter().map(|b| format!("{b:02x}")).collect::<String>()),
    }
}
