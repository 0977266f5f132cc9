//! JSON paths as `kubectl` and printer columns write them: `.spec.containers[0].name`, `.conditions[?(@.type=="Ready")].status`
//! (`k8s.io/client-go/util/jsonpath`).

use std::cmp::Ordering;

use serde_json::Value;

use crate::go;

mod parse;

pub use parse::ParseError;

/// A parsed path. What it does not find it leaves out; it never fails on a value.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// A member of an object.
    Field(String),
    /// All members or items.
    All,
    /// The values here and all below.
    Descend,
    /// Items from, to and every how many; negative numbers count from the end.
    Slice { from: Option<i64>, to: Option<i64>, every: i64 },
    /// One item; negative numbers count from the end.
    Index(i64),
    /// What each of these finds.
    Union(Vec<Step>),
    /// The items that satisfy this.
    Filter(Filter),
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: JsonPath,
    /// `None`: the left side must be there.
    compare: Option<(Operator, Operand)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Literal(Value),
    Path(JsonPath),
}

impl JsonPath {
    /// Reads a path without braces. Errors: what is wrong, in words.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::path(text)
    }

    /// All values the path leads to, in document order.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        self.steps.iter().fold(vec![value], |found, step| found.into_iter().flat_map(|value| step.find(value)).collect())
    }

    /// The first value the path leads to.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.find(value).into_iter().next()
    }
}

impl Step {
    fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Field(name), Value::Object(members)) => members.get(name).into_iter().collect(),
            (Self::All, Value::Object(members)) => members.values().collect(),
            (Self::All, Value::Array(items)) => items.iter().collect(),
            (Self::Descend, value) => below(value),
            (Self::Index(index), Value::Array(items)) => at(*index, items.len()).map(|index| &items[index]).into_iter().collect(),
            (Self::Slice { from, to, every }, Value::Array(items)) => slice(items, *from, *to, *every),
            (Self::Union(steps), value) => steps.iter().flat_map(|step| step.find(value)).collect(),
            (Self::Filter(filter), Value::Array(items)) => items.iter().filter(|item| filter.holds(item)).collect(),
            _ => Vec::new(),
        }
    }
}

/// The value and all below it, parents first.
fn below(value: &Value) -> Vec<&Value> {
    let mut found = vec![value];
    match value {
        Value::Object(members) => found.extend(members.values().flat_map(below)),
        Value::Array(items) => found.extend(items.iter().flat_map(below)),
        _ => {}
    }
    found
}

/// An index into a list, counted from the end if negative; `None` beyond it.
fn at(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let index = if index < 0 { index.checked_add(length)? } else { index };
    (0..length).contains(&index).then(|| usize::try_from(index).ok()).flatten()
}

fn slice(items: &[Value], from: Option<i64>, to: Option<i64>, every: i64) -> Vec<&Value> {
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let bound = |index: i64| usize::try_from(if index < 0 { index.saturating_add(length) } else { index }.clamp(0, length)).unwrap_or(0);
    let (from, to) = (bound(from.unwrap_or(0)), bound(to.unwrap_or(length)));
    match usize::try_from(every) {
        Ok(every) if every > 0 && from < to => items[from..to].iter().step_by(every).collect(),
        _ => Vec::new(),
    }
}

impl Filter {
    fn holds(&self, item: &Value) -> bool {
        let left = self.left.find(item);
        let Some((operator, operand)) = &self.compare else { return !left.is_empty() };
        let right = match operand {
            Operand::Literal(value) => Some(value),
            Operand::Path(path) => path.first(item),
        };
        match (left.first(), right) {
            (Some(left), Some(right)) => operator.holds(left, right),
            _ => false,
        }
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
            (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            _ => None,
        };
        let Some(order) = order else { return false };
        match self {
            Self::Equal => order == Ordering::Equal,
            Self::NotEqual => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
        }
    }
}

/// A value as a path prints it: texts bare, lists and objects as JSON.
pub fn print(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".into(),
        Value::Array(_) | Value::Object(_) => go::json(value),
        scalar => go::print(scalar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn find(path: &str) -> Vec<Value> {
        let document = json!({
            "spec": {"l": [{"n": "one", "w": 1}, {"n": "two", "w": 2}, {"n": "three"}], "a.b": "dotted"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "False"}]},
        });
        JsonPath::parse(path).unwrap().find(&document).into_iter().cloned().collect()
    }

    #[test]
    fn members_items_and_slices_are_found() {
        assert_eq!(find(".spec.l[0].n"), [json!("one")]);
        assert_eq!(find(".spec.l[-1].n"), [json!("three")]);
        assert_eq!(find(".spec.l[0:2].n"), [json!("one"), json!("two")]);
        assert_eq!(find(".spec.l[::2].n"), [json!("one"), json!("three")]);
        assert_eq!(find(".spec.l[0,2].n"), [json!("one"), json!("three")]);
        assert_eq!(find(".spec.l[*].w"), [json!(1), json!(2)]);
        assert_eq!(find("['spec'].l[1]['n']"), [json!("two")]);
        assert_eq!(find(r".spec.a\.b"), [json!("dotted")]);
        assert_eq!(find("$..status").len(), 3);
    }

    #[test]
    fn what_is_not_there_is_left_out() {
        for path in [".none", ".spec.l[7].n", ".spec.l.n", ".spec[0]", ".status.conditions[?(@.type==\"No\")].status"] {
            assert!(find(path).is_empty(), "{path}");
        }
    }

    #[test]
    fn filters_compare_texts_numbers_and_presence() {
        assert_eq!(find(r#".status.conditions[?(@.type=="Ready")].status"#), [json!("True")]);
        assert_eq!(find(".status.conditions[?(@.type!='Ready')].status"), [json!("False")]);
        assert_eq!(find(".spec.l[?(@.w>1)].n"), [json!("two")]);
        assert_eq!(find(".spec.l[?(@.w<=1)].n"), [json!("one")]);
        assert_eq!(find(".spec.l[?(@.w)].n"), [json!("one"), json!("two")]);
    }

    #[test]
    fn values_print_bare_or_as_json() {
        assert_eq!(print(&json!("a b")), "a b");
        assert_eq!(print(&json!(3)), "3");
        assert_eq!(print(&json!({"a": [1]})), r#"{"a":[1]}"#);
    }
}
