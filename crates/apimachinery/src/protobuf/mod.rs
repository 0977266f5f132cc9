//! The protobuf form of built-in kinds, which Go's typed clients speak: objects in JSON to messages and back.
//!
//! Names and types are the schema's; [`Forms`] adds the field numbers. What is written is, byte for byte, what Go's generated code writes:
//! fields in the order of their numbers, values that are no pointers even where they are empty.

mod decode;
mod encode;
mod envelope;
mod forms;
mod leaf;
mod wire;

#[cfg(test)]
mod tests;

pub use envelope::{FRAME_HEAD, Unknown, add_item, event, is_sealed, open, seal};
pub use forms::Forms;

/// Bytes that are no protobuf of the kind expected, or an object that has no such form.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There are no bytes.
    #[error("empty data")]
    Nothing,
    /// They do not begin with the four bytes every object in protobuf begins with.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// Nothing follows those.
    #[error("empty body")]
    Empty,
    /// They end within a field.
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
    /// A value that its type does not have.
    #[error("proto: field {field} is not {wanted}")]
    Value {
        /// Where.
        field: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// The kind has no protobuf form.
    #[error("object *{0} does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message")]
    NoForm(String),
    /// Messages within messages beyond any sense.
    #[error("proto: message nested too deeply")]
    Depth,
}
