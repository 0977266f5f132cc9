//! The schema of a custom resource as its author wrote it.

use std::fmt;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Kept as text, which takes a tenth of what the value takes: most definitions are never looked at.
pub(crate) struct Written {
    text: Box<str>,
    digest: [u8; 32],
}

impl Written {
    /// Of a schema.
    pub(crate) fn new(schema: &Value) -> Self {
        let text = schema.to_string().into_boxed_str();
        Self { digest: Sha256::digest(text.as_bytes()).into(), text }
    }

    /// Parses it anew.
    pub(crate) fn value(&self) -> Value {
        // What a value was written to can be read.
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

/// Tells it from any other.
impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_reads_as_it_was_written_and_is_told_from_others() {
        let schema = json!({"type": "object", "properties": {"a": {"default": [1, null, "ü\n"]}}});
        let written = Written::new(&schema);
        assert_eq!(written.value(), schema);
        assert_ne!(format!("{written:?}"), format!("{:?}", Written::new(&json!({"type": "object"}))));
    }
}
