//! Resource quantities: fixed-point numbers with a suffix, such as `500m` or `1Gi` (`k8s.io/apimachinery/pkg/api/resource`).

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const NANO: i128 = 1_000_000_000;
/// Largest amount of a quantity with a binary suffix.
const MAX_BINARY: i128 = i64::MAX as i128 * NANO;

/// How a quantity is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    #[default]
    DecimalSi,
}

/// A text that is no quantity; the messages are upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not a number with a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number part does not parse.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// No such suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// An amount with nano precision, and the way it was written.
///
/// Equality and order look at the amount only: `1000m` equals `1`. Finer digits than nano round away from zero. Amounts beyond 1.7·10²⁹
/// saturate.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

enum Scale {
    Ten(i32),
    Two(u32),
}

fn suffix(text: &str) -> Option<(Scale, Format)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == text) {
        return Some((Scale::Ten(*exponent), Format::DecimalSi));
    }
    if let Some((_, exponent)) = BINARY.iter().find(|(name, _)| *name == text) {
        return Some((Scale::Two(*exponent), Format::BinarySi));
    }
    let exponent = text.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Scale::Ten(exponent), Format::DecimalExponent))
}

impl Quantity {
    /// The amount zero.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// A whole number.
    pub fn new(value: i64, format: Format) -> Self {
        Self { nanos: i128::from(value) * NANO, format }
    }

    /// A number of thousandths.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self { nanos: i128::from(value) * (NANO / 1000), format }
    }

    /// Parses a quantity; surrounding space is an error.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            None => return Err(ParseError::Format),
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
        };
        let (whole, fraction, rest) = split_number(unsigned);
        if !suffix_shape(rest) {
            return Err(ParseError::Format);
        }
        let (scale, mut format) = suffix(rest).ok_or(ParseError::Suffix)?;
        let mut nanos = scaled(whole, fraction, &scale);
        if format == Format::BinarySi {
            nanos = nanos.min(MAX_BINARY);
            if nanos < NANO {
                format = Format::DecimalSi;
            }
        }
        Ok(Self { nanos: if negative { -nanos } else { nanos }, format })
    }

    /// How the quantity is written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The same amount, written another way.
    #[must_use]
    pub fn with_format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Whether the amount is zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        self.nanos.signum() as i32
    }

    /// The amount in whole units, rounded away from zero.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The amount in thousandths, rounded away from zero.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// The amount in units of 10^`scale`, rounded away from zero; saturates.
    pub fn scaled_value(&self, scale: i32) -> i64 {
        let unit = power(scale + 9);
        saturate(if unit <= 1 { self.nanos } else { divide_up(self.nanos, unit) })
    }

    /// The amount as a float.
    pub fn as_f64(&self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    /// The same with digits finer than 10^`scale` rounded away from zero (`RoundUp`); true if nothing was lost.
    pub fn round_up(&mut self, scale: i32) -> bool {
        let unit = power(scale + 9).max(1);
        let rounded = divide_up(self.nanos, unit).saturating_mul(unit);
        let exact = rounded == self.nanos;
        self.nanos = rounded;
        exact
    }

    fn decimal(&self) -> (i128, i32) {
        let (mut number, mut exponent) = (self.nanos, -9);
        while number != 0 && number % 1000 == 0 {
            number /= 1000;
            exponent += 3;
        }
        (number, exponent)
    }

    fn fits_binary(&self) -> bool {
        self.format == Format::BinarySi && self.nanos.abs() >= 1024 * NANO && self.nanos % NANO == 0
    }

    fn write_binary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut number, mut level) = (self.nanos / NANO, 0);
        while number % 1024 == 0 && level < BINARY.len() {
            number /= 1024;
            level += 1;
        }
        write!(f, "{number}{}", if level == 0 { "" } else { BINARY[level - 1].0 })
    }
}

fn split_number(text: &str) -> (&str, &str, &str) {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(digits(text));
    match rest.strip_prefix('.') {
        Some(rest) => {
            let (fraction, rest) = rest.split_at(digits(rest));
            (whole, fraction, rest)
        }
        None => (whole, "", rest),
    }
}

/// Whether a suffix has the right shape: letters, a sign, digits. Whether it exists is another question.
fn suffix_shape(text: &str) -> bool {
    let rest = text.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    rest.bytes().all(|c| c.is_ascii_digit())
}

fn power(exponent: i32) -> i128 {
    u32::try_from(exponent).ok().map_or(1, |exponent| 10i128.saturating_pow(exponent))
}

fn divide_up(number: i128, unit: i128) -> i128 {
    number / unit + if number % unit == 0 { 0 } else { number.signum() }
}

fn saturate(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}

/// The number `whole.fraction` in nanos, digits beyond nano rounded up.
fn scaled(whole: &str, fraction: &str, scale: &Scale) -> i128 {
    let (exponent, factor) = match scale {
        Scale::Ten(exponent) => (*exponent, 1),
        Scale::Two(bits) => (0, 1i128 << bits),
    };
    // Digits past 30 after the point cannot change more than whether something is left to round up.
    let kept = &fraction[..fraction.len().min(30 - whole.trim_start_matches('0').len().min(30))];
    let lost = fraction[kept.len()..].bytes().any(|c| c != b'0');
    let Some(number) = number(whole, kept) else {
        return i128::MAX;
    };
    let places = exponent.saturating_add(9).saturating_sub(kept.len() as i32);
    let Some(number) = number.checked_mul(factor) else {
        return wide(whole, kept, factor, places);
    };
    if places >= 0 {
        return number.saturating_mul(power(places));
    }
    let unit = power(places.saturating_neg());
    if unit == i128::MAX { i128::from(number != 0 || lost) } else { (number / unit) + i128::from(number % unit != 0 || lost) }
}

