//! Types that Go encodes by hand: instants, quantities, numbers or texts, JSON within protobuf.

use serde_json::Value;

use super::{
    Error,
    wire::{self, put_bytes, put_integer},
};
use crate::time;

/// `resource.Quantity`: its text in field 1; nothing is zero.
pub(super) fn quantity(raw: &[u8]) -> Result<Value, Error> {
    let text = match first(raw)? {
        Some(wire) => wire.text("string")?,
        None => "",
    };
    Ok(if text.is_empty() { "0" } else { text }.into())
}

pub(super) fn put_quantity(out: &mut Vec<u8>, value: Option<&Value>) {
    match value {
        Some(Value::String(text)) => put_bytes(out, 1, text.as_bytes()),
        Some(number @ Value::Number(_)) => put_bytes(out, 1, number.to_string().as_bytes()),
        _ => put_bytes(out, 1, b"0"),
    }
}

/// `intstr.IntOrString`: which of both, the number, the text.
pub(super) fn int_or_string(raw: &[u8]) -> Result<Value, Error> {
    let (mut is_text, mut number, mut text) = (false, 0, "");
    for field in wire::fields(raw) {
        match field? {
            (1, wire) => is_text = wire.integer("type")? == 1,
            (2, wire) => number = wire.integer32("intVal")?,
            (3, wire) => text = wire.text("strVal")?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

pub(super) fn put_int_or_string(out: &mut Vec<u8>, value: Option<&Value>) {
    let text = value.and_then(Value::as_str);
    put_integer(out, 1, text.is_some().into());
    put_integer(out, 2, value.and_then(Value::as_i64).unwrap_or_default());
    put_bytes(out, 3, text.unwrap_or_default().as_bytes());
}

/// `meta.v1.Time` and `MicroTime`: seconds and nanoseconds; nothing, or two zeros, is no time.
pub(super) fn instant(raw: &[u8], micro: bool, field: &str) -> Result<Value, Error> {
    let (mut seconds, mut nanos) = (0, 0);
    for item in wire::fields(raw) {
        match item? {
            (1, wire) => seconds = wire.integer("seconds")?,
            (2, wire) => nanos = wire.integer32("nanos")?,
            _ => {}
        }
    }
    if seconds == 0 && nanos == 0 {
        return Ok(Value::Null);
    }
    let wrong = |_| Error::Value { field: field.to_owned(), wanted: "an instant" };
    let at = jiff::Timestamp::new(seconds, nanos).map_err(wrong)?;
    Ok(if micro { time::format_rfc3339_micro(at) } else { time::format_rfc3339_seconds(at) }.into())
}

/// Fractions are cut off as JSON cuts them off: the same object must not differ by the form in which it was read.
pub(super) fn put_instant(out: &mut Vec<u8>, value: Option<&Value>, micro: bool, field: &str) -> Result<(), Error> {
    let Some(value) = value else { return Ok(()) };
    let at = value.as_str().and_then(time::parse_rfc3339);
    let at = at.ok_or_else(|| Error::Value { field: field.to_owned(), wanted: "an instant" })?;
    let nanos = at.as_nanosecond();
    let fraction = if micro { nanos.rem_euclid(1_000_000_000) / 1_000 * 1_000 } else { 0 };
    put_integer(out, 1, i64::try_from(nanos.div_euclid(1_000_000_000)).unwrap_or_default());
    put_integer(out, 2, i64::try_from(fraction).unwrap_or_default());
    Ok(())
}

/// `RawExtension`, `FieldsV1`, `JSON`: JSON bytes in field 1.
pub(super) fn raw_json(raw: &[u8]) -> Result<Value, Error> {
    match first(raw)? {
        Some(wire) if !wire.bytes("raw")?.is_empty() => Ok(serde_json::from_slice(wire.bytes("raw")?)?),
        _ => Ok(Value::Null),
    }
}

pub(super) fn put_raw_json(out: &mut Vec<u8>, value: Option<&Value>) -> Result<(), Error> {
    if let Some(value) = value {
        put_bytes(out, 1, &serde_json::to_vec(value)?);
    }
    Ok(())
}

fn first(raw: &[u8]) -> Result<Option<wire::Wire<'_>>, Error> {
    wire::fields(raw).find_map(|field| field.map(|(number, wire)| (number == 1).then_some(wire)).transpose()).transpose()
}
