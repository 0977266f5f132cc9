//! Formats of texts and numbers. Formats nobody knows are not checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::time::parse_rfc3339;

/// Whether a text has the format.
pub(super) fn fits(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => parse_rfc3339(text).is_some(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "byte" => STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "ip" => text.parse::<IpAddr>().is_ok(),
        "cidr" => text.parse::<ipnet::IpNet>().is_ok(),
        "uuid" => uuid(text, None),
        "uuid3" => uuid(text, Some('3')),
        "uuid4" => uuid(text, Some('4')),
        "uuid5" => uuid(text, Some('5')),
        "mac" => mac(text),
        "hostname" => crate::names::is_dns1123_subdomain(&text.to_ascii_lowercase()).is_empty(),
        "email" => text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !text.contains(' ')),
        "uri" => text.split_once(':').is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty()),
        _ => true,
    }
}

/// Whether a number fits the format's range.
pub(super) fn fits_integer(format: &str, value: &Value) -> bool {
    match format {
        "int32" => value.as_i64().is_none_or(|number| i32::try_from(number).is_ok()),
        "uint32" => value.as_i64().is_none_or(|number| u32::try_from(number).is_ok()),
        _ => true,
    }
}

fn uuid(text: &str, version: Option<char>) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let dashes = matches!(text.len(), 32 | 36);
    dashes
        && digits.len() == 32
        && digits.chars().all(|c| c.is_ascii_hexdigit())
        && version.is_none_or(|version| digits.chars().nth(12) == Some(version))
}

fn mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    matches!(parts.len(), 6 | 8 | 20) && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit()))
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
        ] {
            assert!(fits(format, good) && !fits(format, bad), "{format}");
        }
        assert!(fits("whatever", ""));
    }
}
