//! How Go holds a quantity in memory, as far as a dump of it shows. Pure.

/// Powers of ten and of two behind each suffix.
const SUFFIXES: [(&str, Scale); 20] = [
    ("Ki", Scale::Binary(10)),
    ("Mi", Scale::Binary(20)),
    ("Gi", Scale::Binary(30)),
    ("Ti", Scale::Binary(40)),
    ("Pi", Scale::Binary(50)),
    ("Ei", Scale::Binary(60)),
    ("n", Scale::Decimal(-9)),
    ("u", Scale::Decimal(-6)),
    ("m", Scale::Decimal(-3)),
    ("k", Scale::Decimal(3)),
    ("M", Scale::Decimal(6)),
    ("G", Scale::Decimal(9)),
    ("T", Scale::Decimal(12)),
    ("P", Scale::Decimal(15)),
    ("E", Scale::Decimal(18)),
    ("e3", Scale::Exponent(3)),
    ("e6", Scale::Exponent(6)),
    ("e9", Scale::Exponent(9)),
    ("e12", Scale::Exponent(12)),
    ("", Scale::Decimal(0)),
];

#[derive(Clone, Copy)]
enum Scale {
    Binary(u32),
    Decimal(i32),
    Exponent(i32),
}

/// Digits beyond which Go leaves 64-bit integers.
const DIGITS: usize = 18;
const BINARY_DIGITS: i64 = 15;

/// Writes the Go value of a canonical quantity: of one that the server has read and written once.
pub(super) fn write(text: &mut String, quantity: &str) {
    let (number, scale) = split(quantity);
    let digits = number.trim_start_matches(['-', '+']);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let format = match scale {
        Scale::Binary(_) => "BinarySI",
        Scale::Decimal(_) => "DecimalSI",
        Scale::Exponent(_) => "DecimalExponent",
    };
    let value: i128 = format!("{whole}{fraction}").parse().unwrap_or(0);
    let value = if number.starts_with('-') { -value } else { value };
    let fits = match scale {
        Scale::Binary(power) => {
            let digits = i64::try_from(whole.len()).unwrap_or(i64::MAX);
            fraction.is_empty() && BINARY_DIGITS - digits - i64::from(power) * 3 / 10 > 0
        }
        Scale::Decimal(_) | Scale::Exponent(_) => whole.len() + fraction.len() <= DIGITS,
    };
    let (value, exponent) = match scale {
        Scale::Binary(power) => (value << power, 0),
        Scale::Decimal(power) | Scale::Exponent(power) => (value, power - i32::try_from(fraction.len()).unwrap_or(0)),
    };
    if quantity.is_empty() {
        text.push_str(&amount(0, 0, "<nil>", "", ""));
    } else if fits {
        text.push_str(&amount(value, exponent, "<nil>", quantity, format));
    } else {
        let (negative, words) = (value < 0, value.unsigned_abs());
        let big = format!("{{unscaled:(big.Int){{neg:(bool){negative} abs:(big.nat)[{words}]}} scale:(inf.Scale){}}}", -exponent);
        text.push_str(&amount(0, 0, &big, "", format));
    }
}

fn amount(value: i128, scale: i32, big: &str, cached: &str, format: &str) -> String {
    format!(
        "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
         d:(resource.infDecAmount){{Dec:(*inf.Dec){big}}} s:(string){cached} Format:(resource.Format){format}}}"
    )
}

fn split(quantity: &str) -> (&str, Scale) {
    let end = quantity.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+')).unwrap_or(quantity.len());
    let (number, suffix) = quantity.split_at(end);
    let known = SUFFIXES.iter().find(|(name, _)| *name == suffix);
    (number, known.map_or(Scale::Decimal(0), |(_, scale)| *scale))
}

#[cfg(test)]
mod tests {
    use super::write;

    fn written(quantity: &str) -> String {
        let mut text = String::new();
        write(&mut text, quantity);
        text
    }

    fn small(value: i64, scale: i32, quantity: &str, format: &str) -> String {
        format!(
            "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
             d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){quantity} Format:(resource.Format){format}}}"
        )
    }

    #[test]
    fn keeps_decimal_scales_and_multiplies_binary_ones() {
        assert_eq!(written("250m"), small(250, -3, "250m", "DecimalSI"));
        assert_eq!(written("2"), small(2, 0, "2", "DecimalSI"));
        assert_eq!(written("128Mi"), small(134_217_728, 0, "128Mi", "BinarySI"));
    }

    #[test]
    fn what_is_too_precise_for_64_bits_is_a_big_number() {
        assert!(written("100Ti").contains("abs:(big.nat)[109951162777600]} scale:(inf.Scale)0}"));
    }
}
