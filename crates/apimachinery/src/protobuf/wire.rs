//! The protobuf wire format: read from borrowed bytes, appended to a buffer.

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

    /// A whole number of 32 bits: Go drops what is above.
    pub(super) fn integer32(self, field: &str) -> Result<i32, Error> {
        Ok(self.integer(field)? as i32)
    }

    /// A floating-point number.
    pub(super) fn double(self, field: &str) -> Result<f64, Error> {
        if let Self::Fixed64(bits) = self { Ok(f64::from_bits(bits)) } else { Err(self.wrong(field)) }
    }

    fn wrong(self, field: &str) -> Error {
        Error::WireType { wire: self.kind(), field: field.to_owned() }
    }
}

/// The fields of a message, as (number, value) in order. Ends with the first error.
pub(super) fn fields(bytes: &[u8]) -> Fields<'_> {
    Fields { rest: bytes }
}

pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u64, Wire<'a>), Error> {
        let rest = &mut self.rest;
        let tag = varint(rest)?;
        let value = match tag & 7 {
            0 => Wire::Varint(varint(rest)?),
            1 => Wire::Fixed64(u64::from_le_bytes(array(rest)?)),
            2 => {
                let length = usize::try_from(varint(rest)?).map_err(|_| Error::Truncated)?;
                Wire::Bytes(take(rest, length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(array(rest)?)),
            other => return Err(Error::WireType { wire: other as u8, field: format!("number {}", tag >> 3) }),
        };
        Ok((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Wire<'a>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
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

/// Appends a varint.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field that holds a whole number.
pub(super) fn put_integer(out: &mut Vec<u8>, number: u32, value: i64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value.cast_unsigned());
}

/// Appends a field that holds a floating-point number.
pub(super) fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_varint(out, u64::from(number) << 3 | 1);
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

/// Appends a field that holds bytes or a text.
pub(super) fn put_bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends a field that holds a message, which `write` appends.
pub(super) fn put_message<E>(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    put_varint(out, u64::from(number) << 3 | 2);
    let at = out.len();
    // Most messages are shorter than 128 bytes; the length of others needs more room than one byte.
    out.push(0);
    write(out)?;
    let length = out.len() - at - 1;
    if length < 0x80 {
        out[at] = length as u8;
        return Ok(());
    }
    let mut prefix = Vec::with_capacity(5);
    put_varint(&mut prefix, length as u64);
    out.splice(at..=at, prefix);
    Ok(())
}
