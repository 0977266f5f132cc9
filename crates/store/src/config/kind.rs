//! The values flags take, read as Go reads them (packages `flag` and `strconv`), and as they stand in a configuration file.

use std::time::Duration;

use serde_json::Value as Json;

use super::duration;
use crate::url::{self, Url};

/// What values a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `--flag`, `--flag=true`, `--flag=false`.
    Bool,
    /// `--flag` or `--flag=anything`, without a meaning.
    Switch,
    /// Any text.
    Text,
    /// A whole number from 0 on.
    Unsigned,
    /// A whole number.
    Signed,
    /// A duration; in a configuration file nanoseconds.
    Time,
    /// URLs between commas.
    Urls,
    /// Words between commas.
    Words,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Value {
    Bool(bool),
    Text(String),
    Unsigned(u64),
    Signed(i64),
    Time(Duration),
    Urls(Vec<Url>),
    Words(Vec<String>),
}

/// Why a text is no such value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("parse error")]
    Form,
    #[error("value out of range")]
    Range,
    #[error("it is none of {0}")]
    NoneOf(String),
    #[error(transparent)]
    Url(#[from] url::Error),
    #[error("expected {0}, found {1}")]
    Type(&'static str, &'static str),
}

impl Kind {
    /// The flag needs no value.
    pub fn stands_alone(self) -> bool {
        matches!(self, Kind::Bool | Kind::Switch)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// It is not of this kind.
    pub fn read(self, text: &str) -> Result<Value, Error> {
        match self {
            Kind::Bool => boolean(text).map(Value::Bool),
            Kind::Text | Kind::Switch => Ok(Value::Text(text.to_owned())),
            Kind::Unsigned => whole(text).and_then(|number| number.try_into().map_err(|_| Error::Range)).map(Value::Unsigned),
            Kind::Signed => whole(text).and_then(|number| number.try_into().map_err(|_| Error::Range)).map(Value::Signed),
            Kind::Time => time(text).map(Value::Time),
            Kind::Urls => urls(text).map(Value::Urls),
            Kind::Words => Ok(Value::Words(words(text))),
            Kind::OneOf(known) if known.contains(&text) => Ok(Value::Text(text.to_owned())),
            Kind::OneOf(known) => Err(Error::NoneOf(known.join(", "))),
        }
    }

    /// Takes a value from a configuration file.
    ///
    /// # Errors
    /// It is not of this kind.
    pub fn take(self, value: &Json) -> Result<Value, Error> {
        match (self, value) {
            (Kind::Bool, Json::Bool(on)) => Ok(Value::Bool(*on)),
            (Kind::Unsigned | Kind::Signed, Json::Number(number)) => self.read(&number.to_string()),
            (Kind::Time, Json::Number(number)) => {
                let nanoseconds = number.as_i64().ok_or(Error::Form)?;
                Ok(Value::Time(Duration::from_nanos(nanoseconds.max(0).unsigned_abs())))
            }
            (Kind::Words, Json::Array(items)) => {
                let word = |item: &Json| item.as_str().map(str::to_owned).ok_or(Error::Type("a list of strings", name(item)));
                items.iter().map(word).collect::<Result<_, _>>().map(Value::Words)
            }
            (Kind::Text | Kind::Switch | Kind::Urls | Kind::Words | Kind::OneOf(_), Json::String(text)) => self.read(text),
            _ => Err(Error::Type(self.in_a_file(), name(value))),
        }
    }

    fn in_a_file(self) -> &'static str {
        match self {
            Kind::Bool => "true or false",
            Kind::Text | Kind::Switch | Kind::Urls | Kind::OneOf(_) => "a string",
            Kind::Unsigned | Kind::Signed => "a number",
            Kind::Time => "a number of nanoseconds",
            Kind::Words => "a list of strings",
        }
    }
}

fn name(value: &Json) -> &'static str {
    match value {
        Json::Null => "nothing",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "a mapping",
    }
}

