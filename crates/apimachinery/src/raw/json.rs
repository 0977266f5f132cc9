//! A JSON reader whose errors read like those of Go's `encoding/json`.

use std::borrow::Cow;

use super::{Node, SyntaxError};

/// Deepest nesting read; `serde_json`, which reads what is stored, stops at 128.
pub(crate) const MAX_DEPTH: usize = 120;

/// Reads one JSON document. Bytes that are no UTF-8 become replacement characters, as in Go.
pub fn parse(bytes: &[u8]) -> Result<Node<'_>, SyntaxError> {
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => document(text),
        Cow::Owned(text) => document(&text).map(owned),
    }
}

fn document(text: &str) -> Result<Node<'_>, SyntaxError> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0, depth: 0 };
    let node = reader.value("looking for beginning of value")?;
    reader.space();
    if reader.at < reader.bytes.len() {
        return Err(reader.unexpected("after top-level value"));
    }
    Ok(node)
}

fn owned(node: Node<'_>) -> Node<'static> {
    match node {
        Node::Null => Node::Null,
        Node::Bool(value) => Node::Bool(value),
        Node::Number(text) => Node::Number(Cow::Owned(text.into_owned())),
        Node::String(text) => Node::String(Cow::Owned(text.into_owned())),
        Node::Array(items) => Node::Array(items.into_iter().map(owned).collect()),
        Node::Object(members) => {
            Node::Object(members.into_iter().map(|(key, value)| (Cow::Owned(key.into_owned()), owned(value))).collect())
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn unexpected(&self, context: &str) -> SyntaxError {
        let Some(byte) = self.peek() else {
            return SyntaxError("unexpected end of JSON input".into());
        };
        let shown = match byte {
            b'\'' => r"'\''".to_owned(),
            b'"' => "'\"'".to_owned(),
            _ => {
                let quoted = crate::go::quote(&char::from(byte).to_string());
                format!("'{}'", &quoted[1..quoted.len() - 1])
            }
        };
        SyntaxError(format!("invalid character {shown} {context}"))
    }

    fn value(&mut self, context: &str) -> Result<Node<'a>, SyntaxError> {
        self.space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Node::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Node::Bool(true)),
            Some(b'f') => self.literal("false", Node::Bool(false)),
            Some(b'n') => self.literal("null", Node::Null),
            _ => Err(self.unexpected(context)),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Node<'a>, SyntaxError>) -> Result<Node<'a>, SyntaxError> {
        if self.depth == MAX_DEPTH {
            return Err(SyntaxError("exceeded max depth".into()));
        }
        self.depth += 1;
        self.at += 1;
        let node = read(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn object(&mut self) -> Result<Node<'a>, SyntaxError> {
        let mut members = Vec::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Node::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            members.push((key, self.value("looking for beginning of value")?));
            if !self.more(b'}', "after object key:value pair")? {
                return Ok(Node::Object(members));
            }
        }
    }

    fn array(&mut self) -> Result<Node<'a>, SyntaxError> {
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Node::Array(items));
        }
        loop {
            items.push(self.value("looking for beginning of value")?);
            if !self.more(b']', "after array element")? {
                return Ok(Node::Array(items));
            }
        }
    }

    fn more(&mut self, end: u8, context: &str) -> Result<bool, SyntaxError> {
        self.space();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.unexpected(context)),
        }
    }

    fn literal(&mut self, word: &'static str, node: Node<'a>) -> Result<Node<'a>, SyntaxError> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                return Err(self.unexpected(&format!("in literal {word} (expecting '{}')", char::from(expected))));
            }
            self.at += 1;
        }
        Ok(node)
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self, context: &str) -> Result<(), SyntaxError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected(context));
        }
        self.digits();
        Ok(())
    }

    fn number(&mut self) -> Result<Node<'a>, SyntaxError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.some_digits("in numeric literal")?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        Ok(Node::Number(Cow::Borrowed(&self.text[start..self.at])))
    }

    fn string(&mut self) -> Result<Cow<'a, str>, SyntaxError> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let text = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(Cow::Borrowed(text));
                }
                Some(b'\\') => {
                    let prefix = self.text[start..self.at].to_owned();
                    return self.escaped(prefix).map(Cow::Owned);
                }
                Some(0x20..) => self.at += 1,
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escaped(&mut self, mut out: String) -> Result<String, SyntaxError> {
        loop {
            let start = self.at;
            while matches!(self.peek(), Some(c) if c >= 0x20 && c != b'"' && c != b'\\') {
                self.at += 1;
            }
            out.push_str(&self.text[start..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    let c = self.escape()?;
                    out.push(c);
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, SyntaxError> {
        let c = match self.peek() {
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(c)
    }

    fn unicode(&mut self) -> Result<char, SyntaxError> {
        let high = self.hex()?;
        if (0xd800..0xdc00).contains(&high) && self.bytes[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let low = self.hex()?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = back;
        }
        Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex(&mut self) -> Result<u32, SyntaxError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|c| char::from(c).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn syntax_errors_read_like_go() {
        let cases = [
            ("", "unexpected end of JSON input"),
            ("not json", "invalid character 'o' in literal null (expecting 'u')"),
            ("{", "unexpected end of JSON input"),
            ("{a", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 2}", "invalid character '2' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("1 x", "invalid character 'x' after top-level value"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u12x4\"", "invalid character 'x' in \\u hexadecimal character escape"),
            ("'a'", "invalid character '\\'' looking for beginning of value"),
        ];
        for (text, message) in cases {
            assert_eq!(parse(text.as_bytes()).unwrap_err().0, message, "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_not_overflowed() {
        assert_eq!(parse("[".repeat(100_000).as_bytes()).unwrap_err().0, "exceeded max depth");
    }

    #[test]
    fn surrogate_pairs_join_and_lone_ones_are_replaced() {
        let node = parse(br#""\ud83d\ude00 \ud83d \n""#).unwrap();
        assert_eq!(node.as_str(), Some("😀 \u{fffd} \n"));
    }

    fn values() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            ".*".prop_map(serde_json::Value::String),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::Array),
                prop::collection::btree_map(".*", inner, 0..6).prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn reads_back_what_serde_json_writes(value in values()) {
            let text = value.to_string();
            prop_assert_eq!(parse(text.as_bytes()).unwrap().to_value(), value);
        }
    }
}
