//! CBOR (RFC 8949): objects in JSON to data items and back. Upstream: `k8s.io/apimachinery/pkg/runtime/serializer/cbor`.
//!
//! What is written begins with the tag of self-described CBOR and is deterministic (RFC 8949, 4.2.1). As upstream, texts are byte strings,
//! and what Go holds as bytes is a byte string in tag 22, which says that JSON has it in base64.

mod decode;
mod encode;
mod float;

#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::{encode, event};

/// The head of tag 55799, which says that CBOR follows.
const MAGIC: &[u8] = &[0xd9, 0xd9, 0xf7];

/// "Expected later encoding": base64url, base64, base16.
const BASE64URL: u64 = 21;
const BASE64: u64 = 22;
const BASE16: u64 = 23;

/// Whether the bytes are self-described CBOR, as all that kube-apiserver stores in CBOR is.
pub fn is_sealed(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Bytes that are no CBOR, or CBOR that has no place in an object; worded as upstream's library words it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There are no bytes.
    #[error("EOF")]
    Empty,
    /// They end within an item.
    #[error("unexpected EOF")]
    Truncated,
    /// Something follows the item.
    #[error("cbor: {count} bytes of extraneous data starting at index {at}")]
    Extraneous {
        /// How much.
        count: usize,
        /// Where.
        at: usize,
    },
    /// A head that the standard reserves.
    #[error("cbor: invalid additional information {info} for type {kind}")]
    Head {
        /// The low five bits.
        info: u8,
        /// What the high three bits say it is.
        kind: &'static str,
    },
    /// The end of an item whose beginning there was not.
    #[error("cbor: unexpected \"break\" code")]
    Break,
    /// A piece of a text in pieces that is none.
    #[error("cbor: wrong element type {found} for indefinite-length {kind}")]
    Piece {
        /// What it is.
        found: &'static str,
        /// What it is part of.
        kind: &'static str,
    },
    /// Items within items beyond any sense.
    #[error("cbor: exceeded max nested level {0}")]
    Depth(usize),
    /// A list that is too long.
    #[error("cbor: exceeded max number of elements {0} for CBOR array")]
    Elements(usize),
    /// A map that is too long.
    #[error("cbor: exceeded max number of key-value pairs {0} for CBOR map")]
    Pairs(usize),
    /// A map has a key twice.
    #[error("cbor: found duplicate map key {key:?} at map element index {at}")]
    Duplicate {
        /// The key.
        key: String,
        /// The second place it is at.
        at: usize,
    },
    /// A key that is no text.
    #[error("cbor: cannot unmarshal {0} into Go value of type string")]
    Key(&'static str),
    /// A text is not UTF-8.
    #[error("cbor: invalid UTF-8 string")]
    Text,
    /// A whole number of more than 64 bits, the sign among them.
    #[error("cbor: cannot unmarshal {0} into Go value of type int64 (overflows Go's int64)")]
    Overflow(&'static str),
    /// A number without a value.
    #[error("cbor: floating-point {0} is not accepted")]
    NotFinite(&'static str),
    /// Neither false nor true nor null.
    #[error("cbor: simple value {0} is not recognized")]
    Simple(u8),
    /// A tag around what it does not go with.
    #[error("cbor: tag number {tag} must be followed by {wanted}, got {found}")]
    Tag {
        /// The tag.
        tag: u64,
        /// What it goes with.
        wanted: &'static str,
        /// What there is.
        found: &'static str,
    },
    /// Whole numbers of any size.
    #[error("cbor: bignum tags are not accepted")]
    Bignum,
    /// A time that is none.
    #[error("cbor: cannot set {0:?} for time.Time: not an RFC 3339 time")]
    Time(String),
}
