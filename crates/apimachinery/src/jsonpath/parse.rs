//! Reading of paths.

use serde_json::Value;

use super::{Filter, JsonPath, Operand, Operator, Step};

/// Filters in filters, at most; a deeper path is an error rather than a deep recursion.
const MAX_DEPTH: usize = 8;

/// What is wrong with a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

fn error<T>(text: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError(text.into()))
}

/// Reads a whole path.
pub(super) fn path(text: &str) -> Result<JsonPath, ParseError> {
    let mut parser = Parser { rest: text, depth: 0 };
    let path = parser.path()?;
    if parser.rest.is_empty() { Ok(path) } else { error(format!("unrecognized character in path: {:?}", parser.rest)) }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn take(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn until(&mut self, end: impl Fn(char) -> bool) -> &'a str {
        let at = self.rest.find(end).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(at);
        self.rest = rest;
        taken
    }

    /// Steps up to what cannot be one: the end, or what follows a path inside a filter.
    fn path(&mut self) -> Result<JsonPath, ParseError> {
        let mut steps = Vec::new();
        if !self.take("$") {
            self.take("@");
        }
        loop {
            if self.take("..") {
                steps.push(Step::Descend);
                if !self.rest.starts_with('[') {
                    steps.push(self.field()?);
                }
            } else if self.take(".") {
                // A path of one dot is the value itself; `.[0]` is an item of it.
                if !self.rest.is_empty() && !self.rest.starts_with(['[', ')', ' ']) {
                    steps.push(self.field()?);
                }
            } else if self.take("[") {
                steps.push(self.brackets()?);
            } else {
                return Ok(JsonPath { steps });
            }
        }
    }

    fn field(&mut self) -> Result<Step, ParseError> {
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.extend(chars.next().map(|(_, c)| c)),
                '.' | '[' | ']' | ')' | ',' | ' ' | '=' | '!' | '<' | '>' | '\'' | '"' => {
                    end = at;
                    break;
                }
                c => name.push(c),
            }
        }
        self.rest = &self.rest[end..];
        match name.as_str() {
            "" => error("a field name is missing"),
            "*" => Ok(Step::All),
            _ => Ok(Step::Field(name)),
        }
    }

    /// What stands between brackets, the first of which is taken already.
    fn brackets(&mut self) -> Result<Step, ParseError> {
        if self.take("?(") {
            let filter = self.filter()?;
            return if self.take(")]") { Ok(Step::Filter(filter)) } else { error("unterminated filter") };
        }
        let mut steps = vec![self.selector()?];
        while self.take(",") {
            steps.push(self.selector()?);
        }
        if !self.take("]") {
            return error("unterminated array");
        }
        Ok(if steps.len() == 1 { steps.remove(0) } else { Step::Union(steps) })
    }

    fn selector(&mut self) -> Result<Step, ParseError> {
        self.until(|c| c != ' ');
        if self.take("*") {
            return Ok(Step::All);
        }
        if self.rest.starts_with(['\'', '"']) {
            return Ok(Step::Field(self.quoted()?));
        }
        let text = self.until(|c| matches!(c, ']' | ',')).trim();
        let parts: Vec<&str> = text.split(':').collect();
        let number = |part: &&str| match part.trim() {
            "" => Ok(None),
            digits => digits.parse::<i64>().map(Some).map_err(|_| ParseError(format!("invalid array index {text}"))),
        };
        let numbers = parts.iter().map(number).collect::<Result<Vec<_>, _>>()?;
        match numbers.as_slice() {
            [Some(index)] => Ok(Step::Index(*index)),
            [from, to] => Ok(Step::Slice { from: *from, to: *to, every: 1 }),
            [from, to, every] => Ok(Step::Slice { from: *from, to: *to, every: every.unwrap_or(1) }),
            _ => error(format!("invalid array index {text}")),
        }
    }

    fn quoted(&mut self) -> Result<String, ParseError> {
        let Some(quote) = self.rest.chars().next() else { return error("a text is missing") };
        let mut out = String::new();
        let mut chars = self.rest[1..].char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => out.extend(chars.next().map(|(_, c)| c)),
                c if c == quote => {
                    self.rest = &self.rest[at + 2..];
                    return Ok(out);
                }
                c => out.push(c),
            }
        }
        error("unterminated quoted string")
    }

    fn filter(&mut self) -> Result<Filter, ParseError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return error("filters are nested too deeply");
        }
        self.until(|c| c != ' ');
        let left = self.path()?;
        self.until(|c| c != ' ');
        let table = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let operator = table.into_iter().find(|(text, _)| self.take(text)).map(|(_, operator)| operator);
        let compare = match operator {
            Some(operator) => Some((operator, self.operand()?)),
            None => None,
        };
        self.until(|c| c != ' ');
        self.depth -= 1;
        Ok(Filter { left, compare })
    }

    fn operand(&mut self) -> Result<Operand, ParseError> {
        self.until(|c| c != ' ');
        if self.rest.starts_with(['\'', '"']) {
            return Ok(Operand::Literal(Value::String(self.quoted()?)));
        }
        if self.rest.starts_with(['@', '$', '.']) {
            return Ok(Operand::Path(self.path()?));
        }
        let text = self.until(|c| matches!(c, ')' | ' '));
        match serde_json::from_str::<Value>(text) {
            Ok(value @ (Value::Bool(_) | Value::Number(_))) => Ok(Operand::Literal(value)),
            _ => error(format!("cannot compare with {text:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn broken_paths_are_errors() {
        for text in [".spec.l[", ".spec.l[x]", ".a..", ".a[?(@.b==)]", ".a['b", ".a]", ".a[?(@.b"] {
            assert!(path(text).is_err(), "{text}");
        }
        assert!(path(&".a[?(@".repeat(1000)).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[.$@a-c0-9\\[\\]()?='\"\\\\:,*<>! é-]{0,40}") {
            let _ = path(&text);
        }
    }
}
