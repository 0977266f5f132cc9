//! Values that Go reads through a decoder of their own: times, quantities, bytes, whole numbers or texts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::quantity::{self, Quantity};
use crate::raw::Node;
use crate::{go, time};

/// `metav1.Time` or `MicroTime`: any RFC 3339 instant, written back in UTC.
pub(super) fn instant(node: &Node<'_>, micro: bool) -> Result<Value, String> {
    let Node::String(text) = node else {
        return Err(format!("json: cannot unmarshal {} into Go value of type string", node.type_name()));
    };
    let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    let at = time::parse_rfc3339(text).ok_or_else(|| time_error(text, layout))?;
    Ok(if micro { time::format_rfc3339_micro(at) } else { time::format_rfc3339_seconds(at) }.into())
}

/// Go's `time.ParseError`: the rest of the text, and the part of the layout it does not match.
fn time_error(text: &str, layout: &str) -> String {
    let parts = [("2006", 4), ("-", 1), ("01", 2), ("-", 1), ("02", 2), ("T", 1), ("15", 2), (":", 1), ("04", 2), (":", 1), ("05", 2)];
    let (mut rest, mut wanted) = (text, "Z07:00");
    for (part, length) in parts {
        let digits = length > 1;
        let fits = rest.get(..length).is_some_and(|head| if digits { head.bytes().all(|c| c.is_ascii_digit()) } else { head == part });
        if !fits {
            wanted = part;
            break;
        }
        rest = &rest[length..];
    }
    let quoted = go::quote(text);
    format!("parsing time {quoted} as {}: cannot parse {} as {}", go::quote(layout), go::quote(rest), go::quote(wanted))
}

/// A quantity, written back in canonical form.
pub(super) fn quantity(node: &Node<'_>) -> Result<Value, String> {
    let parsed = match node {
        Node::String(text) => Quantity::parse(text.trim()),
        Node::Number(text) => Quantity::parse(text),
        _ => Err(quantity::ParseError::Format),
    };
    parsed.map(|quantity| quantity.to_string().into()).map_err(|error| error.to_string())
}

/// `intstr.IntOrString`.
pub(super) fn int_or_string(node: &Node<'_>) -> Result<Value, String> {
    match node {
        Node::String(text) => Ok(Value::String(text.clone().into_owned())),
        Node::Number(text) => match text.parse::<i32>() {
            Ok(number) => Ok(number.into()),
            Err(_) => Err(format!("json: cannot unmarshal number {text} into Go value of type int32")),
        },
        other => Err(format!("json: cannot unmarshal {} into Go value of type int32", other.type_name())),
    }
}

/// Base64 text, written back with padding.
pub(super) fn bytes(text: &str) -> Result<Value, String> {
    let compact: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    match STANDARD.decode(&compact) {
        Ok(bytes) => Ok(STANDARD.encode(bytes).into()),
        Err(error) => Err(format!("illegal base64 data at input byte {}", illegal_at(&error, compact.len()))),
    }
}

fn illegal_at(error: &base64::DecodeError, length: usize) -> usize {
    match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => length - length % 4,
    }
}

/// A whole number of the given size, or the text Go complains about.
pub(super) fn integer(text: &str, wide: bool) -> Option<Value> {
    if wide { text.parse::<i64>().ok().map(Value::from) } else { text.parse::<i32>().ok().map(Value::from) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn text(text: &'static str) -> Node<'static> {
        Node::String(Cow::Borrowed(text))
    }

    #[test]
    fn times_are_rewritten_in_utc() {
        assert_eq!(instant(&text("2024-01-02T05:04:05.9+02:00"), false).unwrap(), "2024-01-02T03:04:05Z");
        assert_eq!(instant(&text("2024-01-02T03:04:05Z"), true).unwrap(), "2024-01-02T03:04:05.000000Z");
    }

    #[test]
    fn bad_times_read_like_go() {
        assert_eq!(
            instant(&text("soon"), false).unwrap_err(),
            r#"parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006""#
        );
        assert_eq!(
            instant(&text("2024-01-02"), false).unwrap_err(),
            r#"parsing time "2024-01-02" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#
        );
    }

    #[test]
    fn bytes_must_be_base64() {
        assert_eq!(bytes("YQ==").unwrap(), "YQ==");
        assert_eq!(bytes("a!b=").unwrap_err(), "illegal base64 data at input byte 1");
    }
}