fn boolean(text: &str) -> Result<bool, Error> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(Error::Form),
    }
}

/// A number as Go's base 0 has it: decimal, `0x`, `0o`, `0b` or a leading zero, with underscores between digits.
fn whole(text: &str) -> Result<i128, Error> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let prefixes = [("0x", 16), ("0o", 8), ("0b", 2), ("0", 8)];
    let prefixed = prefixes.iter().find_map(|(prefix, base)| Some((lower.strip_prefix(prefix)?, *base)));
    let (digits, base) = prefixed.filter(|(rest, _)| !rest.is_empty()).unwrap_or((&lower, 10));
    let digits = digits.replace('_', "");
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return Err(Error::Form);
    }
    i128::from_str_radix(&digits, base).map(|number| sign * number).map_err(|_| Error::Range)
}

/// As everywhere in etcd a negative time is as good as none.
fn time(text: &str) -> Result<Duration, Error> {
    match text.strip_prefix('-') {
        Some(rest) => duration(rest).map(|_| Duration::ZERO),
        None => duration(text.strip_prefix('+').unwrap_or(text)),
    }
    .map_err(|_| Error::Form)
}

fn urls(text: &str) -> Result<Vec<Url>, Error> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut urls = text.split(',').map(str::parse).collect::<Result<Vec<Url>, _>>()?;
    urls.sort_by_cached_key(Url::to_string);
    urls.dedup();
    Ok(urls)
}

fn words(text: &str) -> Vec<String> {
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_read_as_go_reads_them() {
        assert_eq!(Kind::Bool.read("T"), Ok(Value::Bool(true)));
        assert_eq!(Kind::Bool.read("yes"), Err(Error::Form));
        assert_eq!(Kind::Unsigned.read("0x10"), Ok(Value::Unsigned(16)));
        assert_eq!(Kind::Unsigned.read("1_000"), Ok(Value::Unsigned(1000)));
        assert_eq!(Kind::Unsigned.read("0"), Ok(Value::Unsigned(0)));
        assert_eq!(Kind::Unsigned.read("-1"), Err(Error::Range));
        assert_eq!(Kind::Unsigned.read("1.5"), Err(Error::Form));
        assert_eq!(Kind::Signed.read("-1"), Ok(Value::Signed(-1)));
        assert_eq!(Kind::Signed.read("9223372036854775808"), Err(Error::Range));
        assert_eq!(Kind::Time.read("1h30m"), Ok(Value::Time(Duration::from_secs(5400))));
        assert_eq!(Kind::Time.read("-1s"), Ok(Value::Time(Duration::ZERO)));
        assert_eq!(Kind::Time.read("5"), Err(Error::Form));
        assert_eq!(Kind::Words.read("a,b"), Ok(Value::Words(vec!["a".into(), "b".into()])));
        assert!(matches!(Kind::Urls.read("foo:1"), Err(Error::Url(_))));
        assert!(matches!(Kind::OneOf(&["new"]).read("old"), Err(Error::NoneOf(_))));
    }

    #[test]
    fn a_configuration_file_has_types_of_its_own() {
        assert_eq!(Kind::Time.take(&json!(5_000_000_000_u64)), Ok(Value::Time(Duration::from_secs(5))));
        assert_eq!(Kind::Time.take(&json!("5s")), Err(Error::Type("a number of nanoseconds", "a string")));
        assert_eq!(Kind::Words.take(&json!(["a", "b"])), Kind::Words.read("a,b"));
        assert_eq!(Kind::Words.take(&json!("a,b")), Kind::Words.read("a,b"));
        assert_eq!(Kind::Bool.take(&json!("true")), Err(Error::Type("true or false", "a string")));
        assert_eq!(Kind::Unsigned.take(&json!(7)), Ok(Value::Unsigned(7)));
        assert_eq!(Kind::Unsigned.take(&json!(7.5)), Err(Error::Form));
    }
}
