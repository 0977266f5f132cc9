//! Field selectors: `status.phase=Running,spec.nodeName!=n1` (`k8s.io/apimachinery/pkg/fields`).

use std::fmt;

use super::Lookup;

/// One condition on one field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The field, such as `spec.nodeName`.
    pub field: String,
    /// Whether the field must have the value (or must not).
    pub equal: bool,
    /// The value.
    pub value: String,
}

/// A text that is no field selector; the message is upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A term without an operator.
    #[error("invalid selector: '{0}'; can't understand '{1}'")]
    Term(String, String),
    /// A backslash before something that needs none.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A special character without a backslash.
    #[error("invalid field selector: unescaped character in value: {}", *.0 as u32)]
    Unescaped(char),
}

/// Conditions that must all hold. The default selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

impl Selector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Objects whose `field` has `value`.
    pub fn equal(field: &str, value: &str) -> Self {
        Self { requirements: vec![Requirement { field: field.into(), equal: true, value: value.into() }] }
    }

    /// All of `requirements`.
    pub fn new(requirements: Vec<Requirement>) -> Self {
        Self { requirements }
    }

    /// Parses the `fieldSelector` query parameter. The empty text selects everything; empty terms are skipped.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let terms = parts.into_iter().filter(|part| !part.is_empty());
        Ok(Self { requirements: terms.map(|part| parse_term(text, part)).collect::<Result<_, _>>()? })
    }

    /// Whether `fields` meet all conditions; an absent field counts as empty.
    pub fn matches(&self, fields: &(impl Lookup + ?Sized)) -> bool {
        self.matches_with(|name| fields.lookup(name).unwrap_or_default())
    }

    /// [`Selector::matches`] with the fields read through a function.
    pub fn matches_with<T: AsRef<str>>(&self, field: impl Fn(&str) -> T) -> bool {
        self.requirements.iter().all(|term| (field(&term.field).as_ref() == term.value) == term.equal)
    }

    /// Whether every object is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The conditions.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// The value `field` must have, if the selector demands one.
    pub fn exact_match(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }
}

/// Splits at commas that have no backslash before them.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn parse_term(whole: &str, term: &str) -> Result<Requirement, ParseError> {
    for at in term.char_indices().map(|(at, _)| at) {
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = term[at..].strip_prefix(operator) {
                return Ok(Requirement { field: term[..at].into(), equal, value: unescape(value)? });
            }
        }
    }
    Err(ParseError::Term(whole.into(), term.into()))
}

fn unescape(value: &str) -> Result<String, ParseError> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(ParseError::Escape(format!("\\{c}"))),
                None => return Err(ParseError::Escape("\\".into())),
            },
            ',' | '=' => return Err(ParseError::Unescaped(c)),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// The value with backslashes where [`Selector::parse`] needs them.
pub fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.requirements.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let operator = if term.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_compare_fields_and_absent_ones_are_empty() {
        let selector = Selector::parse("status.phase==Running,spec.nodeName!=n1,,a=").unwrap();
        assert!(selector.matches(&[("status.phase", "Running"), ("spec.nodeName", "n2")]));
        assert!(!selector.matches(&[("status.phase", "Running"), ("spec.nodeName", "n1")]));
        assert_eq!(selector.exact_match("status.phase"), Some("Running"));
    }

    #[test]
    fn special_characters_need_a_backslash() {
        let selector = Selector::parse(r"a=x\,y\=z\\").unwrap();
        assert_eq!(selector.exact_match("a"), Some(r"x,y=z\"));
        assert_eq!(selector.to_string(), r"a=x\,y\=z\\");
    }

    #[test]
    fn says_what_it_does_not_understand() {
        let message = |text| Selector::parse(text).unwrap_err().to_string();
        assert_eq!(message("a=b,c"), "invalid selector: 'a=b,c'; can't understand 'c'");
        assert_eq!(message(r"a=\x"), r"invalid field selector: invalid escape sequence: \x");
        assert_eq!(message("a=b=c"), "invalid field selector: unescaped character in value: 61");
    }
}
