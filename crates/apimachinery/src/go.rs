//! Text forms of Go's `fmt`, `strconv` and `encoding/json` that occur inside error messages clients read.

use serde_json::Value;

/// Quotes like Go's `%q`: double quotes, with escapes for quotes, backslashes and what does not print.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_quoted(&mut out, c);
    }
    out.push('"');
    out
}

fn push_quoted(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
        c if c.is_control() || (c.is_whitespace() && c != ' ') || c == '\u{feff}' => {
            out.push_str(&format!("\\u{:04x}", c as u32));
        }
        c => out.push(c),
    }
}

/// Joins the quoted items with `, `, as in `supported values: "a", "b"`.
pub fn quote_all<S: AsRef<str>>(items: &[S]) -> String {
    items.iter().map(|item| quote(item.as_ref())).collect::<Vec<_>>().join(", ")
}

/// JSON as Go's `json.Marshal` writes it: compact, keys sorted, and `<`, `>`, `&` escaped.
pub fn json(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// A value as Go's `%v` prints what `encoding/json` decoded it to: `map[a:1 b:[x y]]`, `<nil>`, bare strings.
pub fn print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(print).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: Vec<_> = fields.iter().map(|(key, value)| format!("{key}:{}", print(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quotes_what_does_not_print() {
        assert_eq!(quote("a\"b\\c\n\u{1}é"), r#""a\"b\\c\n\x01é""#);
    }

    #[test]
    fn escapes_html_in_json() {
        assert_eq!(json(&json!({"b": "<a&b>", "a": 1})), r#"{"a":1,"b":"\u003ca\u0026b\u003e"}"#);
    }

    #[test]
    fn prints_nested_values_like_percent_v() {
        assert_eq!(print(&json!({"b": ["x", 1], "a": null})), "map[a:<nil> b:[x 1]]");
    }
}
