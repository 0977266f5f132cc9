//! Formats of texts and numbers. Formats nobody knows are not checked.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use serde_json::Value;

use crate::names;
use crate::time::parse_rfc3339;

/// Whether a text has a format.
type Check = fn(&str) -> bool;

/// Every format of texts, without its dashes, and what texts have it.
const TEXTS: [(&str, Check); 26] = [
    ("bsonobjectid", |text| text.len() == 24 && is_hex(text)),
    ("uri", |text| text.starts_with('/') || text.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty())),
    ("email", |text| text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !text.contains(' '))),
    ("hostname", |text| names::is_dns1123_subdomain(&text.to_ascii_lowercase()).is_empty()),
    ("ipv4", |text| text.parse::<Ipv4Addr>().is_ok()),
    ("ipv6", |text| text.parse::<Ipv6Addr>().is_ok()),
    ("cidr", |text| text.parse::<ipnet::IpNet>().is_ok()),
    ("mac", is_mac),
    ("uuid", |text| is_uuid(text, None)),
    ("uuid3", |text| is_uuid(text, Some('3'))),
    ("uuid4", |text| is_uuid(text, Some('4'))),
    ("uuid5", |text| is_uuid(text, Some('5'))),
    ("isbn", |text| is_isbn10(text) || is_isbn13(text)),
    ("isbn10", is_isbn10),
    ("isbn13", is_isbn13),
    ("creditcard", |text| CREDIT_CARD.as_ref().is_some_and(|card| card.is_match(&digits(text)))),
    ("ssn", |text| SSN.as_ref().is_some_and(|ssn| ssn.is_match(text))),
    ("hexcolor", |text| is_hex(text.trim_start_matches('#')) && matches!(text.trim_start_matches('#').len(), 3 | 6)),
    ("rgbcolor", |text| RGB_COLOR.as_ref().is_some_and(|color| color.is_match(text))),
    ("byte", |text| STANDARD.decode(text).is_ok()),
    ("password", |_| true),
    ("date", |text| text.parse::<jiff::civil::Date>().is_ok()),
    ("duration", |text| DURATION.as_ref().is_some_and(|duration| duration.is_match(text))),
    ("datetime", |text| parse_rfc3339(text).is_some()),
    ("k8sshortname", |text| names::is_dns1123_label(text).is_empty()),
    ("k8slongname", |text| names::is_dns1123_subdomain(text).is_empty()),
];

static SSN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$").ok());
static RGB_COLOR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let part = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*";
    Regex::new(&format!(r"^rgb\({part},{part},{part}\)$")).ok()
});
static CREDIT_CARD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let issuers = [r"4\d{12}(?:\d{3})?", r"5[1-5]\d{14}", r"6(?:011|5\d\d)\d{12}", r"3[47]\d{13}", r"3(?:0[0-5]|[68]\d)\d{11}"];
    Regex::new(&format!(r"^(?:{}|(?:2131|1800|35\d{{3}})\d{{11}})$", issuers.join("|"))).ok()
});
static DURATION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let units = "ns|nano|nanos|us|µs|micro|micros|ms|milli|millis|s|sec|second|seconds|m|min|minute|minutes|h|hour|hours|d|day|days|w|wk|week|weeks";
    Regex::new(&format!(r"^[+-]?(0|(\d+(\.\d*)?|\.\d+)\s*({units})(\s*(\d+(\.\d*)?|\.\d+)\s*({units}))*)$")).ok()
});

fn normal(format: &str) -> String {
    format.replace('-', "")
}

/// Whether a text has the format.
pub(super) fn fits(format: &str, text: &str) -> bool {
    let format = normal(format);
    TEXTS.iter().find(|(known, _)| *known == format).is_none_or(|(_, check)| check(text))
}

/// Whether a number fits the format's range.
pub(super) fn fits_integer(format: &str, value: &Value) -> bool {
    format != "int32" || value.as_i64().is_none_or(|number| i32::try_from(number).is_ok())
}

/// Whether values of the type (empty: any) can have the format at all; a format that is not known is not checked.
pub fn is_known(format: &str, kind: &str) -> bool {
    match kind {
        "" | "string" => TEXTS.iter().any(|(known, _)| *known == normal(format)),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|c| c.is_ascii_hexdigit())
}

fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'-' | b'.'))
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    matches!(text.len(), 32..=36)
        && digits.len() == 32
        && is_hex(&digits)
        && version.is_none_or(|version| digits.chars().nth(12) == Some(version))
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    matches!(parts.len(), 6 | 8 | 20) && parts.iter().all(|part| part.len() == 2 && is_hex(part))
}

/// The characters of a book number as numbers, the check character `X` being ten.
fn book_number(text: &str) -> Vec<u32> {
    text.chars().filter(|c| !matches!(c, '-' | ' ')).map(|c| if c == 'X' { 10 } else { c.to_digit(10).unwrap_or(99) }).collect()
}

fn is_isbn10(text: &str) -> bool {
    let number = book_number(text);
    let sum: u32 = number.iter().zip(1..).map(|(digit, weight)| digit * weight).sum();
    number.len() == 10 && number.iter().all(|digit| *digit <= 10) && number[..9].iter().all(|digit| *digit < 10) && sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let number = book_number(text);
    let sum: u32 = number.iter().enumerate().map(|(at, digit)| digit * if at % 2 == 0 { 1 } else { 3 }).sum();
    number.len() == 13 && number.iter().all(|digit| *digit < 10) && sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_formats_are_checked_and_others_not() {
        for (format, good, bad) in [
            ("date-time", "2024-01-02T03:04:05Z", "2024"),
            ("date", "2024-01-02", "soon"),
            ("ipv4", "10.0.0.1", "10.0.0"),
            ("cidr", "10.0.0.0/8", "10.0.0.0"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
            ("byte", "YQ==", "?"),
            ("duration", "1h30m", "soon"),
            ("duration", "22 ns", "22"),
            ("uri", "https://a/b", "a b"),
            ("isbn", "0321751043", "0321751044"),
            ("isbn13", "978-0321751041", "978-0321751042"),
            ("hexcolor", "#FFFFFF", "#FF"),
            ("rgbcolor", "rgb(1, 2,255)", "rgb(1,2,256)"),
            ("creditcard", "4111-1111-1111-1111", "1"),
            ("ssn", "123-45-6789", "12"),
            ("mac", "01:02:03:04:05:06", "01:02"),
            ("k8s-short-name", "a-b", "a.b"),
        ] {
            assert!(fits(format, good), "{format} {good}");
            assert!(!fits(format, bad), "{format} {bad}");
        }
        assert!(fits("whatever", ""));
    }

    #[test]
    fn a_format_belongs_to_a_type() {
        assert!(is_known("date-time", "string") && is_known("int32", "integer") && is_known("uuid", ""));
        assert!(
            !is_known("int32", "string") && !is_known("date", "integer") && !is_known("nonsense", "string") && !is_known("uuid", "object")
        );
    }
}
