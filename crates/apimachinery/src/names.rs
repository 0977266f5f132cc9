//! Rules for names, labels and ports, with upstream's messages (`k8s.io/apimachinery/pkg/util/validation`).
//!
//! Each check returns the messages of the rules a value breaks; an empty list means the value is fine. Lengths are in bytes.

const QUALIFIED_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_NAME_WORDS: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE_WORDS: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
     and must start and end with an alphanumeric character";
const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_LABEL_WORDS: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
     and must start and end with an alphanumeric character";
const DNS1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1123_SUBDOMAIN_WORDS: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
     and must start and end with an alphanumeric character";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const DNS1035_LABEL_WORDS: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', \
     start with an alphabetic character, and end with an alphanumeric character";
const WILDCARD_WORDS: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, \
     which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
const CONFIG_KEY_WORDS: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";

/// Longest DNS label, name part and label value.
pub const DNS1123_LABEL_MAX: usize = 63;
/// Longest DNS subdomain and configuration key.
pub const DNS1123_SUBDOMAIN_MAX: usize = 253;

/// The message for a text that does not match `pattern`, with examples of ones that do.
pub fn regex_error(words: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{words} (regex used for validation is '{pattern}')");
    }
    let examples: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

/// The message for a text longer than `max` bytes.
pub fn max_length_error(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// The message for a number out of range.
pub fn range_error(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// The message for an empty text.
pub const EMPTY_ERROR: &str = "must be non-empty";

fn alphanumeric(c: u8) -> bool {
    c.is_ascii_alphanumeric()
}

fn lower_or_digit(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn framed(text: &str, edge: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [one] => edge(*one),
        [first, middle @ .., last] => edge(*first) && edge(*last) && middle.iter().all(|c| inner(*c)),
    }
}

fn name_part_matches(text: &str) -> bool {
    framed(text, alphanumeric, |c| alphanumeric(c) || b"-_.".contains(&c))
}

fn dns1123_label_matches(text: &str) -> bool {
    framed(text, lower_or_digit, |c| lower_or_digit(c) || c == b'-')
}

fn dns1123_subdomain_matches(text: &str) -> bool {
    text.split('.').all(dns1123_label_matches)
}

fn check(value: &str, max: usize, matches: bool, error: impl FnOnce() -> String) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > max {
        messages.push(max_length_error(max));
    }
    if !matches {
        messages.push(error());
    }
    messages
}

/// A name with an optional DNS subdomain prefix: label keys, annotation keys, finalizers.
pub fn is_qualified_name(value: &str) -> Vec<String> {
    qualified(value, "a qualified name ")
}

/// A label key: the same rule as [`is_qualified_name`], in the words used for labels.
pub fn is_label_key(value: &str) -> Vec<String> {
    qualified(value, "a valid label key ")
}

fn qualified(value: &str, what: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let mut messages = Vec::new();
    let parts: Vec<&str> = value.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                messages.push(format!("prefix part {EMPTY_ERROR}"));
            } else {
                messages.extend(is_dns1123_subdomain(prefix).into_iter().map(|message| format!("prefix part {message}")));
            }
            name
        }
        _ => {
            let words = regex_error(QUALIFIED_NAME_WORDS, QUALIFIED_NAME, &examples);
            let prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("{what}{words} {prefix}")];
        }
    };
    if name.is_empty() {
        messages.push(format!("name part {EMPTY_ERROR}"));
    } else if name.len() > DNS1123_LABEL_MAX {
        messages.push(format!("name part {}", max_length_bytes(DNS1123_LABEL_MAX)));
    }
    if !name_part_matches(name) {
        messages.push(format!("name part {}", regex_error(QUALIFIED_NAME_WORDS, QUALIFIED_NAME, &examples)));
    }
    messages
}

fn max_length_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// A label value; may be empty.
pub fn is_valid_label_value(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > DNS1123_LABEL_MAX {
        messages.push(max_length_bytes(DNS1123_LABEL_MAX));
    }
    if !value.is_empty() && !name_part_matches(value) {
        let pattern = format!("({QUALIFIED_NAME})?");
        messages.push(regex_error(LABEL_VALUE_WORDS, &pattern, &["MyValue", "my_value", "12345"]));
    }
    messages
}

