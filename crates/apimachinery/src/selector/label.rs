//! Label selectors: `app=web,tier in (a,b),!legacy` (`k8s.io/apimachinery/pkg/labels`).

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::Lookup;
use crate::field::{self, Path};
use crate::{go, names};

mod parse;

/// How a requirement compares a label with its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key=value`
    Equals,
    /// `key==value`
    DoubleEquals,
    /// `key!=value`
    NotEquals,
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`
    NotIn,
    /// `key>1`
    GreaterThan,
    /// `key<1`
    LessThan,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

/// A text that is no label selector; the message is upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub String);

/// Conditions that must all hold. The default selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl Requirement {
    /// A checked requirement; the error lists all that is wrong with it.
    pub fn new(key: &str, operator: Operator, values: impl IntoIterator<Item = String>) -> Result<Self, ParseError> {
        let requirement = Self { key: key.into(), operator, values: values.into_iter().collect() };
        match &requirement.check()[..] {
            [] => Ok(requirement),
            errors => Err(ParseError(field::aggregate(errors))),
        }
    }

    fn check(&self) -> field::ErrorList {
        use Operator::*;
        let mut errors = Vec::new();
        check_key(&self.key, &Path::new("key"), &mut errors);
        let at = Path::new("values");
        let values = || Value::from(self.values.iter().cloned().collect::<Vec<_>>());
        let rule = match self.operator {
            In | NotIn => self.values.is_empty().then_some("for 'in', 'notin' operators, values set can't be empty"),
            Equals | DoubleEquals | NotEquals => (self.values.len() != 1).then_some("exact-match compatibility requires one single value"),
            Exists | DoesNotExist => (!self.values.is_empty()).then_some("values set must be empty for exists and does not exist"),
            GreaterThan | LessThan => (self.values.len() != 1).then_some("for 'Gt', 'Lt' operators, exactly one value is required"),
        };
        errors.extend(rule.map(|rule| field::Error::invalid(&at, values(), rule)));
        for (index, value) in self.values.iter().enumerate() {
            if matches!(self.operator, GreaterThan | LessThan) && value.parse::<i64>().is_err() {
                let rule = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(field::Error::invalid(&at.index(index), value.as_str(), rule));
            }
        }
        for (index, value) in self.values.iter().enumerate() {
            let messages = names::is_valid_label_value(value);
            if !messages.is_empty() {
                errors.push(field::Error::invalid(&at.index(index).key(&self.key), value.as_str(), messages.join("; ")));
            }
        }
        errors
    }

    /// The label's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How the label is compared.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// What it is compared with, sorted.
    pub fn values(&self) -> &BTreeSet<String> {
        &self.values
    }

    /// Whether `labels` meet this condition.
    pub fn matches(&self, labels: &(impl Lookup + ?Sized)) -> bool {
        use Operator::*;
        let value = labels.lookup(&self.key);
        match self.operator {
            Exists => value.is_some(),
            DoesNotExist => value.is_none(),
            In | Equals | DoubleEquals => value.is_some_and(|value| self.values.contains(value)),
            NotIn | NotEquals => value.is_none_or(|value| !self.values.contains(value)),
            GreaterThan => self.compare(value).is_some_and(|(label, bound)| label > bound),
            LessThan => self.compare(value).is_some_and(|(label, bound)| label < bound),
        }
    }

    fn compare(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

fn check_key(key: &str, at: &Path, errors: &mut field::ErrorList) {
    let messages = names::is_label_key(key);
    if !messages.is_empty() {
        errors.push(field::Error::invalid(at, key, messages.join("; ")));
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Operator::*;
        let values = || self.values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match self.operator {
            Exists => f.write_str(&self.key),
            DoesNotExist => write!(f, "!{}", self.key),
            Equals => write!(f, "{}={}", self.key, values()),
            DoubleEquals => write!(f, "{}=={}", self.key, values()),
            NotEquals => write!(f, "{}!={}", self.key, values()),
            In => write!(f, "{} in ({})", self.key, values()),
            NotIn => write!(f, "{} notin ({})", self.key, values()),
            GreaterThan => write!(f, "{}>{}", self.key, values()),
            LessThan => write!(f, "{}<{}", self.key, values()),
        }
    }
}

impl Selector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects no object.
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// All of `requirements`.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements, nothing: false }
    }

    /// Parses the `labelSelector` query parameter. The empty text selects everything.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::requirements(text).map(Self::new)
    }

    /// Selects objects that carry each of `labels`; values are taken as they are, unchecked.
    pub fn from_set<'a>(labels: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        let equal = |(key, value): (&String, &String)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: BTreeSet::from([value.clone()]),
        };
        Self::new(labels.into_iter().map(equal).collect())
    }

    /// Reads a `metav1.LabelSelector` in JSON: null selects nothing, the empty object everything.
    pub fn from_label_selector(selector: &Value) -> Result<Self, ParseError> {
        let Some(fields) = selector.as_object() else {
            return Ok(Self::nothing());
        };
        let mut requirements = Vec::new();
        for (key, value) in fields.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            requirements.push(Requirement::new(key, Operator::Equals, [value.as_str().unwrap_or_default().to_owned()])?);
        }
        for expression in fields.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            requirements.push(from_expression(expression)?);
        }
        Ok(Self::new(requirements))
    }

    /// Whether `labels` meet all conditions.
    pub fn matches(&self, labels: &(impl Lookup + ?Sized)) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// Whether every object is selected.
    pub fn is_empty(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Whether no object is selected.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// The conditions, by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// The one value label `key` must have, if the selector demands one.
    pub fn exact_match(&self, key: &str) -> Option<&str> {
        use Operator::*;
        let requirement = self.requirements.iter().find(|requirement| requirement.key == key)?;
        let exact = matches!(requirement.operator, In | Equals | DoubleEquals) && requirement.values.len() == 1;
        requirement.values.first().filter(|_| exact).map(String::as_str)
    }
}

fn from_expression(expression: &Value) -> Result<Requirement, ParseError> {
    let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
    let operator = match text("operator") {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        other => {
            return Err(ParseError(format!("{} is not a valid label selector operator", go::quote(other))));
        }
    };
    let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
    Requirement::new(text("key"), operator, values.filter_map(Value::as_str).map(str::to_owned))
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.requirements.iter().map(Requirement::to_string).collect();
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        Selector::parse(selector).unwrap().matches(labels)
    }

    #[test]
    fn every_operator_matches_as_written() {
        let labels: &[_] = &[("app", "web"), ("n", "5"), ("empty", "")];
        for yes in [
            "",
            "app",
            "app=web",
            "app==web",
            "app!=db",
            "app in (a,web)",
            "app notin (a)",
            "!x",
            "x!=1",
            "x notin (a)",
            "n>4",
            "n<6",
            "empty in ()",
        ] {
            assert!(matches(yes, labels), "{yes}");
        }
        for no in ["x", "app=db", "app!=web", "app notin (web)", "!app", "n>5", "app>1", "app=web,x", "x in (a)"] {
            assert!(!matches(no, labels), "{no}");
        }
    }

    #[test]
    fn prints_in_canonical_form() {
        for (text, canonical) in [("b in (y,x) , a", "a,b in (x,y)"), ("a=", "a="), ("!a,b!=c", "!a,b!=c"), ("x in (,a)", "x in (,a)")] {
            assert_eq!(Selector::parse(text).unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn tells_where_parsing_stopped() {
        let cases = [
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a,", "found '', expected: identifier after ','"),
            ("=a", "found '=', expected: !, identifier, or 'end of string'"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ];
        for (text, message) in cases {
            assert_eq!(Selector::parse(text).unwrap_err().0, message, "{text}");
        }
        let bad_key = Selector::parse("-a").unwrap_err().0;
        assert!(bad_key.starts_with("unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist"), "{bad_key}");
        let bad_value = Selector::parse("a=-b").unwrap_err().0;
        assert!(
            bad_value.starts_with("unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label must"),
            "{bad_value}"
        );
    }

    #[test]
    fn label_selector_objects_select_nothing_when_null() {
        let labels: &[_] = &[("app", "web")];
        assert!(!Selector::from_label_selector(&Value::Null).unwrap().matches(labels));
        assert!(Selector::from_label_selector(&json!({})).unwrap().matches(labels));
        let both = json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]});
        assert!(Selector::from_label_selector(&both).unwrap().matches(labels));
        let bad = json!({"matchExpressions": [{"key": "x", "operator": "Is"}]});
        assert_eq!(Selector::from_label_selector(&bad).unwrap_err().0, "\"Is\" is not a valid label selector operator");
    }

    #[test]
    fn knows_the_one_value_a_label_must_have() {
        let selector = Selector::parse("a=1,b in (2),c!=3").unwrap();
        assert_eq!((selector.exact_match("a"), selector.exact_match("b"), selector.exact_match("c")), (Some("1"), Some("2"), None));
    }
}