/// [`scaled`] for a product that needs more than 128 bits: the fraction's tail is given up, rounding up.
fn wide(whole: &str, fraction: &str, factor: i128, places: i32) -> i128 {
    let shorter = &fraction[..fraction.len().min(9)];
    let Some(number) = number(whole, shorter).and_then(|number| (number + 1).checked_mul(factor)) else {
        return i128::MAX;
    };
    let places = places + (fraction.len() - shorter.len()) as i32;
    if places >= 0 { number.saturating_mul(power(places)) } else { divide_up(number, power(-places)) }
}

fn number(whole: &str, fraction: &str) -> Option<i128> {
    whole.bytes().chain(fraction.bytes()).try_fold(0i128, |number, digit| number.checked_mul(10)?.checked_add(i128::from(digit - b'0')))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        if self.fits_binary() {
            return self.write_binary(f);
        }
        let (number, exponent) = self.decimal();
        let named = DECIMAL.iter().find(|(_, named)| *named == exponent).filter(|_| self.format != Format::DecimalExponent);
        match named {
            Some((suffix, _)) => write!(f, "{number}{suffix}"),
            None if exponent == 0 => write!(f, "{number}"),
            None => write!(f, "{number}e{exponent}"),
        }
    }
}

impl FromStr for Quantity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        // Adding to nothing takes over how the other was written.
        if self.nanos == 0 {
            self.format = other.format;
        }
        self.nanos = self.nanos.saturating_add(other.nanos);
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        if self.nanos == 0 {
            self.format = other.format;
        }
        self.nanos = self.nanos.saturating_sub(other.nanos);
    }
}

impl Add for Quantity {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(mut self, other: Self) -> Self {
        self -= other;
        self
    }
}

impl Neg for Quantity {
    type Output = Self;

    fn neg(self) -> Self {
        Self { nanos: self.nanos.saturating_neg(), ..self }
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::ZERO, Add::add)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// Takes texts and bare numbers, as upstream does.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => Self::parse(text.trim()).map_err(de::Error::custom),
            serde_json::Value::Number(number) => Self::parse(&number.to_string()).map_err(de::Error::custom),
            serde_json::Value::Null => Ok(Self::ZERO),
            _ => Err(de::Error::custom(ParseError::Format)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn canonical_form_has_no_fraction_and_the_largest_suffix() {
        let cases = [
            ("0", "0"),
            ("0.0", "0"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1000", "1k"),
            ("1e3", "1e3"),
            ("1E6", "1e6"),
            ("100e-3", "100e-3"),
            ("0.1n", "1n"),
            ("-1", "-1"),
            ("+5", "5"),
            ("1.0001", "1000100u"),
            ("0.5Mi", "512Ki"),
            ("0.1Ki", "102400m"),
            ("0.3Mi", "314572800m"),
            ("8Ei", "9223372036854775807"),
            ("1000E", "1e21"),
            ("100Ki", "100Ki"),
            ("12.", "12"),
            (".5", "500m"),
            ("1100m", "1100m"),
            ("2000m", "2"),
        ];
        for (text, canonical) in cases {
            assert_eq!(Quantity::parse(text).unwrap().to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        assert_eq!(Quantity::parse(""), Err(ParseError::Format));
        assert_eq!(Quantity::parse("1x"), Err(ParseError::Format));
        assert_eq!(Quantity::parse("1 "), Err(ParseError::Format));
        assert_eq!(Quantity::parse("1mm"), Err(ParseError::Suffix));
        assert_eq!(Quantity::parse("1ki"), Err(ParseError::Suffix));
    }

    #[test]
    fn values_round_away_from_zero() {
        let quantity = |text| Quantity::parse(text).unwrap();
        assert_eq!((quantity("1500m").value(), quantity("-1500m").value(), quantity("0.5m").milli_value()), (2, -2, 1));
        assert_eq!(quantity("1Gi").value(), 1 << 30);
        let mut fine = quantity("1.0001");
        assert!(!fine.round_up(-3));
        assert_eq!(fine.to_string(), "1001m");
    }

    #[test]
    fn sums_keep_the_way_they_are_written() {
        let sum: Quantity = ["512Mi", "512Mi"].iter().map(|text| Quantity::parse(text).unwrap()).sum();
        assert_eq!(sum.to_string(), "1Gi");
        let cpu = Quantity::parse("1").unwrap() - Quantity::parse("250m").unwrap();
        assert_eq!(cpu.to_string(), "750m");
    }

    #[test]
    fn numbers_deserialise_like_texts() {
        assert_eq!(serde_json::from_str::<Quantity>("0.5").unwrap().to_string(), "500m");
        assert_eq!(serde_json::from_str::<Quantity>("\"2\"").unwrap().value(), 2);
    }

    proptest! {
        #[test]
        fn canonical_form_is_stable_and_keeps_the_amount(number in -1_000_000_000i64..1_000_000_000, places in 0u32..6, suffix in 0usize..16) {
            let suffix = ["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "e-3", "E2", "e0"][suffix];
            let unit = 10i64.pow(places);
            let sign = if number < 0 { "-" } else { "" };
            let text = format!("{sign}{}.{:0width$}{suffix}", number.abs() / unit, number.abs() % unit, width = places as usize);
            let first = Quantity::parse(&text).unwrap();
            let again = Quantity::parse(&first.to_string()).unwrap();
            prop_assert_eq!(first, again);
            prop_assert_eq!(first.to_string(), again.to_string());
        }

        #[test]
        fn order_is_that_of_the_numbers(a in any::<i32>(), b in any::<i32>()) {
            let quantity = |number: i32| Quantity::parse(&format!("{number}m")).unwrap();
            prop_assert_eq!(quantity(a).cmp(&quantity(b)), a.cmp(&b));
        }
    }
}
