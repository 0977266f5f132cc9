//! The grammar of label selectors.

use std::collections::BTreeSet;

use super::{Operator, ParseError, Requirement, check_key};
use crate::field::{self, Path};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    End,
    Identifier,
    Close,
    Open,
    Comma,
    Not,
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    Unknown,
}

fn symbol(text: &str) -> Option<Token> {
    Some(match text {
        ")" => Token::Close,
        "," => Token::Comma,
        "!" => Token::Not,
        "==" => Token::DoubleEquals,
        "=" => Token::Equals,
        ">" => Token::Greater,
        "<" => Token::Less,
        "!=" => Token::NotEquals,
        "(" => Token::Open,
        _ => return None,
    })
}

fn is_special(c: u8) -> bool {
    b"=!(),><".contains(&c)
}

fn is_space(c: u8) -> bool {
    b" \t\r\n".contains(&c)
}

/// Splits the text; symbols are taken as long as they still name a token.
fn scan(text: &str) -> Vec<(Token, &str)> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        if is_space(bytes[at]) {
            at += 1;
        } else if is_special(bytes[at]) {
            at += 1;
            while at < bytes.len() && is_special(bytes[at]) && symbol(&text[start..=at]).is_some() {
                at += 1;
            }
            let literal = &text[start..at];
            tokens.push((symbol(literal).unwrap_or(Token::Unknown), literal));
        } else {
            while at < bytes.len() && !is_special(bytes[at]) && !is_space(bytes[at]) {
                at += 1;
            }
            let literal = &text[start..at];
            tokens.push((word(literal), literal));
        }
    }
    tokens
}

fn word(literal: &str) -> Token {
    match literal {
        "in" => Token::In,
        "notin" => Token::NotIn,
        _ => Token::Identifier,
    }
}

struct Parser<'a> {
    tokens: Vec<(Token, &'a str)>,
    at: usize,
}

pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, ParseError> {
    Parser { tokens: scan(text), at: 0 }.requirements().map_err(ParseError)
}

type Parsed<T> = Result<T, String>;

impl<'a> Parser<'a> {
    /// The next token where keys and values stand, so that `in` and `notin` are plain words.
    fn peek(&self) -> (Token, &'a str) {
        match self.tokens.get(self.at) {
            Some((Token::In | Token::NotIn, literal)) => (Token::Identifier, literal),
            Some(token) => *token,
            None => (Token::End, ""),
        }
    }

    fn next(&mut self) -> (Token, &'a str) {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn next_operator(&mut self) -> (Token, &'a str) {
        let token = self.tokens.get(self.at).copied().unwrap_or((Token::End, ""));
        self.at += 1;
        token
    }

    fn requirements(&mut self) -> Parsed<Vec<Requirement>> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (Token::Identifier | Token::Not, _) => {
                    let requirement = self.requirement().map_err(|error| format!("unable to parse requirement: {error}"))?;
                    requirements.push(requirement);
                    if !self.more()? {
                        return Ok(requirements);
                    }
                }
                (Token::End, _) => return Ok(requirements),
                (_, literal) => {
                    return Err(format!("found '{literal}', expected: !, identifier, or 'end of string'"));
                }
            }
        }
    }

    fn more(&mut self) -> Parsed<bool> {
        match self.next() {
            (Token::End, _) => Ok(false),
            (Token::Comma, _) => match self.peek() {
                (Token::Identifier | Token::Not, _) => Ok(true),
                (_, literal) => Err(format!("found '{literal}', expected: identifier after ','")),
            },
            (_, literal) => Err(format!("found '{literal}', expected: ',' or 'end of string'")),
        }
    }

    fn requirement(&mut self) -> Parsed<Requirement> {
        let (mut token, mut key) = self.next();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.next();
        }
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let mut errors = Vec::new();
        check_key(key, &Path::root(), &mut errors);
        if !errors.is_empty() {
            return Err(field::aggregate(&errors));
        }
        if negated {
            return build(key, Operator::DoesNotExist, BTreeSet::new());
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return build(key, Operator::Exists, BTreeSet::new());
        }
        let operator = self.operator()?;
        let values = if matches!(operator, Operator::In | Operator::NotIn) { self.values()? } else { self.exact_value()? };
        build(key, operator, values)
    }

    fn operator(&mut self) -> Parsed<Operator> {
        Ok(match self.next_operator() {
            (Token::In, _) => Operator::In,
            (Token::NotIn, _) => Operator::NotIn,
            (Token::Equals, _) => Operator::Equals,
            (Token::DoubleEquals, _) => Operator::DoubleEquals,
            (Token::NotEquals, _) => Operator::NotEquals,
            (Token::Greater, _) => Operator::GreaterThan,
            (Token::Less, _) => Operator::LessThan,
            (_, literal) => {
                return Err(format!("found '{literal}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        })
    }

    fn values(&mut self) -> Parsed<BTreeSet<String>> {
        let (token, literal) = self.next();
        if token != Token::Open {
            return Err(format!("found '{literal}' expected: '('"));
        }
        match self.peek() {
            (Token::Identifier | Token::Comma, _) => {
                let values = self.identifiers()?;
                match self.next() {
                    (Token::Close, _) => Ok(values),
                    (_, literal) => Err(format!("found '{literal}', expected: ')'")),
                }
            }
            // `in ()` names the empty value, as a 1.36 server answers it.
            (Token::Close, _) => {
                self.next();
                Ok(BTreeSet::from([String::new()]))
            }
            (_, literal) => Err(format!("found '{literal}', expected: ',', ')' or identifier")),
        }
    }

    /// Values between parentheses, where an empty place counts as the empty value.
    fn identifiers(&mut self) -> Parsed<BTreeSet<String>> {
        let mut values = BTreeSet::new();
        loop {
            match self.next() {
                (Token::Identifier, literal) => {
                    values.insert(literal.to_owned());
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(values),
                        (_, literal) => {
                            return Err(format!("found '{literal}', expected: ',' or ')'"));
                        }
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek().0 {
                        Token::Close => {
                            values.insert(String::new());
                            return Ok(values);
                        }
                        Token::Comma => {
                            self.next();
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                (_, literal) => {
                    return Err(format!("found '{literal}', expected: ',', or identifier"));
                }
            }
        }
    }

    fn exact_value(&mut self) -> Parsed<BTreeSet<String>> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.next() {
            (Token::Identifier, literal) => Ok(BTreeSet::from([literal.to_owned()])),
            (_, literal) => Err(format!("found '{literal}', expected: identifier")),
        }
    }
}

fn build(key: &str, operator: Operator, values: BTreeSet<String>) -> Parsed<Requirement> {
    Requirement::new(key, operator, values).map_err(|error| error.0)
}
