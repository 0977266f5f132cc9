//! Data items into documents. Nesting and lengths are bounded as upstream bounds them; nothing is allocated on a mere promise of bytes.

use std::borrow::Cow;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};

use super::{BASE16, BASE64, BASE64URL, Error, float::from_half};
use crate::{raw::Node, time};

/// Deepest nesting read; tags count too.
const MAX_DEPTH: usize = 64;
/// The most items of a list and pairs of a map.
const MAX_ITEMS: usize = 1024;

/// What the high three bits of a head say.
const TYPES: [&str; 8] = ["positive integer", "negative integer", "byte string", "UTF-8 text string", "array", "map", "tag", "primitives"];
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const BREAK: u8 = 0xff;

/// Reads one data item. Maps have each key once, texts are UTF-8; bytes that are to be told in base64 are.
pub fn decode(bytes: &[u8]) -> Result<Node<'_>, Error> {
    if bytes.is_empty() {
        return Err(Error::Empty);
    }
    let mut reader = Reader { bytes, at: 0, depth: 0 };
    let node = reader.item()?;
    match bytes.len() - reader.at {
        0 => Ok(node),
        count => Err(Error::Extraneous { count, at: reader.at }),
    }
}

/// The beginning of an item.
#[derive(Clone, Copy)]
struct Head {
    major: u8,
    info: u8,
    /// A number, a length, a tag, or the bits of a float; `None`: a length that is not told, a break ends the item.
    number: Option<u64>,
}

impl Head {
    fn kind(self) -> &'static str {
        TYPES[usize::from(self.major)]
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let end = self.at.checked_add(count).ok_or(Error::Truncated)?;
        let taken = self.bytes.get(self.at..end).ok_or(Error::Truncated)?;
        self.at = end;
        Ok(taken)
    }

    fn head(&mut self) -> Result<Head, Error> {
        let first = self.take(1)?[0];
        let (major, info) = (first >> 5, first & 0x1f);
        let number = match info {
            0..24 => Some(info.into()),
            24..28 => Some(self.take(1 << (info - 24))?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))),
            31 if matches!(major, 2..=5) => None,
            31 if first == BREAK => return Err(Error::Break),
            _ => return Err(Error::Head { info, kind: TYPES[usize::from(major)] }),
        };
        Ok(Head { major, info, number })
    }

    fn item(&mut self) -> Result<Node<'a>, Error> {
        let head = self.head()?;
        match (head.major, head.number) {
            (0 | 1, Some(number)) => whole(head, number),
            // Go's strings are bytes; what is stored is JSON, which has room for texts only.
            (BYTES, _) => Ok(Node::String(lossy(self.string(head)?))),
            (TEXT, _) => Ok(Node::String(utf8(self.string(head)?)?)),
            (4, length) => self.nested(|reader| reader.array(length)),
            (5, length) => self.nested(|reader| reader.map(length)),
            (6, Some(tag)) => self.nested(|reader| reader.tagged(tag)),
            (_, number) => simple(head, number.unwrap_or_default()),
        }
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth == MAX_DEPTH {
            return Err(Error::Depth(MAX_DEPTH));
        }
        self.depth += 1;
        let outcome = read(self);
        self.depth -= 1;
        outcome
    }

    /// The bytes of a string, in one piece or in several.
    fn string(&mut self, head: Head) -> Result<Cow<'a, [u8]>, Error> {
        if let Some(length) = head.number {
            return Ok(Cow::Borrowed(self.piece(length)?));
        }
        let mut whole = Vec::new();
        while !self.ends()? {
            let piece = self.head()?;
            match piece.number {
                Some(length) if piece.major == head.major => whole.extend_from_slice(self.piece(length)?),
                _ => return Err(Error::Piece { found: piece.kind(), kind: head.kind() }),
            }
        }
        Ok(Cow::Owned(whole))
    }

    fn piece(&mut self, length: u64) -> Result<&'a [u8], Error> {
        self.take(usize::try_from(length).map_err(|_| Error::Truncated)?)
    }

    /// Whether a break comes next; it is taken.
    fn ends(&mut self) -> Result<bool, Error> {
        let ends = *self.bytes.get(self.at).ok_or(Error::Truncated)? == BREAK;
        self.at += usize::from(ends);
        Ok(ends)
    }

    /// Whether there is another item after so many; errors where there are too many.
    fn more(&mut self, length: Option<u64>, count: usize, too_many: Error) -> Result<bool, Error> {
        let more = match length {
            Some(length) if length > MAX_ITEMS as u64 => return Err(too_many),
            Some(length) => (count as u64) < length,
            None => !self.ends()?,
        };
        if more && count == MAX_ITEMS { Err(too_many) } else { Ok(more) }
    }

    fn array(&mut self, length: Option<u64>) -> Result<Node<'a>, Error> {
        let mut items = Vec::new();
        while self.more(length, items.len(), Error::Elements(MAX_ITEMS))? {
            items.push(self.item()?);
        }
        Ok(Node::Array(items))
    }

    fn map(&mut self, length: Option<u64>) -> Result<Node<'a>, Error> {
        let mut members = Vec::new();
        while self.more(length, members.len(), Error::Pairs(MAX_ITEMS))? {
            let head = self.head()?;
            let key = match head.major {
                BYTES => lossy(self.string(head)?),
                TEXT => utf8(self.string(head)?)?,
                _ => return Err(Error::Key(head.kind())),
            };
            members.push((key, self.item()?));
        }
        match duplicate(&members) {
            Some(at) => Err(Error::Duplicate { key: members.swap_remove(at).0.into_owned(), at }),
            None => Ok(Node::Object(members)),
        }
    }

    /// Tags without a meaning here leave their content as it is.
    fn tagged(&mut self, tag: u64) -> Result<Node<'a>, Error> {
        match tag {
            0 | 1 => self.time(tag),
            2 | 3 => Err(Error::Bignum),
            BASE64URL | BASE64 | BASE16 => {
                let head = self.head()?;
                if head.major != BYTES {
                    return Err(Error::Tag { tag, wanted: "byte string", found: head.kind() });
                }
                let bytes = self.string(head)?;
                Ok(Node::String(Cow::Owned(match tag {
                    BASE64URL => URL_SAFE.encode(bytes),
                    BASE64 => STANDARD.encode(bytes),
                    _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                })))
            }
            _ => self.item(),
        }
    }

    /// A time as text (tag 0) or as seconds since 1970 (tag 1).
    fn time(&mut self, tag: u64) -> Result<Node<'a>, Error> {
        let head = self.peek()?;
        let node = self.item()?;
        match (tag, node) {
            (0, Node::String(text)) if time::parse_rfc3339(&text).is_some() => Ok(Node::String(text)),
            (0, Node::String(text)) => Err(Error::Time(text.into_owned())),
            (1, Node::Number(text)) => {
                let nanoseconds = text.parse::<f64>().unwrap_or_default() * 1e9;
                let instant = jiff::Timestamp::from_nanosecond(nanoseconds as i128);
                instant.map(|instant| Node::String(instant.to_string().into())).map_err(|_| Error::Time(text.into_owned()))
            }
            (0, _) => Err(Error::Tag { tag, wanted: "text string", found: head.kind() }),
            _ => Err(Error::Tag { tag, wanted: "integer or floating-point number", found: head.kind() }),
        }
    }

    fn peek(&mut self) -> Result<Head, Error> {
        let at = self.at;
        let head = self.head();
        self.at = at;
        head
    }
}

