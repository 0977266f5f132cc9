//! What holds for every selector.

use proptest::prelude::*;

use super::{field, label};

fn keys() -> impl Strategy<Value = String> {
    let name = "[a-zA-Z0-9]([a-z0-9._-]{0,6}[a-z0-9])?";
    let key = prop_oneof![name.prop_map(String::from), ("[a-z]{1,5}\\.io", name).prop_map(|(domain, name)| format!("{domain}/{name}"))];
    // These are operators where a key may stand.
    key.prop_filter("an operator", |key| !matches!(key.as_str(), "in" | "notin"))
}

fn requirements() -> impl Strategy<Value = label::Requirement> {
    use label::Operator::*;
    let text = "([A-Za-z0-9]([A-Za-z0-9_.-]{0,6}[A-Za-z0-9])?)?";
    let one = (prop::sample::select(vec![Equals, DoubleEquals, NotEquals]), text).prop_map(|(operator, value)| (operator, vec![value]));
    let set = (prop::sample::select(vec![In, NotIn]), prop::collection::vec(text, 1..4));
    let none = prop::sample::select(vec![Exists, DoesNotExist]).prop_map(|operator| (operator, Vec::new()));
    let number = (prop::sample::select(vec![GreaterThan, LessThan]), 0..i64::MAX).prop_map(|(operator, n)| (operator, vec![n.to_string()]));
    (keys(), prop_oneof![one, set, none, number])
        .prop_map(|(key, (operator, values))| label::Requirement::new(&key, operator, values).unwrap())
}

fn terms() -> impl Strategy<Value = field::Requirement> {
    ("[a-z]{1,4}(\\.[a-zA-Z]{1,4}){0,2}", any::<bool>(), "\\PC{0,8}").prop_map(|(field, equal, value)| field::Requirement {
        field,
        equal,
        value,
    })
}

proptest! {
    #[test]
    fn a_printed_label_selector_parses_to_itself(requirements in prop::collection::vec(requirements(), 0..5)) {
        let selector = label::Selector::new(requirements);
        prop_assert_eq!(label::Selector::parse(&selector.to_string()).unwrap(), selector);
    }

    #[test]
    fn what_parses_as_a_label_selector_prints_as_an_equal_one(text in "[ab/=!,()<>. ]{0,14}|(a|in|notin|b|,|\\(|\\)|=|!| ){0,10}|\\PC{0,12}") {
        if let Ok(selector) = label::Selector::parse(&text) {
            prop_assert_eq!(label::Selector::parse(&selector.to_string()).unwrap(), selector);
        }
    }

    #[test]
    fn a_label_selector_selects_what_each_of_its_requirements_does(requirements in prop::collection::vec(requirements(), 0..4), value in "[a0]?") {
        let labels = [("a", value.as_str()), ("b", "5")];
        let each = requirements.iter().all(|requirement| requirement.matches(&labels));
        prop_assert_eq!(label::Selector::new(requirements).matches(&labels), each);
    }

    #[test]
    fn a_printed_field_selector_parses_to_itself(terms in prop::collection::vec(terms(), 0..5)) {
        let selector = field::Selector::new(terms.clone());
        let parsed = field::Selector::parse(&selector.to_string()).unwrap();
        prop_assert_eq!(parsed.requirements().len(), terms.len());
        prop_assert!(terms.iter().all(|term| parsed.requirements().contains(term)), "{}", selector);
    }

    #[test]
    fn any_text_is_a_field_selector_or_refused(text in "[ab=!,\\\\. ]{0,14}|\\PC{0,12}") {
        if let Ok(selector) = field::Selector::parse(&text) {
            let again = field::Selector::parse(&selector.to_string()).unwrap();
            prop_assert_eq!(again.requirements().len(), selector.requirements().len());
        }
    }

    #[test]
    fn any_json_is_a_label_selector_or_refused(value in crate::arbitrary::json()) {
        let _ = label::Selector::from_label_selector(&value);
    }
}