/// A DNS label (RFC 1123): names of namespaces, containers, ports' hosts.
pub fn is_dns1123_label(value: &str) -> Vec<String> {
    check(value, DNS1123_LABEL_MAX, dns1123_label_matches(value), || {
        if dns1123_subdomain_matches(value) {
            "must not contain dots".into()
        } else {
            regex_error(DNS1123_LABEL_WORDS, DNS1123_LABEL, &["my-name", "123-abc"])
        }
    })
}

/// A DNS subdomain (RFC 1123): names of most objects.
pub fn is_dns1123_subdomain(value: &str) -> Vec<String> {
    check(value, DNS1123_SUBDOMAIN_MAX, dns1123_subdomain_matches(value), || {
        regex_error(DNS1123_SUBDOMAIN_WORDS, DNS1123_SUBDOMAIN, &["example.com"])
    })
}

/// A DNS subdomain whose labels may also start and contain underscores.
pub fn is_dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let edge = |c| lower_or_digit(c) || c == b'_';
    let label = |text: &str| match text.as_bytes() {
        [] => false,
        [first, ..] => edge(*first) && framed(text, |c| lower_or_digit(c) || c == b'_', |c| lower_or_digit(c) || b"-_".contains(&c)),
    };
    let pattern = r"[a-z0-9_]([-_a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
    let words = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-', '_' or '.', \
         and must start and end with an alphanumeric character";
    check(value, DNS1123_SUBDOMAIN_MAX, value.split('.').all(label), || regex_error(words, pattern, &["example.com"]))
}

/// A DNS label (RFC 1035), which starts with a letter.
pub fn is_dns1035_label(value: &str) -> Vec<String> {
    let matches = dns1123_label_matches(value) && value.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    check(value, DNS1123_LABEL_MAX, matches, || regex_error(DNS1035_LABEL_WORDS, DNS1035_LABEL, &["my-name", "abc-123"]))
}

/// `*.` and a DNS subdomain.
pub fn is_wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let matches = value.strip_prefix("*.").is_some_and(dns1123_subdomain_matches);
    let pattern = format!(r"\*\.{DNS1123_SUBDOMAIN}");
    check(value, DNS1123_SUBDOMAIN_MAX, matches, || regex_error(WILDCARD_WORDS, &pattern, &["*.example.com"]))
}

/// A C identifier.
pub fn is_c_identifier(value: &str) -> Vec<String> {
    let bytes = value.as_bytes();
    let matches =
        bytes.first().is_some_and(|c| c.is_ascii_alphabetic() || *c == b'_') && bytes.iter().all(|c| alphanumeric(*c) || *c == b'_');
    let words = "a valid C identifier must start with alphabetic character or '_', \
         followed by a string of alphanumeric characters or '_'";
    check(value, usize::MAX, matches, || regex_error(words, "[A-Za-z_][A-Za-z0-9_]*", &["my_name", "MY_NAME", "MyName"]))
}

/// The name of an environment variable: anything printable in ASCII but `=`.
pub fn is_relaxed_env_var_name(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".into()];
    }
    let printable = value.bytes().all(|c| (b' '..=b'~').contains(&c) && c != b'=');
    check(value, usize::MAX, printable, || {
        "a valid environment variable name must consist only of printable ASCII characters other than '='".into()
    })
}

/// The name of an environment variable by the older, narrower rule (keys read through `envFrom`).
pub fn is_env_var_name(value: &str) -> Vec<String> {
    let bytes = value.as_bytes();
    let allowed = |c: &u8| alphanumeric(*c) || b"-._".contains(c);
    let matches = bytes.first().is_some_and(|c| allowed(c) && !c.is_ascii_digit()) && bytes.iter().all(allowed);
    let words = "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', \
         and must not start with a digit";
    let examples = ["my.env-name", "MY_ENV.NAME", "MyEnvName1"];
    let mut messages = check(value, usize::MAX, matches, || regex_error(words, "[-._a-zA-Z][-._a-zA-Z0-9]*", &examples));
    messages.extend(change_dir_prefix(value));
    messages
}

/// A key of a ConfigMap or Secret, which may become a file name.
pub fn is_config_map_key(value: &str) -> Vec<String> {
    let matches = !value.is_empty() && value.bytes().all(|c| alphanumeric(c) || b"-._".contains(&c));
    let mut messages = check(value, DNS1123_SUBDOMAIN_MAX, matches, || {
        regex_error(CONFIG_KEY_WORDS, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"])
    });
    messages.extend(change_dir_prefix(value));
    messages
}

fn change_dir_prefix(value: &str) -> Option<String> {
    match value {
        "." => Some("must not be '.'".into()),
        ".." => Some("must not be '..'".into()),
        _ if value.starts_with("..") => Some("must not start with '..'".into()),
        _ => None,
    }
}

/// A port number, 1 to 65535.
pub fn is_valid_port_num(port: i64) -> Vec<String> {
    is_in_range(port, 1, 65535)
}

/// A number between `low` and `high`.
pub fn is_in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) { Vec::new() } else { vec![range_error(low, high)] }
}

