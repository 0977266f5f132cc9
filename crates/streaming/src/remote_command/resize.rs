//! Sizes of a client's terminal.

use serde::Deserialize;
use tokio::io::AsyncReadExt;

use crate::Reader;

/// One size is a few dozen bytes.
const MOST: usize = 4096;

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// Reads sizes as a client sends them: JSON objects, one after another.
pub struct Resizes {
    reader: Reader,
    pending: Vec<u8>,
}

impl Resizes {
    /// From [`super::Session`]'s `resize`.
    pub fn new(reader: Reader) -> Self {
        Self { reader, pending: Vec::new() }
    }

    /// The next size; `None` at the end, or after what is none.
    pub async fn next(&mut self) -> Option<TerminalSize> {
        loop {
            match first(&mut self.pending) {
                Ok(Some(size)) => return Some(size),
                Ok(None) if self.pending.len() < MOST => {}
                _ => return None,
            }
            let mut piece = [0; 256];
            let read = self.reader.read(&mut piece).await.ok().filter(|read| *read > 0)?;
            self.pending.extend_from_slice(&piece[..read]);
        }
    }
}

/// Takes the first size out of `pending`; `None` while it is not complete.
fn first(pending: &mut Vec<u8>) -> serde_json::Result<Option<TerminalSize>> {
    let mut sizes = serde_json::Deserializer::from_slice(pending).into_iter::<TerminalSize>();
    let size = match sizes.next() {
        Some(Ok(size)) => size,
        Some(Err(error)) if !error.is_eof() => return Err(error),
        _ => return Ok(None),
    };
    let end = sizes.byte_offset();
    pending.drain(..end);
    Ok(Some(size))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(chunks: Vec<Vec<u8>>) -> Vec<TerminalSize> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let stream = futures::stream::iter(chunks.into_iter().map(std::io::Result::Ok).map(|c| c.map(std::io::Cursor::new)));
            let mut resizes = Resizes::new(Box::new(tokio_util::io::StreamReader::new(stream)));
            let mut sizes = Vec::new();
            while let Some(size) = resizes.next().await {
                sizes.push(size);
            }
            sizes
        })
    }

    #[test]
    fn sizes_follow_one_another_however_they_are_cut() {
        let text = b"{\"Width\":80,\"Height\":24}\n{\"Width\":100,\"Height\":30}";
        let sizes = [TerminalSize { width: 80, height: 24 }, TerminalSize { width: 100, height: 30 }];
        assert_eq!(all(vec![text.to_vec()]), sizes);
        assert_eq!(all(text.chunks(7).map(<[u8]>::to_vec).collect()), sizes);
    }

    #[test]
    fn what_is_no_size_ends_them() {
        assert_eq!(all(vec![b"{\"Width\":1,\"Height\":2}nonsense".to_vec()]).len(), 1);
        assert_eq!(all(vec![b" ".repeat(1 << 20)]), []);
    }

    proptest! {
        #[test]
        fn nothing_makes_the_reader_panic(chunks: Vec<Vec<u8>>) {
            let _ = all(chunks);
        }
    }
}
