//! Floating-point numbers of 16 bits, which the standard library has not.

/// The number that 16 bits stand for.
pub(super) fn from_half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let mantissa = f64::from(bits & 0x3ff);
    match (bits >> 10) & 0x1f {
        0 => sign * mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        exponent => sign * (1.0 + mantissa / 1024.0) * 2f64.powi(i32::from(exponent) - 15),
    }
}

/// The 16 bits that stand for exactly this number, if there are any.
pub(super) fn to_half(value: f32) -> Option<u16> {
    let bits = value.to_bits();
    let sign = u16::try_from(bits >> 31).ok()? << 15;
    let mantissa = bits & 0x007f_ffff;
    if value == 0.0 {
        return Some(sign);
    }
    let exponent = i32::try_from((bits >> 23) & 0xff).ok()? - 127;
    let (high, kept) = match exponent {
        -14..=15 => (u16::try_from(exponent + 15).ok()? << 10, exact(mantissa, 13)?),
        // Numbers below the smallest normal one: the leading bit is written out.
        -24..=-15 => (0, exact(mantissa | 0x0080_0000, u32::try_from(-1 - exponent).ok()?)?),
        _ => return None,
    };
    Some(sign | high | u16::try_from(kept).ok()?)
}

/// Drops bits that are all zero.
fn exact(bits: u32, drop: u32) -> Option<u32> {
    (bits.trailing_zeros() >= drop).then(|| bits >> drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_16_bits_survives_the_way() {
        for bits in 0..=u16::MAX {
            let value = from_half(bits);
            let back = to_half(value as f32);
            assert_eq!(back, value.is_finite().then_some(bits), "{bits:#x} {value}");
        }
    }

    #[test]
    fn what_needs_more_bits_is_told() {
        for value in [1.0 + f32::EPSILON, 65536.0, 2f32.powi(-25), f32::MIN_POSITIVE, 0.1] {
            assert_eq!(to_half(value), None, "{value}");
        }
    }
}
