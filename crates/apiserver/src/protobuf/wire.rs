//! The protobuf wire format, borrowed from the bytes.

use super::Error;

/// One field's value as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl<'a> Wire<'a> {
    fn kind(self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32(_) => 5,
        }
    }

    /// The bytes of a length-delimited field.
    pub(super) fn bytes(self, field: &str) -> Result<&'a [u8], Error> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(self.wrong(field)) }
    }

    /// A length-delimited text.
    pub(super) fn text(self, field: &str) -> Result<&'a str, Error> {
        std::str::from_utf8(self.bytes(field)?).map_err(|_| Error::Text)
    }

    /// A whole number; negative ones are ten bytes long on the wire.
    pub(super) fn integer(self, field: &str) -> Result<i64, Error> {
        if let Self::Varint(value) = self { Ok(value.cast_signed()) } else { Err(self.wrong(field)) }
    }

    /// A floating-point number.
    pub(super) fn double(self, field: &str) -> Result<f64, Error> {
        if let Self::Fixed64(bits) = self { Ok(f64::from_bits(bits)) } else { Err(self.wrong(field)) }
    }

    fn wrong(self, field: &str) -> Error {
        Error::WireType { wire: self.kind(), field: field.to_owned() }
    }
}

/// Splits a message into (field number, value), in order.
pub(super) fn fields(mut rest: &[u8]) -> Result<Vec<(u64, Wire<'_>)>, Error> {
    let mut out = Vec::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let value = match tag & 7 {
            0 => Wire::Varint(varint(&mut rest)?),
            1 => Wire::Fixed64(u64::from_le_bytes(array(&mut rest)?)),
            2 => {
                let length = usize::try_from(varint(&mut rest)?).map_err(|_| Error::Truncated)?;
                Wire::Bytes(take(&mut rest, length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(array(&mut rest)?)),
            other => return Err(Error::WireType { wire: other as u8, field: format!("number {}", tag >> 3) }),
        };
        out.push((tag >> 3, value));
    }
    Ok(out)
}

/// Reads one varint and moves on.
pub(super) fn varint(rest: &mut &[u8]) -> Result<u64, Error> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let [byte] = array(rest)?;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or_default();
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Error::Truncated)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Error> {
    let (head, tail) = rest.split_at_checked(length).ok_or(Error::Truncated)?;
    *rest = tail;
    Ok(head)
}

fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Error> {
    take(rest, N)?.try_into().map_err(|_| Error::Truncated)
}