/// A user or group id, 0 to 2³¹-1.
pub fn is_valid_id(id: i64) -> Vec<String> {
    is_in_range(id, 0, i64::from(i32::MAX))
}

/// A service name after RFC 6335, as container ports are called.
pub fn is_valid_port_name(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > 15 {
        messages.push(max_length_error(15));
    }
    let allowed = |c| lower_or_digit(c) || c == b'-';
    if value.is_empty() || !value.bytes().all(allowed) {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !value.bytes().any(|c| c.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".into());
    }
    if value.contains("--") {
        messages.push("must not contain consecutive hyphens".into());
    }
    if value.starts_with('-') || value.ends_with('-') {
        messages.push("must not begin or end with a hyphen".into());
    }
    messages
}

/// A percentage such as `25%`.
pub fn is_valid_percent(value: &str) -> Vec<String> {
    let matches = value.strip_suffix('%').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()));
    let words = "a valid percent string must be a numeric string followed by an ending '%'";
    check(value, usize::MAX, matches, || regex_error(words, "[0-9]+%", &["1%", "93%"]))
}

/// The name of an HTTP header.
pub fn is_http_header_name(value: &str) -> Vec<String> {
    let matches = !value.is_empty() && value.bytes().all(|c| alphanumeric(c) || c == b'-');
    let words = "a valid HTTP header must consist of alphanumeric characters or '-'";
    check(value, usize::MAX, matches, || regex_error(words, "[-A-Za-z0-9]+", &["X-Header-Name"]))
}

/// A name that becomes a segment of a URL path (RBAC objects, PersistentVolumes' paths).
pub fn is_path_segment_name(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    let bad = ["/", "%"].into_iter().filter(|part| value.contains(part));
    bad.map(|part| format!("may not contain '{part}'")).collect()
}

/// The name a check sees when `generateName` is validated: with its trailing dash masked, as the suffix will follow it.
pub fn mask_trailing_dash(name: &str) -> String {
    match name.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subdomains_are_lower_case_labels_with_dots() {
        assert!(is_dns1123_subdomain("a.b-c.1").is_empty());
        let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and \
             end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        for bad in ["Bad_Name", "a..b", "-a", "a-", ""] {
            assert_eq!(is_dns1123_subdomain(bad), [message]);
        }
        assert_eq!(is_dns1123_subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
    }

    #[test]
    fn a_subdomain_is_no_label_because_of_its_dots() {
        assert_eq!(is_dns1123_label("a.b"), ["must not contain dots"]);
        assert!(
            is_dns1123_label("A")[0]
                .ends_with("(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')")
        );
    }

    #[test]
    fn qualified_names_may_have_one_prefix() {
        assert!(is_qualified_name("example.com/Name_1").is_empty());
        assert_eq!(is_qualified_name("/x"), ["prefix part must be non-empty"]);
        assert!(is_qualified_name("a/b/c")[0].starts_with("a qualified name must consist of alphanumeric characters"));
        assert!(is_label_key("a/b/c")[0].ends_with("with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"));
        assert_eq!(is_qualified_name("").len(), 2);
    }

    #[test]
    fn label_values_may_be_empty() {
        assert!(is_valid_label_value("").is_empty());
        assert!(is_valid_label_value("a_b.c").is_empty());
        assert_eq!(is_valid_label_value("-b").len(), 1);
        assert_eq!(is_valid_label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    }

    #[test]
    fn port_names_break_each_rule_by_itself() {
        assert!(is_valid_port_name("http-2").is_empty());
        assert_eq!(is_valid_port_name("12"), ["must contain at least one letter (a-z)"]);
        assert_eq!(is_valid_port_name("a--b"), ["must not contain consecutive hyphens"]);
        assert_eq!(is_valid_port_name("a-"), ["must not begin or end with a hyphen"]);
    }

    #[test]
    fn config_keys_do_not_climb_directories() {
        assert!(is_config_map_key("..data").contains(&"must not start with '..'".to_owned()));
        assert!(is_config_map_key("a.b").is_empty());
    }
}