fn whole<'a>(head: Head, number: u64) -> Result<Node<'a>, Error> {
    let number = i64::try_from(number).map_err(|_| Error::Overflow(head.kind()))?;
    let number = if head.major == 0 { number } else { -1 - number };
    Ok(Node::Number(Cow::Owned(number.to_string())))
}

fn simple<'a>(head: Head, bits: u64) -> Result<Node<'a>, Error> {
    let float = match head.info {
        20 | 21 => return Ok(Node::Bool(head.info == 21)),
        22 => return Ok(Node::Null),
        25 => from_half(bits as u16),
        26 => f32::from_bits(bits as u32).into(),
        27 => f64::from_bits(bits),
        _ => return Err(Error::Simple(bits as u8)),
    };
    match serde_json::Number::from_f64(float) {
        Some(number) => Ok(Node::Number(Cow::Owned(number.to_string()))),
        None if float.is_nan() => Err(Error::NotFinite("NaN")),
        None => Err(Error::NotFinite("infinity")),
    }
}

fn utf8(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, str>, Error> {
    match bytes {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| Error::Text),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Error::Text),
    }
}

fn lossy(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Where a key comes for the second time, first of all such places.
fn duplicate(members: &[(Cow<'_, str>, Node<'_>)]) -> Option<usize> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by(|a, b| members[*a].0.cmp(&members[*b].0));
    order.windows(2).filter(|pair| members[pair[0]].0 == members[pair[1]].0).map(|pair| pair[1]).min()
}
