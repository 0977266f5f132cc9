//! YAML as clients of kube-apiserver know it: keys sorted, lists not indented, whatever another reader could take for
//! something else than a string quoted.

use serde_json::Value;

/// A whole document.
pub(crate) fn to_string(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => members(&mut out, map, 0),
        Value::Array(items) if !items.is_empty() => elements(&mut out, items, 0),
        scalar => {
            out.push_str(&inline(scalar, 0));
            out.push('\n');
        }
    }
    out
}

fn members(out: &mut String, map: &serde_json::Map<String, Value>, indent: usize) {
    for (key, value) in map {
        pad(out, indent);
        out.push_str(&string(key, indent));
        out.push(':');
        nested(out, value, indent, indent);
    }
}

fn elements(out: &mut String, items: &[Value], indent: usize) {
    for item in items {
        pad(out, indent);
        out.push('-');
        match item {
            Value::Object(map) if !map.is_empty() => {
                let mut block = String::new();
                members(&mut block, map, indent + 2);
                out.push(' ');
                out.push_str(block.trim_start_matches(' '));
            }
            Value::Array(inner) if !inner.is_empty() => {
                let mut block = String::new();
                elements(&mut block, inner, indent + 2);
                out.push(' ');
                out.push_str(block.trim_start_matches(' '));
            }
            scalar => {
                out.push(' ');
                out.push_str(&inline(scalar, indent));
                out.push('\n');
            }
        }
    }
}

/// What follows `key:`.
fn nested(out: &mut String, value: &Value, indent: usize, list_indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            members(out, map, indent + 2);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            elements(out, items, list_indent);
        }
        scalar => {
            out.push(' ');
            out.push_str(&inline(scalar, indent));
            out.push('\n');
        }
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn inline(value: &Value, indent: usize) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(s) => string(s, indent),
        Value::Array(_) => "[]".into(),
        Value::Object(_) => "{}".into(),
    }
}

fn string(text: &str, indent: usize) -> String {
    if text.contains('\n') && !text.starts_with([' ', '\n', '\t']) && text.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()) {
        return block(text, indent);
    }
    if text.chars().any(char::is_control) {
        return serde_json::to_string(text).unwrap_or_default();
    }
    if resolves_to_other(text) {
        return format!("{text:?}");
    }
    if needs_quotes(text) { format!("'{}'", text.replace('\'', "''")) } else { text.to_owned() }
}

/// A literal block, keeping line ends as they are.
fn block(text: &str, indent: usize) -> String {
    let body = text.trim_end_matches('\n');
    let ends = text.len() - body.len();
    let mut out = String::from(match ends {
        0 => "|-",
        1 => "|",
        _ => "|+",
    });
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(&mut out, indent + 2);
            out.push_str(line);
        }
    }
    out.extend(std::iter::repeat_n('\n', ends.saturating_sub(1)));
    out
}

/// Whether a YAML 1.1 reader would take the plain text for null, a boolean, a number or a time.
fn resolves_to_other(text: &str) -> bool {
    const WORDS: [&str; 12] = ["", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", "<<"];
    let lower = text.to_ascii_lowercase();
    if WORDS.contains(&lower.as_str()) || matches!(lower.trim_start_matches(['+', '-']), ".inf" | ".nan") {
        return true;
    }
    let Some(first) = text.chars().next() else { return true };
    if !(first.is_ascii_digit() || matches!(first, '-' | '+' | '.')) {
        return false;
    }
    let digits = text.trim_start_matches(['-', '+']).replace('_', "");
    let based = ["0x", "0o", "0b"]
        .iter()
        .any(|p| digits.strip_prefix(p).is_some_and(|d| !d.is_empty() && d.chars().all(|c| c.is_ascii_hexdigit())));
    let number = digits.parse::<f64>().is_ok() && digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    based || number || is_time(text)
}

/// `2006-01-02` with or without a time of day.
fn is_time(text: &str) -> bool {
    let b = text.as_bytes();
    b.len() >= 10 && b[4] == b'-' && b[7] == b'-' && b.iter().take(10).enumerate().all(|(i, c)| i == 4 || i == 7 || c.is_ascii_digit())
}

fn needs_quotes(text: &str) -> bool {
    let starts =
        text.starts_with(['-', '?', ':', ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`', ' ', '=']);
    let dash_word = text.starts_with(['-', '?', ':']) && text.len() > 1 && !text[1..].starts_with(' ') && !text.starts_with("---");
    (starts && !dash_word) || text.ends_with([' ', ':']) || text.contains(": ") || text.contains(" #")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_stand_at_their_keys_indent() {
        let value = json!({"metadata": {"finalizers": ["a", "b"], "owners": [{"kind": "X", "name": "y"}]}, "empty": {}, "none": []});
        let text = "empty: {}\nmetadata:\n  finalizers:\n  - a\n  - b\n  owners:\n  - kind: X\n    name: \"y\"\nnone: []\n";
        assert_eq!(to_string(&value), text);
    }

    #[test]
    fn strings_that_look_like_something_else_are_quoted() {
        let value = json!({"a": "true", "b": "1", "c": "2024-01-02T03:04:05Z", "d": "", "e": "x: y", "f": "-1x", "g": "1.2.3"});
        assert_eq!(to_string(&value), "a: \"true\"\nb: \"1\"\nc: \"2024-01-02T03:04:05Z\"\nd: \"\"\ne: 'x: y'\nf: -1x\ng: 1.2.3\n");
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let value = json!({"text": "a\n  b\n\nc\n", "end": "x\ny", "ends": "x\n\n", "list": [[1, 2], {"a": [true, null]}], "s": "it's", "p": "%x", "h": "#"});
        assert_eq!(serde_yaml_ng::from_str::<Value>(&to_string(&value)).unwrap(), value);
    }
}
