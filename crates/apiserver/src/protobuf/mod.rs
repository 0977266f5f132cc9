//! The protobuf form of built-in kinds, which Go clients send: read into the JSON the rest of the server works on.
//!
//! Names and types are the schema's; `fields.txt` adds the field numbers.

mod envelope;
mod message;
mod table;
mod wire;

pub(crate) use envelope::open;
pub(crate) use message::decode;

/// A body that is no protobuf of the kind expected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// It does not begin with the four bytes every such body begins with.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// It ends within a field.
    #[error("unexpected EOF")]
    Truncated,
    /// A field of another type than its number says.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WireType {
        /// What was there.
        wire: u8,
        /// Where.
        field: String,
    },
    /// Embedded JSON is none.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// A text is not UTF-8.
    #[error("proto: invalid UTF-8")]
    Text,
    /// The kind has no protobuf form.
    #[error("object *{0} does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message")]
    NoForm(String),
    /// Messages within messages beyond any sense.
    #[error("proto: message nested too deeply")]
    Depth,
}
